package transport

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/socket"
)

// The first message on an election connection, sent by the server that has connected:
//
//	long version | long server id | int length | "host:port" of its election port
//
// With version 2 there may be several addresses, joined by "|". If the first long is
// not negative, it is the id, and the message ends: very old servers send this.
const (
	helloV1       = -65536
	helloV2       = -65535
	maxHelloBytes = 2048 // of the addresses
	maxAnnounced  = 4    // how many of those addresses are tried
	anyObserver   = math.MaxInt64
)

// MaxNotificationBytes is the maximum length of a frame on the election port.
const MaxNotificationBytes = 512 << 10

// frameReadBytes is the longest frame that is allocated before its bytes have arrived.
const frameReadBytes = 16 << 10

// hello is the first message of a connection.
type hello struct {
	id       int64
	targets  []target // the announced election addresses, without wildcards
	bare     bool     // the message announces no address
	nameless bool     // the peer is an observer without a known id: id is one that this server has chosen for it
}

// ownHello returns this server's first message. A server that is in no list, and listens at all addresses, announces a
// wildcard, which others skip.
func ownHello(o *Options) ([]byte, error) {
	var address string
	if targets := electionTargets(o.Peers[o.ID]); len(targets) > 0 {
		address = targets[0].String()
	} else if len(o.ElectionListen) > 0 {
		if address = o.ElectionListen[0]; strings.HasPrefix(address, ":") {
			address = "0.0.0.0" + address
		}
	} else {
		return nil, errors.New("transport: this server has no election address")
	}
	if len(address) > maxHelloBytes {
		return nil, fmt.Errorf("transport: an address of %d bytes cannot be announced", len(address))
	}
	b := jute.AppendLong(nil, helloV1)
	b = jute.AppendLong(b, o.ID)
	return jute.AppendString(b, address), nil
}

// readHello reads the first message.
func readHello(r io.Reader) (hello, error) {
	var head [20]byte
	if _, err := io.ReadFull(r, head[:8]); err != nil {
		return hello{}, fmt.Errorf("transport: read the server id: %w", err)
	}
	if head[0] == tlsHandshake {
		return hello{}, fmt.Errorf("%w: the other server uses it, and neither sslQuorum nor portUnification is set", ErrTLS)
	}
	first := int64(binary.BigEndian.Uint64(head[:]))
	if first >= 0 {
		return hello{id: first, bare: true}, nil
	}
	if first != helloV1 && first != helloV2 {
		return hello{}, fmt.Errorf("transport: unknown election protocol version %d", first)
	}
	if _, err := io.ReadFull(r, head[8:]); err != nil {
		return hello{}, fmt.Errorf("transport: read the server id: %w", err)
	}
	h := hello{id: int64(binary.BigEndian.Uint64(head[8:]))}
	size := int32(binary.BigEndian.Uint32(head[16:]))
	if size < 1 || size > maxHelloBytes {
		return hello{}, fmt.Errorf("transport: server %d announces %d bytes of addresses", h.id, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return hello{}, fmt.Errorf("transport: read the addresses of server %d: %w", h.id, err)
	}
	var err error
	if h.targets, err = parseTargets(string(text)); err != nil {
		return hello{}, fmt.Errorf("transport: server %d announces %q: %w", h.id, text, err)
	}
	return h, nil
}

// parseTargets reads host:port, several joined by "|". It skips wildcards, and
// addresses after the first maxAnnounced.
func parseTargets(text string) (list []target, err error) {
	for part := range strings.SplitSeq(text, "|") {
		host, port, err := net.SplitHostPort(part)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || host == "" || strings.ContainsFunc(host, notOfHost) {
			return nil, errors.New("not host:port")
		}
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			continue
		}
		if len(list) < maxAnnounced {
			list = append(list, target{host, int(n)})
		}
	}
	return list, nil
}

// notOfHost reports whether a rune cannot be part of a name or an address.
func notOfHost(r rune) bool { return r <= ' ' || r == 0x7F || r == '/' }

// greet reads the first message of an accepted connection and decides what to do with
// it.
func (t *Transport) greet(g *greeting) {
	defer close(g.ended)
	t.awaitPenalty(g.address, g.gone)
	deadline := time.Now().Add(t.o.ElectionTimeout)
	nc := g.nc
	a, err := t.secureAccepted(nc, socket.New(nc, socket.Options{}), g.gone, func(config *tls.Config, inTurns func(net.Conn) net.Conn) (*tls.Conn, func() error) {
		layer := tls.Server(inTurns(g.nc), config)
		nc = secureConn{layer}
		return layer, layer.Handshake
	})
	link := t.newElectionLink(nc, g.order)
	var h hello
	if err == nil {
		_ = g.nc.SetDeadline(deadline) // fails only if closed; then the read fails too
		h, err = readHello(link.in)
	}
	if err == nil {
		err = t.checkClaim(a, h.id)
	}
	if err == nil {
		err = t.admitPeerLogin(h.id, link, deadline)
	}
	t.noteLoginEnd(a, g.address, err)
	if !t.endGreeting(g) {
		if t.ctx.Err() == nil {
			t.logRefused("election port", link.remote, fmt.Errorf("%w: %d connections have not sent their server id", ErrCrowded, maxGreetings))
		}
		return // it is closed
	}
	if err == nil {
		_ = g.nc.SetDeadline(time.Time{}) // fails only if closed
		err = t.introduce(h, link)
	}
	if err != nil {
		g.nc.Close() // an error changes nothing: the connection is refused
		if !errors.Is(err, ErrClosed) {
			t.logRefused("election port", link.remote, err)
		}
	}
}

// introduce hands the connection to its peer, or closes it and makes the peer connect
// in the other direction: of two servers, the one with the larger id makes the
// connection that is kept. An error says why the connection is refused.
func (t *Transport) introduce(h hello, link *electionLink) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch _, known := t.mu.known[h.id]; {
	case t.mu.closed:
		return ErrClosed
	case h.id == t.o.ID:
		return fmt.Errorf("transport: the peer has this server's id, %d: correct the configuration, or the file myid of one of them", h.id)
	case h.id == anyObserver && !known:
		// The peer assumes that its id is the larger one, so its connection is
		// kept.
		t.mu.nameless--
		h.id, h.nameless = t.mu.nameless, true
	case !known && h.id < 0:
		return fmt.Errorf("transport: %d is not a server id", h.id)
	case !known && (h.bare || h.id < t.o.ID && len(h.targets) == 0):
		return fmt.Errorf("%w: %d", ErrUnknown, h.id)
	}
	p := t.mu.peers[h.id]
	if p == nil {
		if t.mu.strangers >= maxStrangers {
			return fmt.Errorf("%w: %d servers that are not in the configuration, %d is one more", ErrCrowded, maxStrangers, h.id)
		}
		p = t.addPeerLocked(h.id, true)
	}
	if h.id > t.o.ID || h.nameless {
		p.offer(link)
		return nil
	}
	p.sawAt(link.nc)
	link.nc.Close() // an error changes nothing: its message was read
	p.ask(h.targets)
	return nil
}

// addPeerLocked creates a peer and starts its goroutine. REQUIRES: t.mu, and the
// transport is not closed.
func (t *Transport) addPeerLocked(id int64, stranger bool) *peer {
	p := &peer{t: t, id: id, stranger: stranger, wake: make(chan struct{}, 1), pause: peerPause}
	p.targets = electionTargets(t.mu.known[id])
	t.mu.peers[id] = p
	if stranger {
		t.mu.strangers++
	}
	t.wg.Go(p.run)
	return p
}

// electionLink is a connection to a peer whose first message was read or sent.
type electionLink struct {
	nc     net.Conn
	in     *bufio.Reader
	frame  socket.Account // of the notification that is being read
	order  uint64         // order of acceptance; 0 if it was dialled
	remote string

	since time.Time     // when the peer started to use it
	done  chan struct{} // closed when its reader has ended, with err
	err   error
}

func (t *Transport) newElectionLink(nc net.Conn, order uint64) *electionLink {
	link := &electionLink{
		nc: nc, in: bufio.NewReaderSize(nc, 4<<10), order: order, remote: remoteName(nc), done: make(chan struct{}),
	}
	link.frame.Init(t.buffers, socket.FreeBytes)
	return link
}

// read passes on the notifications of the peer until the connection ends.
func (c *electionLink) read(p *peer, stranger bool) {
	defer close(c.done)
	t := p.t
	if stranger {
		// A peer that has connected has a notification to send.
		_ = c.nc.SetReadDeadline(time.Now().Add(t.o.ElectionTimeout)) // fails only if closed; then the read fails too
	}
	reserve := c.reserve
	if stranger {
		reserve = func(size int) error {
			t.strangers.wait(t.ctx, size, c.frame.Closed())
			return c.reserve(size)
		}
	}
	for first := true; ; first = false {
		frame, err := readFrame(c.in, reserve)
		if err != nil {
			c.err = err
			c.frame.Charge(-c.frame.Held())
			c.nc.Close() // an error changes nothing: the connection is given up
			if errors.Is(err, errFrame) {
				t.logRefused("election port", c.remote, fmt.Errorf("server %d: %w", p.id, err))
			}
			return
		}
		if stranger && first {
			_ = c.nc.SetReadDeadline(time.Time{}) // fails only if closed
		}
		t.h.Notification(p.id, frame)
		c.frame.Charge(-c.frame.Held())
	}
}

// reserve waits until there is room for a long notification, in a buffer that doubles as its bytes arrive.
func (c *electionLink) reserve(size int) error {
	if !c.frame.AwaitGrow(2*size, bufferPatience) {
		return fmt.Errorf("%w: the buffers of all links have no room for a notification of %d bytes", ErrCrowded, size)
	}
	return nil
}

var errFrame = errors.New("transport: not a notification")

// readFrame reads one notification. Before it reads a long one, which is allocated as its bytes arrive, it calls
// reserve with its length.
func readFrame(r io.Reader, reserve func(size int) error) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head[:]))
	if size < 1 || size > MaxNotificationBytes {
		if peerauth.MayBeLogin(uint32(size)) {
			return nil, fmt.Errorf("%w: %w", errFrame, peerauth.ErrOff)
		}
		return nil, fmt.Errorf("%w: a frame of %d bytes, the limit is %d", errFrame, size, MaxNotificationBytes)
	}
	if size <= frameReadBytes {
		b := make([]byte, size)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	if err := reserve(int(size)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(size)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
