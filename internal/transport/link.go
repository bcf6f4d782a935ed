package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// link is a learner link. Its goroutine, the reader, runs from Dial or accept to
// LinkDown. Any goroutine may send: it appends packets to mu.out, which writes them
// (socket.Output).
type link struct {
	t      *Transport
	id     zab.LinkID
	dialed bool
	peer   int64  // the server to which the link was dialled
	master bool   // it was dialled at Options.MasterPort
	remote string // the other end's address; owned by the reader

	nc       net.Conn // of an accepted link
	address  string   // the IP address from which it was accepted
	accepted accepted // owned by the reader
	up       bool     // LinkUp was called; owned by the reader

	ended chan struct{} // closed when end has returned

	place   place
	backlog socket.Account // of the queued packets, without their data; with mu
	output  socket.Account // of the output that is not queued, and of the buffers of streams; with mu

	in input        // owned by the reader
	ps []zab.Packet // owned by the reader

	sock atomic.Pointer[socket.Conn] // nil until attach

	mu struct {
		sync.Mutex
		err      error // why the link has ended; nil before
		cancel   context.CancelFunc
		out      socket.Output
		queue    packetQueue
		observer bool // the learner has sent OBSERVERINFO, or is no member
		counts   linkCounts
	}
}

// addLinkLocked creates a link. REQUIRES: t.mu.
func (t *Transport) addLinkLocked() *link {
	t.mu.lastLink++
	l := &link{t: t, id: t.mu.lastLink, ended: make(chan struct{})}
	l.mu.out.Init(&l.mu.Mutex, l, t.outputs)
	l.in.account.Init(t.buffers, chunkBytes)
	l.output.Init(t.buffers, socket.FreeBytes)
	l.mu.out.Charge(&l.output)
	l.backlog.Init(t.backlog.followers, socket.FreeBytes) // until places.go knows better
	t.mu.links[l.id] = l
	return l
}

// attach sets the link's connection. If the link has ended meanwhile, it closes the
// connection and returns false.
func (l *link) attach(sock *socket.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		sock.Close() // an error changes nothing: nothing was sent
		return false
	}
	l.in.src, l.remote = sock, remoteName(sock)
	l.mu.counts = linkCounts{remote: l.remote, since: time.Now()}
	l.sock.Store(sock)
	return true
}

// runDialed is the reader of a link that this server dials.
func (l *link) runDialed(ctx context.Context) {
	sock, err := l.t.dialLeader(ctx, l.peer, l.master)
	if err == nil && !l.attach(sock) {
		l.end()
		return
	}
	if err == nil {
		err = l.prove(ctx)
	}
	l.serve(err)
}

// runAccepted is the reader of a link that the quorum port has accepted.
func (l *link) runAccepted() {
	l.t.awaitPenalty(l.address, l.in.account.Closed())
	sock, deadline := l.sock.Load(), time.Now().Add(l.t.o.HandshakeTimeout)
	var err error
	l.accepted, err = l.t.secureAccepted(l.nc, sock, l.in.account.Closed(), func(config *tls.Config, inTurns func(net.Conn) net.Conn) (layer *tls.Conn, handshake func() error) {
		sock.AddLayer(func(nc net.Conn) net.Conn {
			layer = tls.Server(inTurns(nc), config)
			return layer
		})
		return layer, sock.Handshake
	})
	if err == nil {
		_ = sock.SetReadDeadline(deadline) // fails only if closed; then the read fails too
		err = l.admit(deadline)
	}
	l.serve(err)
}

// serve begins to read, unless the link could not be made for the reason err.
func (l *link) serve(err error) {
	if err != nil {
		l.fail(err)
		l.end()
		return
	}
	l.up = true
	l.t.h.LinkUp(l.id, l.remote, l.dialed)
	l.mu.Lock()
	l.mu.out.Attach(l.sock.Load())
	l.mu.out.Flush(false)
	l.mu.Unlock()
	l.read()
}

// StandIn starts another reader (Reader).
func (l *link) StandIn() { l.t.wg.Go(l.read) }

// read reads until the link ends, or until another goroutine reads in place of this one, which
// waits for the disk (StandIn). It begins with what admit has looked at, which may be a
// packet.
func (l *link) read() {
	for {
		if err := l.handOver(); err != nil {
			l.fail(err)
			break
		}
		if !l.t.h.Work(l) {
			return
		}
		if err := l.in.fill(); err != nil {
			l.fail(l.readError(err))
			break
		}
	}
	l.end()
}

// handOver hands the buffered packets and snapshots to the handler.
func (l *link) handOver() error {
	for {
		ps, err := l.in.packets(l.ps[:0], l.t.o.MaxPacketBytes)
		l.ps = ps
		if len(ps) == 0 {
			return err
		}
		l.countReceived(ps)
		if err := l.notePackets(ps); err != nil {
			return err
		}
		if last := ps[len(ps)-1]; last.Type == zab.Snap {
			if err := l.handOverSnapshot(last); err != nil {
				return err
			}
			continue // more packets may follow
		}
		l.t.h.Packets(l.id, ps, l.in.chunk.lend())
		clear(ps) // do not keep what the handler has dropped
		if err != nil {
			return err
		}
	}
}

// handOverSnapshot hands over the packets before a SNAP, the snapshot, and then the
// SNAP, which is the last of l.ps.
func (l *link) handOverSnapshot(snap zab.Packet) error {
	if !l.dialed {
		return fmt.Errorf("%w: a SNAP from a learner", ErrPacket)
	}
	if before := l.ps[:len(l.ps)-1]; len(before) > 0 {
		l.t.h.Packets(l.id, before, l.in.chunk.lend())
		l.t.h.Work(nil)
	}
	s, err := l.in.beginStream()
	if err != nil {
		return err
	}
	if err := l.t.h.Snapshot(l.id, snap.Zxid, s); err != nil {
		return fmt.Errorf("transport: snapshot at %v from %s: %w", snap.Zxid, l.remote, err)
	}
	if err := s.end(); err != nil {
		return err
	}
	l.ps = append(l.ps[:0], snap)
	l.t.h.Packets(l.id, l.ps, nil)
	clear(l.ps)
	return nil
}

// readError returns the reason for the end of a read.
func (l *link) readError(err error) error {
	switch {
	case err == io.EOF && l.in.w > l.in.r:
		return errors.New("transport: the peer has closed the link in the middle of a packet")
	case err == io.EOF:
		return errors.New("transport: the peer has closed the link")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w (%v)", ErrSilent, l.t.o.HandshakeTimeout)
	}
	return fmt.Errorf("transport: read: %w", err)
}

// fail ends the link. The first reason counts. The reader cleans up.
func (l *link) fail(reason error) {
	l.mu.Lock()
	l.failLocked(reason)
	l.mu.Unlock()
}

// failLocked is fail with the lock held. REQUIRES: l.mu.
func (l *link) failLocked(reason error) {
	if l.mu.err != nil {
		return
	}
	l.mu.err = reason
	l.in.account.Close()
	l.mu.out.Stop()
	l.dropQueueLocked()
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
	if sock := l.sock.Load(); sock != nil {
		sock.Close() // an error changes nothing: reading and writing end
	}
}

// end cleans up after the link; the reader calls it last.
func (l *link) end() {
	defer close(l.ended)
	l.mu.Lock()
	l.mu.out.AwaitIdle()
	if l.mu.cancel != nil {
		l.mu.cancel()
	}
	reason := l.mu.err
	l.mu.Unlock()
	l.in.close()
	l.t.forget(l)
	is := func(target error) bool { return errors.Is(reason, target) }
	if !l.dialed && slices.ContainsFunc([]error{ErrPacket, ErrSilent, ErrCrowded, ErrTLS, ErrIdentity, errLogin}, is) {
		l.t.noteLoginEnd(l.accepted, l.address, reason)
		l.t.logRefused("quorum port", l.remote, reason)
	}
	if l.up || l.dialed {
		l.t.h.LinkDown(l.id, reason)
	}
}

// forget removes a link from the tables.
func (t *Transport) forget(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.links, l.id)
}
