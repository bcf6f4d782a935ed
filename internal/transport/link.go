package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// link is a learner link. Its goroutine, the reader, runs from Dial or accept to
// LinkDown. Output is appended to mu.out by whoever sends; one at a time writes
// it: who has sent, as much as the socket takes, or the writer goroutine, which
// exists while there is more, or a stream.
type link struct {
	t      *Transport
	id     zab.LinkID
	dialed bool
	peer   int64  // who was dialled
	remote string // the other end's address; the reader's

	// Of an accepted link, guarded by Transport.mu.
	silent bool // no packet has come yet
	gone   bool // not counted any more

	in      input         // the reader's
	ps      []zab.Packet  // the reader's
	traffic atomic.Uint64 // bytes read and written

	// Of the socket; set by the reader before mu.up.
	nc  net.Conn
	raw syscall.RawConn // nil: there is no writing without blocking

	// Owned by who has set mu.writing.
	pollWrite func(fd uintptr) bool
	pushing   []byte
	pushed    int
	pushErr   error

	mu struct {
		sync.Mutex
		idle    sync.Cond // writing became false
		up      bool      // there is a socket to write to
		err     error     // why the link has ended, nil while it has not
		cancel  context.CancelFunc
		writing bool

		streams []queuedStream // to be sent before out
		out     []byte
		spare   []byte // for out
		unsent  int    // bytes in out, before streams, and in the writer's hands
	}
}

// queuedStream is a place in the output where a function writes.
type queuedStream struct {
	before []byte // packets that come first
	f      func(w io.Writer) error
}

// addLinkLocked makes a link. REQUIRES: t.mu.
func (t *Transport) addLinkLocked() *link {
	t.mu.lastLink++
	l := &link{t: t, id: t.mu.lastLink}
	l.mu.idle.L = &l.mu.Mutex
	l.in.traffic = &l.traffic
	l.pollWrite = l.writeReady
	t.mu.links[l.id] = l
	return l
}

// attach gives the link its socket. It reports whether the link still wants it;
// if not it is closed.
func (l *link) attach(nc net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		nc.Close() // an error changes nothing: nobody has used it
		return false
	}
	l.nc, l.in.src, l.remote = nc, nc, remoteName(nc)
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			l.raw = raw
		}
	}
	if l.raw != nil {
		l.in.src = &rawSource{raw: l.raw}
	}
	return true
}

// rawSource reads from a socket without waking the scheduler.
type rawSource struct {
	raw syscall.RawConn
	p   []byte
	n   int
	err error
}

// Read implements io.Reader.
func (s *rawSource) Read(p []byte) (int, error) {
	s.p = p
	err := s.raw.Read(s.ready)
	s.p = nil
	switch {
	case err != nil:
		return 0, err
	case s.err != nil:
		return 0, s.err
	case s.n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return s.n, nil
}

// ready reads if there is something to read.
func (s *rawSource) ready(fd uintptr) bool {
	for {
		n, err := rawio.Read(fd, s.p)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		s.n, s.err = max(n, 0), err
		return true
	}
}

// runDialed is the reader of a link that is to be dialled.
func (l *link) runDialed(ctx context.Context) {
	defer l.end()
	nc, err := l.t.dialLeader(ctx, l.peer)
	if err != nil {
		l.fail(err)
		return
	}
	if l.attach(nc) {
		l.serve()
	}
}

// runAccepted is the reader of a link that the quorum port has let in.
func (l *link) runAccepted() {
	defer l.end()
	_ = l.nc.SetReadDeadline(time.Now().Add(l.t.o.HandshakeTimeout)) // fails only if closed, as the read will
	l.serve()
}

// serve reads until the link ends.
func (l *link) serve() {
	l.t.h.LinkUp(l.id, l.remote, l.dialed)
	l.mu.Lock()
	l.mu.up = true
	l.flushLocked()
	l.mu.Unlock()
	for {
		if err := l.in.fill(); err != nil {
			l.fail(l.readError(err))
			return
		}
		if err := l.handOver(); err != nil {
			l.fail(err)
			return
		}
	}
}

// handOver gives the handler what is buffered, snapshots included.
func (l *link) handOver() error {
	for {
		ps, err := l.in.packets(l.ps[:0], l.t.o.MaxPacketBytes)
		l.ps = ps
		if len(ps) == 0 {
			return err
		}
		l.spoken()
		if last := ps[len(ps)-1]; last.Type == zab.Snap {
			if err := l.takeSnapshot(last); err != nil {
				return err
			}
			continue // more packets may be behind it
		}
		l.t.h.Packets(l.id, ps)
		clear(ps) // what the handler has dropped is not kept by this
		if err != nil {
			return err
		}
	}
}

// takeSnapshot hands over the packets up to a SNAP, the snapshot, and then the
// SNAP, which is the last of l.ps.
func (l *link) takeSnapshot(snap zab.Packet) error {
	if !l.dialed {
		return fmt.Errorf("%w: a SNAP from a learner", ErrPacket)
	}
	if before := l.ps[:len(l.ps)-1]; len(before) > 0 {
		l.t.h.Packets(l.id, before)
	}
	s := l.in.beginStream()
	if err := l.t.h.Snapshot(l.id, snap.Zxid, s); err != nil {
		return fmt.Errorf("transport: snapshot at %v from %s: %w", snap.Zxid, l.remote, err)
	}
	if err := s.end(); err != nil {
		return err
	}
	l.ps = append(l.ps[:0], snap)
	l.t.h.Packets(l.id, l.ps)
	clear(l.ps)
	return nil
}

// spoken notes the first packet of an accepted link.
func (l *link) spoken() {
	if l.dialed || !l.silent { // only the reader sets it to false
		return
	}
	l.t.mu.Lock()
	l.silent = false
	l.t.mu.Unlock()
	_ = l.nc.SetReadDeadline(time.Time{}) // fails only if closed
}

// readError says what the end of a read means.
func (l *link) readError(err error) error {
	switch {
	case err == io.EOF && l.in.w > l.in.r:
		return errors.New("transport: the peer has closed the link within a packet")
	case err == io.EOF:
		return errors.New("transport: the peer has closed the link")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w (%v)", ErrSilent, l.t.o.HandshakeTimeout)
	}
	return fmt.Errorf("transport: read: %w", err)
}

// fail ends the link, the first reason counts. The reader does the rest.
func (l *link) fail(reason error) {
	l.mu.Lock()
	l.failLocked(reason)
	l.mu.Unlock()
}

// failLocked is fail. REQUIRES: l.mu.
func (l *link) failLocked(reason error) {
	if l.mu.err != nil {
		return
	}
	l.mu.err = reason
	l.mu.out, l.mu.spare, l.mu.streams, l.mu.unsent = nil, nil, nil, 0
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
	if l.nc != nil {
		l.nc.Close() // an error changes nothing: reading and writing end
	}
}

// end is the last that the reader does.
func (l *link) end() {
	l.mu.Lock()
	for l.mu.writing {
		l.mu.idle.Wait()
	}
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
	reason := l.mu.err
	l.mu.Unlock()
	l.t.forget(l)
	if stranger := errors.Is(reason, ErrPacket) || errors.Is(reason, ErrSilent) || errors.Is(reason, ErrCrowded); stranger {
		l.t.refused.note("quorum port", l.remote, reason)
	}
	l.t.h.LinkDown(l.id, reason)
}

// forget takes a link out of the tables.
func (t *Transport) forget(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.links, l.id)
	t.discountLocked(l)
}

// discountLocked stops counting an accepted link. REQUIRES: t.mu.
func (t *Transport) discountLocked(l *link) {
	if !l.dialed && !l.gone {
		l.gone = true
		t.mu.accepted--
	}
}
