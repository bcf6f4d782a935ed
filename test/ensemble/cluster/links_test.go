package cluster

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// peers listen where members would, behind links.
type peers struct {
	t     *testing.T
	links *Links
	real  []address
	lns   map[int]net.Listener // by port
}

func newPeers(t *testing.T, n int) *peers {
	t.Helper()
	p := &peers{t: t, lns: map[int]net.Listener{}}
	var ports portPool
	t.Cleanup(ports.release)
	for range n {
		var a address
		for _, port := range []*int{&a.quorum, &a.election} {
			var err error
			if *port, err = ports.take(); err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", loopback(*port))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ln.Close() })
			p.lns[*port] = ln
		}
		p.real = append(p.real, a)
	}
	var err error
	if p.links, err = newLinks(p.real, &ports); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.links.close)
	return p
}

// connect has from dial the quorum port of to; it returns both ends.
func (p *peers) connect(from, to int) (dialled, accepted net.Conn) {
	p.t.Helper()
	dialled, err := net.Dial("tcp", loopback(p.links.seenBy(from, to).quorum))
	if err != nil {
		p.t.Fatal(err)
	}
	accepted, err = p.lns[p.real[to-1].quorum].Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _, _ = dialled.Close(), accepted.Close() })
	return dialled, accepted
}

func (p *peers) send(c net.Conn, text string) {
	p.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peers) expect(c net.Conn, text string) {
	p.t.Helper()
	b := make([]byte, len(text))
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		p.t.Fatal(err)
	}
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		p.t.Errorf("read %q, %v; want %q", b, err, text)
	}
}

// expectNothing finds bytes, or an end, that come within a while.
func (p *peers) expectNothing(c net.Conn) {
	p.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		p.t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := c.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("read %q, %v; want nothing", b, err)
	}
}

func TestLinksHoldOneWay(t *testing.T) {
	p := newPeers(t, 2)
	a, b := p.connect(1, 2)
	p.send(a, "one")
	p.expect(b, "one")
	p.links.Hold(1, 2)
	p.send(a, "two")
	p.expectNothing(b)
	p.send(b, "three")
	p.expect(a, "three")
	p.links.Heal(false)
	p.expect(b, "two")
}

// The end of a connection does not pass a link that is held.
func TestLinksHoldTheEnd(t *testing.T) {
	p := newPeers(t, 2)
	a, b := p.connect(1, 2)
	p.links.Isolate(1)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	p.expectNothing(b)
	p.links.Heal(false)
	if err := b.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func TestLinksIsolateAndReset(t *testing.T) {
	p := newPeers(t, 3)
	a, b := p.connect(1, 2)
	c, d := p.connect(2, 3)
	p.links.Isolate(3)
	p.send(a, "near")
	p.expect(b, "near")
	p.send(c, "far")
	p.expectNothing(d)
	p.links.Heal(true)
	if err := d.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(d); errors.Is(err, os.ErrDeadlineExceeded) || len(b) > 0 {
		t.Errorf("a connection that was reset has %q, %v", b, err)
	}
	p.send(b, "still")
	p.expect(a, "still")
}

// Bytes arrive late and in order, and the end of a connection after them.
func TestLinksDelay(t *testing.T) {
	p := newPeers(t, 2)
	a, b := p.connect(1, 2)
	const late = 20 * time.Millisecond
	p.links.Delay(late)
	sent := time.Now()
	p.send(a, "first ")
	p.send(a, "second")
	p.expect(b, "first second")
	if took := time.Since(sent); took < late {
		t.Errorf("the bytes came after %v, not %v", took, late)
	}
	p.send(a, "last")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(b); err != nil || string(rest) != "last" {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

// A server announces its address on an election link; through a link it must be
// that of the link back.
func TestLinksReplaceTheAnnouncedAddress(t *testing.T) {
	p := newPeers(t, 2)
	announce := func(addr string) string {
		b := binary.BigEndian.AppendUint64(nil, uint64(1<<64-65536))
		b = binary.BigEndian.AppendUint64(b, 1)
		b = binary.BigEndian.AppendUint32(b, uint32(len(addr)))
		return string(b) + addr
	}
	old := string(binary.BigEndian.AppendUint64(nil, 1)) // 3.4 has no address in it
	for sent, want := range map[string]string{
		announce(loopback(p.real[0].election)): announce(loopback(p.links.seenBy(2, 1).election)),
		old:                                    old,
	} {
		c, err := net.Dial("tcp", loopback(p.links.seenBy(1, 2).election))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p.send(c, sent+"rest")
		got, err := p.lns[p.real[1].election].Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer got.Close()
		p.expect(got, want+"rest")
	}
}
