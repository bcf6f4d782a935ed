package hostile

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/handshakes"
)

// How many handshakes stop half-way, at any scale: a connection costs an attacker little.
const (
	halfClients = 10_000
	halfPeers   = 2_000
)

func tlsAttacks() []attack {
	return []attack{
		{name: "half-handshakes", what: "10,000 TLS handshakes that stop half-way, held open on the client port, while clients connect with TLS", tls: true, alone: true, run: halfHandshakes, least: 8 * time.Second},
		{name: "refused-handshakes", what: "TLS handshakes that must be refused, at the client ports and those of the servers", tls: true, ensemble: true, run: refusedHandshakes},
		{name: "half-handshakes-peers", what: "2,000 TLS handshakes that stop half-way, on quorum ports and election ports, while a follower restarts",
			tls: true, ensemble: true, renews: true, run: halfHandshakesOfPeers, least: 30 * time.Second},
	}
}

// tlsLines are the lines of zoo.cfg of servers with TLS: on the client port beside plain
// connections, and between the servers.
func (x *scene) tlsLines() []string {
	x.authority = certs.New(x.t, "authority")
	store, trust := x.authority.Issue(x.t, "server").Store(x.t), x.authority.Trust(x.t)
	return []string{
		"client.portUnification=true", "ssl.keyStore.location=" + store, "ssl.trustStore.location=" + trust, "ssl.enabledProtocols=TLSv1.3,TLSv1.2",
		"sslQuorum=true", "ssl.quorum.verifyPeers=true", "ssl.quorum.keyStore.location=" + store, "ssl.quorum.trustStore.location=" + trust,
	}
}

// attackerIP is the address of those whose handshakes stop half-way: others are not delayed.
var attackerIP = net.IPv4(127, 0, 0, 99)

// dialAs is dial from the attacker's own address.
func (x *scene) dialAs(addr string) net.Conn {
	d := net.Dialer{Timeout: dialTimeout, LocalAddr: &net.TCPAddr{IP: attackerIP}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil
	}
	x.keep(c)
	return c
}

// stopHalfWay begins n handshakes at the ports, every third with a whole first message, and
// returns how many connections there are.
func (x *scene) stopHalfWay(n int, ports []string) (open int) {
	hello := handshakes.Hello()
	var mu sync.Mutex
	x.each(n, func(i int) {
		c := x.dialAs(ports[i%len(ports)])
		if c == nil {
			return
		}
		said := hello
		if i%3 > 0 {
			said = hello[:6+i%(len(hello)-6)]
		}
		_, _ = c.Write(said) // the server may have closed it
		mu.Lock()
		open++
		mu.Unlock()
	})
	return open
}

// halfHandshakes holds handshakes open that stop half-way. Clients with a certificate connect
// meanwhile, one after the other: each gets its session.
func halfHandshakes(x *scene) {
	x.note("%d connections", x.stopHalfWay(halfClients, x.e.Clients()))
	config := &tls.Config{RootCAs: x.authority.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{x.authority.Issue(x.t, "client").TLS}}
	var longest time.Duration
	sessions := 0
	for end := time.Now().Add(6 * time.Second); x.lasts() && time.Now().Before(end); sessions++ {
		began := time.Now()
		ctx, cancel := context.WithTimeout(x.t.Context(), patience)
		c, err := client.Dial(ctx, x.e.Members[sessions%x.members].Client, client.TLS(config))
		cancel()
		if err != nil {
			x.fault("a client with a certificate is not let in: %v", err)
			return
		}
		_ = c.Close()
		longest = max(longest, time.Since(began))
		x.wait(200 * time.Millisecond)
	}
	x.note("%d clients with TLS let in meanwhile, the slowest after %v", sessions, round(longest))
}

// refusedHandshakes has clients and peers make handshakes that must be refused, again and again.
func refusedHandshakes(x *scene) {
	list := handshakes.Clients(x.t, x.authority, true)[1:] // without TLS is allowed
	ports, request := x.e.Clients(), []byte("ruok")
	attempt := func(addr string, r *handshakes.Refused, request []byte) {
		c := x.dialAs(addr)
		if c == nil || c.SetDeadline(time.Now().Add(patience)) != nil {
			return
		}
		if answer := r.Try(c, request); len(answer) > 0 {
			x.fault("a handshake %s is answered %q at %s", r.Name, answer, addr)
		}
	}
	x.forTime(8*time.Second, 0, func(i int) {
		attempt(ports[i%len(ports)], &list[i%len(list)], request)
		r := &list[i%len(list)]
		attempt(x.leader.Quorum, r, transport.AppendPacket(nil, info(zab.FollowerInfo, int64(x.follower.ID), 0)))
		attempt(x.e.Members[i%3].Election, r, greeting(int64(x.follower.ID)))
		x.closeOldest()
	})
}

// halfHandshakesOfPeers holds handshakes open at the ports of servers, and begins others in
// the place of those that the servers have closed. A follower that is restarted meanwhile
// comes back.
func halfHandshakesOfPeers(x *scene) {
	var ports []string
	for _, m := range x.e.Members {
		ports = append(ports, m.Election, x.leader.Quorum)
	}
	x.note("%d connections", x.stopHalfWay(halfPeers, ports))
	began := time.Now()
	x.follower.Kill()
	if err := x.follower.Start(); err != nil {
		x.fault("%v", err)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.forTime(10*time.Second, 200*time.Millisecond, func(int) {
			for range halfPeers {
				x.closeOldest()
			}
			x.stopHalfWay(halfPeers, ports)
		})
	}()
	if _, err := x.e.WaitCaughtUp(x.ctx, x.follower); err != nil {
		x.fault("a follower that was restarted: %v", err)
	}
	x.note("a follower was back after %v", round(time.Since(began)))
	<-done
}
