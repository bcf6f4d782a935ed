package kerberos

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"
)

// replayFile is a replay cache in two files, one for each generation: that of the present
// one has the name, that of the one before .old after it. Each has the time in seconds at
// which its generation ends, rounded up, in 8 bytes, and then the digests. It is written and not
// synced: it survives the end of the process, and a crash of the machine but for the last
// seconds.
//
// If it cannot be read or written, the log has a line, and logins go on: a restart forgets
// them then. The methods of nil do nothing. One goroutine at a time uses it.
type replayFile struct {
	name string
	log  *slog.Logger
	out  *os.File // of the present generation; nil: nothing is written until the next one
}

const (
	replayHeader = 8
	oldReplays   = ".old"
)

// A generation is the content of one file; its set is nil if there is none.
type generation struct {
	ends time.Time
	set  map[digest]struct{}
}

// load returns the generations, of at most most logins each, and opens the file to go on
// with the present one. Bytes at its end that are no digest are dropped. If the end of the
// process has interrupted begin, the older generation is the present one.
func (f *replayFile) load(most int) (present, old generation) {
	old, err := readReplays(f.name+oldReplays, most)
	if err == nil {
		present, err = readReplays(f.name, most)
	}
	if err == nil && present.set == nil {
		if old.set == nil {
			return present, old
		}
		present, old = old, generation{}
		err = os.Rename(f.name+oldReplays, f.name)
	}
	if err == nil {
		f.out, err = os.OpenFile(f.name, os.O_WRONLY, 0)
	}
	whole := replayHeader + int64(len(present.set))*int64(len(digest{}))
	if err == nil {
		err = f.out.Truncate(whole)
	}
	if err == nil {
		_, err = f.out.Seek(whole, io.SeekStart)
	}
	f.fail(err)
	return present, old
}

// readReplays reads one file. Without a file the result has no set.
func readReplays(name string, most int) (g generation, err error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	} else if err != nil {
		return g, err
	}
	defer file.Close() // read only
	b, err := io.ReadAll(io.LimitReader(file, replayHeader+int64(most)*int64(len(digest{}))))
	if err != nil || len(b) < replayHeader {
		return g, err
	}
	g.ends, g.set = time.Unix(int64(binary.BigEndian.Uint64(b)), 0), map[digest]struct{}{}
	for b = b[replayHeader:]; len(b) >= len(digest{}); b = b[len(digest{}):] {
		g.set[digest(b)] = struct{}{}
	}
	return g, nil
}

// begin begins a generation.
func (f *replayFile) begin(ends time.Time) {
	if f == nil {
		return
	}
	f.close()
	err := os.Rename(f.name, f.name+oldReplays)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		f.out, err = os.OpenFile(f.name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	}
	if err == nil {
		_, err = f.out.Write(binary.BigEndian.AppendUint64(nil, uint64(ends.Unix()+1)))
	}
	f.fail(err)
}

// add writes an entry of the present generation.
func (f *replayFile) add(key digest) {
	if f == nil || f.out == nil {
		return
	}
	_, err := f.out.Write(key[:])
	f.fail(err)
}

// fail writes nothing more after an error, until the next generation.
func (f *replayFile) fail(err error) {
	if err != nil {
		f.log.Warn("logins by Kerberos cannot be kept on the disk: after a restart they could be repeated", "err", err)
		f.close()
	}
}

func (f *replayFile) close() {
	if f.out != nil {
		_ = f.out.Close() // what could not be written was reported
		f.out = nil
	}
}
