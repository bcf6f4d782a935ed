package transport

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Sizes of a link's output.
const (
	pieceBytes  = 256 << 10 // written at once; Progress grows by it
	spareBytes  = 4 << 20   // a buffer up to this is used again
	streamBytes = 128 << 10 // gathered of what a stream writes
)

func (l *link) send(ps []zab.Packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		return
	}
	left := 0
	for i := range ps {
		left += packetSize(ps[i])
	}
	for i := range ps {
		size := packetSize(ps[i])
		if free := cap(l.mu.out) - len(l.mu.out); free < size {
			l.mu.out = slices.Grow(l.mu.out, l.roomLocked(size, left))
		}
		l.mu.out = AppendPacket(l.mu.out, ps[i])
		l.mu.unsent += size
		left -= size
		if len(l.mu.out) >= pieceBytes && left > 0 && !l.mu.writing {
			// A long run goes through one buffer that stays in the processor's
			// cache, not through one of its own size.
			if l.flushLocked(); l.mu.err != nil {
				return
			}
		}
	}
	if l.mu.unsent > l.t.o.MaxQueueBytes {
		l.failLocked(fmt.Errorf("%w: %d bytes wait, the limit is %d", ErrSlow, l.mu.unsent, l.t.o.MaxQueueBytes))
		return
	}
	l.flushLocked()
}

// roomLocked says how much more the output should hold when a packet of size
// bytes finds no room in it and left bytes, its own included, are to come: all
// that, if somebody else writes meanwhile or nobody can, else a piece.
// REQUIRES: l.mu.
func (l *link) roomLocked(size, left int) int {
	if l.mu.up && !l.mu.writing {
		return max(size, min(left, pieceBytes+pieceBytes/4-len(l.mu.out)))
	}
	return left
}

func (l *link) queueStream(f func(w io.Writer) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		return
	}
	l.mu.streams = append(l.mu.streams, queuedStream{l.mu.out, f})
	l.mu.out = nil
	l.flushLocked()
}

// flushLocked has the output written, unless somebody is at it: by the caller
// what the socket takes without blocking, by the writer what is left. It
// releases l.mu while it writes. REQUIRES: l.mu.
func (l *link) flushLocked() {
	for l.mu.up && !l.mu.writing && l.mu.err == nil && len(l.mu.out)+len(l.mu.streams) > 0 {
		l.mu.writing = true
		if l.raw == nil || len(l.mu.streams) > 0 {
			l.t.wg.Go(func() { l.write(nil, 0) })
			return
		}
		buf := l.mu.out
		l.mu.out, l.mu.spare = l.mu.spare, nil
		l.mu.Unlock()
		n, err := l.push(buf)
		l.mu.Lock()
		l.takenLocked(n)
		switch {
		case err != nil:
			l.failLocked(fmt.Errorf("transport: write: %w", err))
		case n < len(buf):
			l.t.wg.Go(func() { l.write(buf, n) })
			return
		}
		l.recycleLocked(buf)
		l.idleLocked()
	}
}

// takenLocked counts what the peer has taken. REQUIRES: l.mu.
func (l *link) takenLocked(n int) {
	if l.mu.err == nil {
		l.mu.unsent -= n
	}
}

// idleLocked gives up writing. REQUIRES: l.mu, and writing is the caller's.
func (l *link) idleLocked() {
	l.mu.writing = false
	if l.mu.err != nil {
		l.mu.idle.Broadcast()
	}
}

// recycleLocked keeps a buffer for the next output. REQUIRES: l.mu.
func (l *link) recycleLocked(buf []byte) {
	if l.mu.err == nil && cap(buf) > cap(l.mu.spare) && cap(buf) <= spareBytes {
		l.mu.spare = buf[:0]
	}
}

// push writes what the socket takes at once.
func (l *link) push(b []byte) (n int, err error) {
	l.pushing, l.pushed, l.pushErr = b, 0, nil
	err = l.raw.Write(l.pollWrite)
	l.pushing = nil
	l.traffic.Add(uint64(l.pushed))
	if err == nil {
		err = l.pushErr
	}
	return l.pushed, err
}

// writeReady writes once; it never asks to be called again.
func (l *link) writeReady(fd uintptr) bool {
	for {
		n, err := rawio.Write(fd, l.pushing)
		switch err {
		case nil:
			l.pushed = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			l.pushErr = err
		}
		return true
	}
}

// write is the writer goroutine: it sends buf[sent:], and then all that there is.
func (l *link) write(buf []byte, sent int) {
	err := l.writeQueued(buf, sent)
	for {
		if err != nil {
			l.fail(err) // and take finds nothing
		}
		buf, f := l.take()
		switch {
		case f != nil:
			err = l.writeStream(f)
		case buf != nil:
			err = l.writeQueued(buf, 0)
		default:
			return
		}
	}
}

// take returns what is to be written next; if there is nothing, the caller has
// ceased to be who writes.
func (l *link) take() (buf []byte, f func(w io.Writer) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.streams) > 0 {
		next := &l.mu.streams[0]
		if len(next.before) > 0 {
			buf, next.before = next.before, nil
			return buf, nil
		}
		f = next.f
		l.mu.streams[0] = queuedStream{}
		if l.mu.streams = l.mu.streams[1:]; len(l.mu.streams) == 0 {
			l.mu.streams = nil
		}
		return nil, f
	}
	if len(l.mu.out) > 0 {
		buf = l.mu.out
		l.mu.out, l.mu.spare = l.mu.spare, nil
		return buf, nil
	}
	l.idleLocked()
	return nil, nil
}

// writeQueued writes buf[sent:], which is counted in unsent.
func (l *link) writeQueued(buf []byte, sent int) error {
	for sent < len(buf) {
		n, err := l.nc.Write(buf[sent:min(len(buf), sent+pieceBytes)])
		sent += n
		l.traffic.Add(uint64(n))
		l.mu.Lock()
		l.takenLocked(n)
		l.mu.Unlock()
		if err != nil {
			return fmt.Errorf("transport: write: %w", err)
		}
	}
	l.mu.Lock()
	l.recycleLocked(buf)
	l.mu.Unlock()
	return nil
}

// writeStream runs f.
func (l *link) writeStream(f func(w io.Writer) error) error {
	w := bufio.NewWriterSize(streamWriter{l}, streamBytes)
	err := f(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("transport: stream: %w", err)
	}
	return nil
}

// streamWriter writes to the socket in pieces.
type streamWriter struct{ l *link }

// Write blocks until the peer has taken b (io.Writer).
func (w streamWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = w.l.nc.Write(b[n:min(len(b), n+pieceBytes)])
		w.l.traffic.Add(uint64(k))
		n += k
	}
	return n, err
}
