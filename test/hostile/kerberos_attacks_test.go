package hostile

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

func kerberosAttacks() []attack {
	return []attack{
		{name: "kerberos-tokens", what: "logins by Kerberos as fast as 32 connections can: valid ones, repeated, cut, changed, of 80 KB and 1 MB, out of order, garbage",
			alone: true, kerberos: true, prepare: makeTokens, run: floodTokens, least: 5 * time.Second},
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

// makeTokens makes first tokens of logins: what costs an attacker time is done before.
func makeTokens(x *scene) {
	bob := tickets.New(x.t, nil)
	x.tokens = make([][]byte, x.n(20_000))
	now := time.Now()
	for i := range x.tokens {
		x.tokens[i] = bob.Request(x.t, now.Add(time.Duration(i)*time.Microsecond))
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
