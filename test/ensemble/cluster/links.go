package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// Links are the connections between the members of an ensemble: each member
// reaches each other through two proxies of its own, one to the quorum port and
// one to the election port. Bytes from a to b can be held, which is what a
// partition does to them: they come when it heals, and so does the end of a
// connection. They can also arrive late, as over a distance. Methods may be called from
// several goroutines.
type Links struct {
	real []address        // of the members, by index
	seen map[pair]address // where from finds to
	wg   sync.WaitGroup

	mu        sync.Mutex
	change    *sync.Cond // a pair was held or let go, or the end has come
	held      map[pair]bool
	late      time.Duration     // how long bytes are on their way
	conns     map[net.Conn]pair // both ends of every connection: who dialled whom
	listeners []net.Listener
	closed    bool
}

// A pair is the direction from one member to another, by id.
type pair struct{ from, to int }

// newLinks starts the proxies.
func newLinks(real []address, ports *portPool) (*Links, error) {
	l := &Links{real: real, seen: map[pair]address{}, held: map[pair]bool{}, conns: map[net.Conn]pair{}}
	l.change = sync.NewCond(&l.mu)
	listeners := map[pair][2]net.Listener{}
	for from := range real {
		for to := range real {
			if from == to {
				continue
			}
			p := pair{from + 1, to + 1}
			quorum, err := l.listen(ports)
			if err != nil {
				l.close()
				return nil, err
			}
			election, err := l.listen(ports)
			if err != nil {
				l.close()
				return nil, err
			}
			l.seen[p] = address{host: "127.0.0.1", quorum: portOf(quorum), election: portOf(election)}
			listeners[p] = [2]net.Listener{quorum, election}
		}
	}
	for p, ln := range listeners {
		target := real[p.to-1]
		l.wg.Go(func() { l.accept(ln[0], p, target.quorum, false) })
		l.wg.Go(func() { l.accept(ln[1], p, target.election, true) })
	}
	return l, nil
}

func (l *Links) listen(ports *portPool) (net.Listener, error) {
	port, err := ports.take()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return nil, fmt.Errorf("cluster: proxy: %w", err)
	}
	l.listeners = append(l.listeners, ln)
	return ln, nil
}

func portOf(ln net.Listener) int { return ln.Addr().(*net.TCPAddr).Port }

// seenBy is where member from finds member to.
func (l *Links) seenBy(from, to int) address { return l.seen[pair{from, to}] }

// accept carries what p.from dials to reach a port of p.to, until the listener
// is closed.
func (l *Links) accept(ln net.Listener, p pair, target int, election bool) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		l.wg.Go(func() { l.serve(c, p, target, election) })
	}
}

// serve carries one connection, dialled by p.from, to the port of p.to.
func (l *Links) serve(c net.Conn, p pair, target int, election bool) {
	if !l.add(c, p) {
		return
	}
	defer l.remove(c)
	var head []byte
	if election {
		var err error
		if head, err = l.announcement(c, p); err != nil {
			return
		}
	}
	if !l.pass(p) {
		return
	}
	d, err := l.dial(target)
	if err != nil {
		return // as a member sees it, the other has closed the connection
	}
	if !l.add(d, p) {
		return
	}
	defer l.remove(d)
	if _, err := d.Write(head); err != nil {
		return
	}
	both := make(chan struct{})
	l.wg.Go(func() {
		l.pump(c, d, pair{p.to, p.from})
		close(both)
	})
	l.pump(d, c, p)
	<-both
}

// A member that dials another which does not listen yet would be refused, and
// try again. Through a proxy it is connected at once; so the proxy tries again
// for it, for that long.
const (
	dialPatience = time.Second
	dialPause    = 10 * time.Millisecond
)

func (l *Links) dial(target int) (net.Conn, error) {
	for end := time.Now().Add(dialPatience); ; {
		d, err := net.Dial("tcp", loopback(target))
		if err == nil || time.Now().After(end) || !l.pass(pair{}) {
			return d, err
		}
		<-time.After(dialPause)
	}
}

// A parcel is bytes on their way.
type parcel struct {
	bytes []byte
	due   time.Time // when they arrive
}

// roomOnTheWay is how many parcels of one direction of a connection are on their way at
// most: what the buffers of a kernel, whose windows grow with the distance, would hold.
const roomOnTheWay = 1024

// pump carries what src sends to dst, as p lets it pass and after the time that it is on its
// way, and closes both at the end: a peer that half closes a link has left it.
func (l *Links) pump(dst, src net.Conn, p pair) {
	way := make(chan parcel, roomOnTheWay)
	l.wg.Go(func() {
		l.deliver(dst, way, p)
		_ = src.Close() // an error means that it is closed
		_ = dst.Close()
		for range way { // until src has ended
		}
	})
	defer close(way)
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			way <- parcel{slices.Clone(buf[:n]), time.Now().Add(l.delay())}
		}
		if err != nil {
			return
		}
	}
}

// deliver writes parcels to dst until there are no more, or dst takes none.
func (l *Links) deliver(dst net.Conn, way <-chan parcel, p pair) {
	for c := range way {
		if wait := time.Until(c.due); wait > 0 {
			<-time.After(wait)
		}
		if !l.pass(p) {
			return
		}
		if _, err := dst.Write(c.bytes); err != nil {
			return
		}
	}
	l.pass(p) // the end comes no sooner than bytes would
}

func (l *Links) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late
}

// Delay has every byte that a member sends from now on arrive so much later: a round trip
// takes twice as long. It does not change how fast connections are opened.
func (l *Links) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = d
}

// The first message on an election link, sent by who dials it.
const (
	announceV1      = -65536
	announceV2      = -65535
	maxAnnouncement = 2048
)

var errAnnouncement = errors.New("cluster: no announcement of a server on the election port")

// announcement reads what p.from says of itself on an election link, and returns
// it with the address replaced by the one under which p.to may know it: p.to
// dials it when its id is the larger. A server of 3.4 says its id, and no address.
func (l *Links) announcement(c net.Conn, p pair) ([]byte, error) {
	var head [20]byte
	if _, err := io.ReadFull(c, head[:8]); err != nil {
		return nil, err
	}
	version := int64(binary.BigEndian.Uint64(head[:]))
	if version == int64(p.from) {
		return head[:8], nil
	}
	if _, err := io.ReadFull(c, head[8:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[16:])
	if version != announceV1 && version != announceV2 || n > maxAnnouncement {
		return nil, errAnnouncement
	}
	if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
		return nil, err
	}
	addr := loopback(l.seenBy(p.to, p.from).election)
	binary.BigEndian.PutUint32(head[16:], uint32(len(addr)))
	return append(head[:], addr...), nil
}

// pass waits until bytes may go p's way; false is the end of all links.
func (l *Links) pass(p pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held[p] && !l.closed {
		l.change.Wait()
	}
	return !l.closed
}

func (l *Links) add(c net.Conn, p pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return false
	}
	l.conns[c] = p
	return true
}

func (l *Links) remove(c net.Conn) {
	_ = c.Close() // an error means that it is closed
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// Hold holds every byte from one member to another, of connections old and new.
func (l *Links) Hold(from, to int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[pair{from, to}] = true
}

// Isolate holds every byte between the members of one side and all others.
func (l *Links) Isolate(side ...int) {
	in := map[int]bool{}
	for _, id := range side {
		in[id] = true
	}
	for a := range l.real {
		for b := range l.real {
			if in[a+1] != in[b+1] {
				l.Hold(a+1, b+1)
			}
		}
	}
}

// Heal lets everything pass. With reset the connections that were held are
// broken, as when the partition has outlived the senders' patience; without, the
// bytes that were held arrive.
func (l *Links) Heal(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, p := range l.conns {
		if reset && (l.held[p] || l.held[pair{p.to, p.from}]) {
			_ = c.Close()
		}
	}
	clear(l.held)
	l.change.Broadcast()
}

// close ends the proxies and waits for their goroutines.
func (l *Links) close() {
	l.mu.Lock()
	l.closed = true
	for _, ln := range l.listeners {
		_ = ln.Close()
	}
	for c := range l.conns {
		_ = c.Close()
	}
	l.change.Broadcast()
	l.mu.Unlock()
	l.wg.Wait()
}
