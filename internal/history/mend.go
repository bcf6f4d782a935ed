package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// What Apache's TxnLogToolkit puts before a line.
const (
	crcError = "CRC ERROR - "
	crcFixed = "CRC FIXED - "
)

// A Recovery copies a log file, and gives each entry whose checksum is wrong a right one.
// The result is read again by a server, but holds what the damage has made of the
// transactions. Apache's is TxnLogToolkit -r.
type Recovery struct {
	Out      io.Writer
	In       io.Reader // the answers to the questions
	Yes      bool      // fix all, and ask nothing
	Verbose  bool      // print all transactions
	MaxEntry int

	answers *bufio.Reader
	fixed   int
	count   int
}

// ErrAborted reports that a question was answered with Abort.
var ErrAborted = errors.New("recovery aborted")

// errUnwritable reports that the copy exists or cannot be made.
func errUnwritable(name string) error {
	return fmt.Errorf("recovery file %s already exists or not writable", name)
}

// Run writes name.fixed. It fails if that exists.
func (c *Recovery) Run(name string) error {
	r, err := storage.OpenEntries(vfs.OS{}, name, c.MaxEntry)
	if err != nil {
		return err
	}
	c.answers = bufio.NewReader(c.In)
	to := name + ".fixed"
	err = printLogHead(c.Out, r)
	if err == nil {
		err = c.write(r, to)
	}
	return errors.Join(err, r.Close())
}

func (c *Recovery) write(r *storage.EntryReader, to string) error {
	err := copyEntries(r, to, func(b []byte, e storage.Entry) ([]byte, error) {
		c.count++
		return c.entry(b, e)
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Out, "EOF reached after %d txns.\nRecovery file %s has been written with %d fixed CRC error(s)\n",
		c.count, to, c.fixed)
	return err
}

// entry appends the entry to b, fixed if that is wanted.
func (c *Recovery) entry(b []byte, e storage.Entry) ([]byte, error) {
	line := "" // of a transaction that cannot be decoded, Apache stops with an exception
	if tx, err := txn.Decode(e.Payload); err == nil {
		line = apacheLine(&tx)
	}
	sum := e.Sum
	if !e.Valid {
		fix, err := c.ask(line)
		if err != nil {
			return nil, err
		}
		if fix {
			c.fixed++
			b = storage.AppendEntry(b, e.Payload)
			if c.Yes {
				if _, err := fmt.Fprintf(c.Out, "%s%s\n", crcFixed, line); err != nil {
					return nil, err
				}
			}
			return b, c.say(line)
		}
	}
	return storage.AppendEntrySum(b, e.Payload, sum), c.say(line)
}

// say prints a line if all are wanted.
func (c *Recovery) say(line string) error {
	if !c.Verbose {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, line)
	return err
}

// ask asks whether an entry is to be fixed. The end of the answers is Abort.
func (c *Recovery) ask(line string) (fix bool, err error) {
	if c.Yes {
		return true, nil
	}
	if _, err := fmt.Fprintf(c.Out, "%s%s\n", crcError, line); err != nil {
		return false, err
	}
	for {
		if _, err := fmt.Fprint(c.Out, "Would you like to fix it (Yes/No/Abort) ? "); err != nil {
			return false, err
		}
		answer, err := c.answers.ReadString('\n')
		switch strings.ToLower(answer[:min(1, len(strings.TrimSpace(answer)))]) {
		case "y":
			return true, nil
		case "n":
			return false, nil
		case "a":
			return false, ErrAborted
		}
		if err != nil {
			return false, ErrAborted
		}
	}
}

// copyEntries copies a log file, each entry through form, which appends it to b. The copy
// is made under a temporary name, and fails if the file to exists.
func copyEntries(r *storage.EntryReader, to string, form func(b []byte, e storage.Entry) ([]byte, error)) error {
	if _, err := os.Lstat(to); err == nil {
		return errUnwritable(to)
	}
	tmp := filepath.Join(filepath.Dir(to), "tmp."+filepath.Base(to))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return errors.Join(errUnwritable(to), err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	_, err = w.Write(storage.AppendLogHeader(nil, r.Dbid()))
	for err == nil {
		var e storage.Entry
		var b []byte
		if e, err = r.Next(); err != nil {
			break
		}
		if b, err = form(w.AvailableBuffer(), e); err == nil {
			_, err = w.Write(b)
		}
	}
	if err == io.EOF || err == errEnough {
		err = errors.Join(w.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, to)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errEnough ends a copy before the file's end.
var errEnough = errors.New("enough")

// Chop copies the transactions of a log file up to last to the file to, which must not
// exist; last must be in the file. It prints where zxids are missing, and how many
// transactions the copy has, as Apache's TxnLogToolkit -c.
func Chop(out io.Writer, name, to string, last zk.Zxid, maxEntry int) error {
	r, err := storage.OpenEntries(vfs.OS{}, name, maxEntry)
	if err != nil {
		return err
	}
	err = printLogHead(out, r)
	if err == nil {
		err = chop(out, r, name, to, last)
	}
	return errors.Join(err, r.Close())
}

func chop(out io.Writer, r *storage.EntryReader, name, to string, last zk.Zxid) error {
	count, before := 0, zk.Zxid(0)
	err := copyEntries(r, to, func(b []byte, e storage.Entry) ([]byte, error) {
		if !e.Valid {
			return nil, fmt.Errorf("%s: at byte %d: %s of %v: %w", name, e.Offset, badSum, e.Zxid, ErrDamaged)
		}
		if before == last && before != 0 && e.Zxid > last {
			return nil, errEnough
		}
		if e.Zxid > last {
			return nil, fmt.Errorf("%s does not have the zxid %v: %v is followed by %v", name, last, before, e.Zxid)
		}
		if err := printGap(out, before, e.Zxid); err != nil {
			return nil, err
		}
		count++
		before = e.Zxid
		return storage.AppendEntry(b, e.Payload), nil
	})
	if err != nil {
		return err
	}
	if before != last {
		return errors.Join(fmt.Errorf("%s ends with %v, before %v", name, before, last), os.Remove(to))
	}
	_, err = fmt.Fprintf(out, "Chopping at %s new log has %d records\n", last.Hex(), count)
	return err
}

// printGap prints that zxids are missing between two neighbours, as Apache does.
func printGap(out io.Writer, before, zxid zk.Zxid) (err error) {
	switch {
	case before == 0 || zxid == before+1:
	case zxid.Epoch() == before.Epoch():
		_, err = fmt.Fprintf(out, "There is intra-epoch gap between %s and %s\n", before.Hex(), zxid.Hex())
	case zxid.Counter() != 1:
		_, err = fmt.Fprintf(out, "There is inter-epoch gap between %s and %s\n", before.Hex(), zxid.Hex())
	}
	return err
}
