package transport

import (
	"net"
	"testing"
)

// dialFrom opens connections to a port from an address of this machine, and returns when all were accepted.
func dialFrom(t *testing.T, ip net.IP, port net.Addr, n int) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}
	for range n {
		nc, err := d.Dial("tcp", port.String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	// A member's connection comes after them: when it is closed, they were accepted.
	last, err := net.Dial("tcp", port.String())
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	if _, err := last.Write([]byte{0x80, 0, 0, 0, 0, 0, 0, 1}); err != nil { // no version of the protocol
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil {
		t.Fatal("a wrong hello is answered")
	}
}

// Connections that come too fast from an address at which no member is are closed at once; a member's own are not.
func TestArrivalsOfOneAddressAreBounded(t *testing.T) {
	const burst = 64
	const flood = 40 * burst
	nodes := startTCP(t, []int64{1, 2}, func(o *Options) { o.ArrivalBurst = burst })
	_, election := nodes[1].Addrs()
	accepted := func() uint64 {
		nodes[1].Transport.mu.RLock()
		defer nodes[1].Transport.mu.RUnlock()
		return nodes[1].Transport.mu.lastAccept
	}
	before := accepted()
	dialFrom(t, net.IPv4(127, 0, 0, 99), election[0], flood)
	if n := accepted() - before; n < burst || n > flood/2 {
		t.Errorf("%d of %d connections of a stranger were more than accepted and closed", n, flood)
	}
	before = accepted()
	dialFrom(t, net.IPv4(127, 0, 0, 1), election[0], flood)
	if n := accepted() - before; n < flood {
		t.Errorf("%d of %d connections from a member's address", n, flood)
	}
}

// An address is a member's by the configuration, or because the member was seen there.
func TestAddressesOfMembers(t *testing.T) {
	nodes := startTCP(t, []int64{1, 2})
	one := nodes[1].Transport
	one.mu.RLock()
	p := one.mu.peers[2]
	one.mu.RUnlock()
	near, far := net.Pipe()
	defer far.Close()
	if one.isMembers("10.9.8.7") || !one.isMembers("127.0.0.1") {
		t.Error("the configuration names 127.0.0.1 alone")
	}
	p.sawAt(at{near, net.IPv4(10, 9, 8, 7)})
	if !one.isMembers("10.9.8.7") {
		t.Error("a member was seen at 10.9.8.7")
	}
}

// at is a connection whose other side has an address.
type at struct {
	net.Conn
	ip net.IP
}

func (a at) RemoteAddr() net.Addr { return &net.TCPAddr{IP: a.ip, Port: 1234} }
