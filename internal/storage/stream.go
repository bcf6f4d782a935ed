package storage

import (
	"bufio"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/pinfold-zk/pinfold/zk"
)

// ReadSnapshotFrom reads a snapshot from a stream, in any of the compressions that a
// server writes. name is that of the stream in errors. The caller owns src and closes it
// after the reader. A stream that is no snapshot is an *Error of ErrCorrupt; an error of
// src is returned as it is.
func ReadSnapshotFrom(src io.Reader, name string) (*SnapshotReader, error) {
	r := &SnapshotReader{name: name}
	in := bufio.NewReader(src)
	begin, err := in.Peek(len(gzipMagic))
	if err != nil && err != io.EOF {
		return nil, err
	}
	var content io.Reader = in
	switch string(begin) {
	case gzipMagic:
		content, err = gzip.NewReader(in)
	case snappyMagic[:len(gzipMagic)]:
		content, err = newSnappyReader(in)
	default:
		err = nil
	}
	if err != nil {
		return nil, r.readError(0, err)
	}
	r.chunks = newChunks(content, chunkBytes)
	return r, r.header()
}

// gzipMagic begins a gzip file.
const gzipMagic = "\x1f\x8b"

// MoveTo makes the snapshot one of another zxid. It is called before Commit.
func (w *SnapshotWriter) MoveTo(zxid zk.Zxid) {
	w.zxid, w.name = zxid, snapshotPrefix+zxid.Hex()+w.compression.suffix()
}

// Sync makes durable what was written so far, so that Commit need not wait for it.
func (w *SnapshotWriter) Sync() error {
	if w.err != nil {
		return w.err
	}
	return errors.Join(w.out.Flush(), w.file.Sync())
}
