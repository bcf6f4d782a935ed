package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

func kerberosAttacks() []attack {
	return []attack{
		{name: "kerberos-tokens", what: "logins by Kerberos as fast as 32 connections can: valid ones, repeated, cut, changed, of 80 KB and 1 MB, out of order, garbage",
			alone: true, kerberos: true, prepare: makeTokens, run: floodTokens, least: 5 * time.Second},
		{name: "kerberos-tokens-peers", what: "the same tokens to quorum ports and election ports, of a principal that is a server's, while a follower restarts",
			ensemble: true, logins: true, renews: true, prepare: makePeerTokens, run: floodPeerTokens, least: 30 * time.Second},
	}
}

// kerberosFlags write a login file for tickets of package tickets, and return the flags of
// servers that accept them.
func (x *scene) kerberosFlags(dir string) string {
	x.t.Helper()
	jaas := filepath.Join(dir, "jaas.conf")
	text := fmt.Sprintf("Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false keyTab=%q principal=\"%s@%s\"; };\n",
		tickets.Keytab(x.t), tickets.Service, tickets.Realm)
	x.must(os.WriteFile(jaas, []byte(text), 0o600))
	return " -Djava.security.auth.login.config=" + jaas + " -Djava.security.krb5.conf=" + tickets.Config(x.t)
}

// peerPrincipal is the principal of all servers that log in at each other.
func peerPrincipal(i *tickets.Issue) { i.Client = "learner/127.0.0.1" }

// loginFlags write a login file with which servers log in at each other by Kerberos, and return
// their flags. Each has its ticket already.
func (x *scene) loginFlags(dir string) string {
	x.t.Helper()
	jaas := filepath.Join(dir, "peers.conf")
	const module = "com.sun.security.auth.module.Krb5LoginModule required"
	text := fmt.Sprintf("QuorumServer { %s useKeyTab=true storeKey=true isInitiator=false keyTab=%q principal=\"%s@%s\"; };\nQuorumLearner { %s useTicketCache=true ticketCache=%q; };\n",
		module, tickets.Keytab(x.t), tickets.Service, tickets.Realm, module, tickets.Cache(x.t, tickets.New(x.t, peerPrincipal)))
	x.must(os.WriteFile(jaas, []byte(text), 0o600))
	return " -Djava.security.auth.login.config=" + jaas + " -Djava.security.krb5.conf=" + tickets.Config(x.t)
}

// loginLines are the lines of zoo.cfg of servers that must log in at each other.
func loginLines() []string {
	return []string{
		"quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true",
		"quorum.auth.kerberos.servicePrincipal=" + tickets.Service,
	}
}

// makeTokens makes first tokens of logins: what costs an attacker time is done before.
func makeTokens(x *scene) { x.makeTokens(tickets.New(x.t, nil)) }

func makePeerTokens(x *scene) { x.makeTokens(tickets.New(x.t, peerPrincipal)) }

func (x *scene) makeTokens(k tickets.Ticket) {
	x.tokens = make([][]byte, x.n(20_000))
	now := time.Now()
	for i := range x.tokens {
		x.tokens[i] = k.Request(x.t, now.Add(time.Duration(i)*time.Microsecond))
	}
}

// A forgery makes tokens of a good first one; accepted says whether the first token may
// be answered without an error.
type forgery struct {
	name     string
	accepted bool
	tokens   func(good []byte) [][]byte
}

func forgeries(used []byte) []forgery {
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	return []forgery{
		{"begun", true, func(good []byte) [][]byte { return [][]byte{good} }},
		{"repeated at once", true, func(good []byte) [][]byte { return [][]byte{good, good} }},
		{"out of order", true, func(good []byte) [][]byte { return [][]byte{good, {}, good[:20]} }},
		{"a last token of 80 KB", true, func(good []byte) [][]byte { return [][]byte{good, make([]byte, kerberos.MaxTokenBytes)} }},
		{"repeated", false, func([]byte) [][]byte { return [][]byte{used} }},
		{"cut", false, func(good []byte) [][]byte { return [][]byte{good[:len(good)/2]} }},
		{"a bit of the ticket", false, func(good []byte) [][]byte { return [][]byte{flip(good, len(good)/2)} }},
		{"a bit of the authenticator", false, func(good []byte) [][]byte { return [][]byte{flip(good, len(good)-5)} }},
		{"longer than its frame", false, func(good []byte) [][]byte { return [][]byte{append(bytes.Clone(good), make([]byte, 1000)...)} }},
		{"garbage", false, func(good []byte) [][]byte { return [][]byte{bytes.Repeat([]byte{0x60, 0x82}, len(good)/2)} }},
		{"garbage of 80 KB", false, func([]byte) [][]byte {
			return [][]byte{bytes.Repeat([]byte{0x60, 0x80, 0x30}, kerberos.MaxTokenBytes/3)}
		}},
		{"of 1 MB", false, func(good []byte) [][]byte { return [][]byte{append(bytes.Clone(good), make([]byte, megabyte)...)} }},
		{"empty", false, func([]byte) [][]byte { return [][]byte{{}} }},
	}
}

// floodTokens sends tokens, each first one on a connection of its own: every one that
// makeTokens has made, and then, while the attack lasts, those that must be refused again and
// again. No forged login may succeed.
func floodTokens(x *scene) {
	used := x.tokens[0]
	if code, answered := x.sendTokens([][]byte{used}); !answered || code != zk.OK {
		x.fault("a good token: %v, answered: %v", code, answered)
		return
	}
	var sent, refused atomic.Int64
	var accepted sync.Map // names of forgeries
	send := func(f forgery, good []byte) {
		code, answered := x.sendTokens(f.tokens(good))
		sent.Add(1)
		switch {
		case !answered || code != zk.OK:
			refused.Add(1)
		case !f.accepted:
			if _, known := accepted.LoadOrStore(f.name, true); !known {
				x.fault("a token is accepted that must not be: %s", f.name)
			}
		}
	}
	list := forgeries(used)
	x.each(len(x.tokens)-1, func(i int) { send(list[i%len(list)], x.tokens[1+i]) })
	list = slices.DeleteFunc(list, func(f forgery) bool { return f.accepted })
	for x.lasts() {
		x.each(len(list)*parallel, func(i int) { send(list[i%len(list)], used) })
	}
	x.note("%d logins begun, %d refused at once", sent.Load(), refused.Load())
}

// sendTokens sends tokens on a new connection in one write, and returns the code of the
// first answer.
func (x *scene) sendTokens(tokens [][]byte) (code zk.Code, answered bool) {
	nc, err := net.DialTimeout("tcp", x.leader.Client, dialTimeout)
	if err != nil {
		return 0, false
	}
	defer nc.Close()
	if nc.SetDeadline(time.Now().Add(dialTimeout)) != nil {
		return 0, false
	}
	c := frames.New(nc)
	hello := wire.ConnectRequest{TimeoutMillis: 4000, Password: make([]byte, wire.PasswordLen)}
	said := frames.Append(nil, hello.Append(nil))
	for i, token := range tokens {
		said = frames.AppendRequest(said, int32(i+1), wire.OpSASL, jute.AppendBuffer(nil, token))
	}
	if _, err := c.Write(said); err != nil {
		return 0, false
	}
	if _, err := c.Next(); err != nil { // the session
		return 0, false
	}
	b, err := c.Next()
	if err != nil {
		return 0, false
	}
	var h wire.ReplyHeader
	d := jute.NewDecoder(b)
	h.Decode(&d)
	return h.Err, d.Err() == nil
}

// floodPeerTokens sends tokens to the ports of the servers. At first no server may lose its role;
// then a follower restarts, and must come back. No login may succeed, memory stays within what the
// places for connections without a login allow, and each server writes twenty lines and then one a second at most.
func floodPeerTokens(x *scene) {
	var ports []string
	for _, m := range x.e.Members {
		ports = append(ports, x.leader.Quorum, m.Election)
	}
	began, elections, lines := time.Now(), x.elections(x.judged), x.refusals()
	first := x.peak()
	list := forgeries(x.tokens[0])
	var sent, admitted, next atomic.Int64
	flood := func(while func() bool) {
		var all sync.WaitGroup
		for range parallel {
			all.Go(func() {
				for while() && x.lasts() {
					i := int(next.Add(1))
					good := x.tokens[i%len(x.tokens)]
					status, answered := x.sendPeerTokens(ports[i%len(ports)], list[i/len(ports)%len(list)].tokens(good))
					sent.Add(1)
					if answered && status == loginSucceeded {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
	}
	calmUntil := began.Add(10 * time.Second)
	flood(func() bool { return time.Now().Before(calmUntil) })
	if n := x.elections(x.judged) - elections; n > 0 {
		x.fault("%d elections", n)
	}
	restarted := time.Now()
	x.follower.Kill()
	x.must(x.follower.Start())
	back := make(chan error, 1)
	go func() {
		_, err := x.e.WaitCaughtUp(x.ctx, x.follower)
		back <- err
	}()
	flood(func() bool {
		select {
		case err := <-back:
			back <- err
			return false
		default:
			return true
		}
	})
	if err := <-back; err != nil {
		x.fault("a follower that was restarted: %v", err)
	}
	x.note("%d logins begun; a follower was back after %v", sent.Load(), round(time.Since(restarted)))
	if n := admitted.Load(); n > 0 {
		x.fault("%d logins of an attacker succeed", n)
	}
	if more := x.peak() - first; more > peerTokenMemory {
		x.fault("the leader takes %d MB more", more>>20)
	}
	most := len(x.e.Members)*(1+int(time.Since(began)/refusal.Period)) + (len(x.e.Members)+1)*refusal.Burst
	n := x.refusals() - lines
	if n == 0 || n > most {
		x.fault("%d lines about refusals, want up to %d", n, most)
	}
	x.note("%d lines about refusals", n)
}

// peerTokenMemory is how much memory tokens may take: 64 places on each of two ports, with a
// token of 80 KB each, which is 10 MB, and what a busy server leaves to the collector.
const peerTokenMemory = 300 << 20

// peak is the most memory that the leader has had.
func (x *scene) peak() int64 {
	m, err := memoryOf(x.leader.PID())
	if err != nil {
		x.fault("%v", err)
	}
	return m.peak
}

// refusals counts the lines about refused connections in the logs of all members.
func (x *scene) refusals() (n int) {
	for _, m := range x.e.Members {
		text, err := m.Output()
		x.must(err)
		n += strings.Count(text, "event=peer_connection_refused")
	}
	return n
}

// A packet of a login between servers begins with these bytes; then come its status and the token.
const loginHead = "\x5f\x24\x35\x01\x35\x01\xed\xcc"

const loginSucceeded = 1

// sendPeerTokens sends tokens to a port of servers from the attacker's address, and returns the
// status of the last answer.
func (x *scene) sendPeerTokens(addr string, tokens [][]byte) (status int32, answered bool) {
	d := net.Dialer{Timeout: dialTimeout, LocalAddr: &net.TCPAddr{IP: attackerIP}}
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		return 0, false
	}
	defer nc.Close()
	if nc.SetDeadline(time.Now().Add(dialTimeout)) != nil {
		return 0, false
	}
	var said []byte
	if slices.ContainsFunc(x.e.Members, func(m *cluster.Member) bool { return m.Election == addr }) {
		said = greeting(int64(x.follower.ID))
	}
	for _, token := range tokens {
		said = jute.AppendBuffer(jute.AppendInt(append(said, loginHead...), 0), token)
	}
	if _, err := nc.Write(said); err != nil {
		return 0, false
	}
	_ = nc.(*net.TCPConn).CloseWrite() // fails only if it is closed
	for {
		var head [16]byte
		if _, err := io.ReadFull(nc, head[:]); err != nil || string(head[:8]) != loginHead {
			return status, answered
		}
		status, answered = int32(binary.BigEndian.Uint32(head[8:])), true
		if _, err := io.CopyN(io.Discard, nc, max(0, int64(int32(binary.BigEndian.Uint32(head[12:]))))); err != nil {
			return status, answered
		}
	}
}
