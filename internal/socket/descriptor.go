package socket

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

const (
	// recordBytes is how many plain bytes a record of TLS has, at most.
	recordBytes = 16 << 10
	// groupBytes is how many plain bytes a layer gets at a time. Their records are written
	// by one system call. It bounds what a layer encodes ahead of the descriptor.
	groupBytes = 4 * recordBytes
	// groupRoom is room for the records of groupBytes, also if each is a quarter full.
	groupRoom = groupBytes + 1<<10
)

// groups are buffers for the records of a group.
var groups = sync.Pool{New: func() any { b := make([]byte, 0, groupRoom); return &b }}

// errWouldBlock is the error of a non-blocking read when nothing has arrived. It is a
// temporary net.Error: crypto/tls keeps its state and continues later. Its type is error because each read compares
// it: a net.Error would be converted each time.
var errWouldBlock error = &wouldBlock{}

var _ net.Error = &wouldBlock{}

type wouldBlock struct{}

func (*wouldBlock) Error() string   { return "socket: nothing to read yet" }
func (*wouldBlock) Timeout() bool   { return true }
func (*wouldBlock) Temporary() bool { return true }

// descriptorWriter writes to a descriptor. One goroutine at a time uses it.
type descriptorWriter struct {
	poll func(fd uintptr) bool
	b    []byte // what is to be written
	err  error
	wait bool
}

func (w *descriptorWriter) init() { w.poll = w.ready }

// write writes all of b if wait is true, otherwise what the descriptor of raw accepts at once.
// It returns how many bytes were written.
func (w *descriptorWriter) write(raw syscall.RawConn, b []byte, wait bool) (int, error) {
	w.b, w.err, w.wait = b, nil, wait
	err := raw.Write(w.poll)
	n := len(b) - len(w.b)
	w.b = nil
	if err == nil {
		err = w.err
	}
	return n, err
}

// ready writes. It returns false, so that it is called again when the descriptor
// accepts more, only if the caller of write waits.
func (w *descriptorWriter) ready(fd uintptr) bool {
	for {
		n, errno := rawio.Write(fd, w.b)
		w.b = w.b[n:]
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return !w.wait
		case errno != 0:
			w.err = errno
			return true
		case len(w.b) == 0 || !w.wait:
			return true
		}
	}
}

// records is the connection below a layer. Once the handshake is over, it reads and
// writes the layer's records without blocking.
type records struct {
	net.Conn // for addresses, deadlines, and the handshake

	raw      syscall.RawConn // of Conn
	blocking atomic.Bool     // during a handshake reads and writes block
	fd       uintptr         // the descriptor for Read; owned by the reader

	ahead atomic.Int64 // bytes of the backlog

	mu      sync.Mutex
	direct  descriptorWriter
	group   *[]byte // the memory of the backlog, if it is of groups
	backlog []byte  // records that the descriptor has not got yet; nil if there are none
}

func newRecords(nc net.Conn, raw syscall.RawConn) *records {
	r := &records{Conn: nc, raw: raw}
	r.direct.init()
	return r
}

// Read reads what has arrived; the error is errWouldBlock if nothing has (io.Reader).
// The layer calls it on the reader's goroutine.
func (r *records) Read(p []byte) (int, error) {
	if r.blocking.Load() {
		return r.Conn.Read(p)
	}
	return readDescriptor(r.fd, p)
}

// Write writes what the descriptor accepts and keeps the rest for flush (io.Writer). In a
// group it keeps everything. The writer calls it through the layer, and so does the reader
// when the layer answers a record itself.
func (r *records) Write(p []byte) (n int, err error) {
	if r.blocking.Load() {
		return r.Conn.Write(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backlog == nil {
		if n, err = r.direct.write(r.raw, p, false); err != nil {
			return n, err
		}
	}
	if n < len(p) {
		r.keep(p[n:])
	}
	return len(p), nil
}

// beginGroup has Write keep the records that follow, until flush. REQUIRES: there is no
// backlog; the caller is the writer.
func (r *records) beginGroup() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.backlog == nil { // the reader may have left some since
		r.group = groups.Get().(*[]byte)
		r.backlog = (*r.group)[:0]
	}
}

// keep appends to the backlog. REQUIRES: r.mu.
func (r *records) keep(p []byte) {
	r.backlog = append(r.backlog, p...)
	r.ahead.Store(int64(len(r.backlog)))
}

// flush writes the backlog: all of it if wait is true. empty reports whether nothing is
// left.
func (r *records) flush(wait bool) (empty bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.backlog) > 0 {
		var n int
		n, err = r.direct.write(r.raw, r.backlog, wait)
		r.backlog = r.backlog[n:]
		r.ahead.Store(int64(len(r.backlog)))
	}
	if len(r.backlog) == 0 {
		if r.group != nil {
			groups.Put(r.group)
		}
		r.group, r.backlog = nil, nil
	}
	return r.backlog == nil, err
}
