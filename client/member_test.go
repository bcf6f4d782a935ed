package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// word reads a four-letter word and answers it.
func (p *peer) word(want, answer string) {
	p.t.Helper()
	b := make([]byte, 4)
	if _, err := p.conn.Read(b); err != nil || string(b) != want {
		p.t.Errorf("%q, %v; want %s", b, err, want)
	}
	if _, err := p.conn.Write([]byte(answer)); err != nil {
		p.t.Error(err)
	}
	p.conn.Close()
}

// At a read-only member the Client looks for one with a quorum, ever more rarely,
// and moves to it. The session of a read-only member is its own: elsewhere a new
// one is asked for.
func TestReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		var p *peer
		c := e.dialTo("a,b", []Option{AllowReadOnly()}, func() {
			p = e.accept()
			if ask := p.asked(); !ask.ReadOnly {
				t.Error("the handshake does not allow read-only")
			}
			p.welcome(7, time.Hour, true)
		})
		var j journal
		defer j.states(c)()
		j.want(t, "connected read-only")
		done := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		p.reply(p.expect(wire.OpDelete).xid, 1, zk.ErrNotReadOnly)
		check(t, "a write", <-done, zk.ErrNotReadOnly, false)
		w := p.getW(c, "/w", true)
		begun, wait := time.Now(), firstSeek
		for range 12 {
			e.accept().word("isro", "ro")
			if d := time.Since(begun); d != wait {
				t.Errorf("asked after %v, want %v", d, wait)
			}
			begun, wait = time.Now(), min(2*wait, lastSeek)
		}
		q := e.accept()
		q.word("isro", "rw")
		p.ended()
		p = e.accept()
		if p.addr != q.addr {
			t.Errorf("the client goes to %s, not to %s", p.addr, q.addr)
		}
		if ask := p.asked(); ask.SessionID != 0 {
			t.Errorf("the read-only member's session %v is asked for", ask.SessionID)
		}
		p.welcome(8, time.Hour, false)
		p.expect(wire.OpSetWatches)
		j.want(t, "suspended", "connected")
		if c.SessionID() != 8 || unread(w) != "" {
			t.Errorf("session %v, watch ended", c.SessionID())
		}
		p.silent()
	})
}

// A Client that loses a read-only member does not wait for the one that it was asking.
func TestReadOnlyMemberIsLostWhileAnotherIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		var p *peer
		c := e.dialTo("a,b", []Option{AllowReadOnly()}, func() {
			p = e.accept()
			p.asked()
			p.welcome(testSession, 9*time.Second, true)
		})
		asked := e.accept() // it does not answer
		synctest.Wait()     // the question is written
		p.cut()
		synctest.Wait()
		if s := c.State(); s != Suspended {
			t.Errorf("without a connection the client is %v", s)
		}
		begun := time.Now()
		e.accept().greet(9 * time.Second)
		if d := time.Since(begun); d > firstPause {
			t.Errorf("it connects after %v", d)
		}
		if b, _ := io.ReadAll(asked.conn); string(b) != "isro" {
			t.Errorf("asked %q", b)
		}
	})
}

// A session of the ensemble is kept at a read-only member, and taken back.
func TestReadOnlyKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, p := connected(t, "a,b", AllowReadOnly())
		p.cut()
		p = e.accept()
		if ask := p.asked(); ask.SessionID != testSession {
			t.Errorf("session %v", ask.SessionID)
		}
		p.welcome(testSession, time.Hour, true)
		e.accept().word("isro", "rw")
		if ask := e.accept().asked(); ask.SessionID != testSession {
			t.Errorf("session %v", ask.SessionID)
		}
	})
}

// The list of servers can be replaced while the Client runs.
func TestUpdateServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a:1/x")
		for _, bad := range []string{"b:0", "/x", "b:1/y"} {
			if err := c.UpdateServers(bad); err == nil {
				t.Errorf("%q is accepted", bad)
			}
		}
		if err := c.UpdateServers("a:1"); err != nil {
			t.Error(err)
		}
		p.silent()
		if c.State() != Connected {
			t.Error("the client leaves a member that is listed")
		}
		if err := c.UpdateServers("b:1/x"); err != nil {
			t.Error(err)
		}
		p.ended()
		p = e.accept()
		if ask := p.greet(9 * time.Second); p.addr != "b:1" || ask.SessionID != testSession {
			t.Errorf("at %s with session %v", p.addr, ask.SessionID)
		}
		own, _, _ := connected(t, "", Hosts(newServerList([]string{"z:1"}, names{})))
		own.hosts = struct{ HostProvider }{own.hosts}
		if err := own.UpdateServers("b:1"); err == nil {
			t.Error("the members of a HostProvider are replaced")
		}
	})
}

// TLS is under everything, and verifies the member's name.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"zk.example"},
		NotAfter: time.Now().AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(made)
	serving := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	now := func() time.Time { return template.NotAfter.AddDate(-1, 0, 0) } // a bubble's clock stands elsewhere
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		trust := TLS(&tls.Config{RootCAs: roots, Time: now})
		c := e.dialTo("zk.example", []Option{trust}, func() {
			p := e.accept()
			p.conn = tls.Server(p.conn, serving)
			p.greet(9 * time.Second)
		})
		if c.State() != Connected {
			t.Errorf("state %v", c.State())
		}
		dialled := after(func() error {
			_, err := Dial(t.Context(), "other.example", Dialer(e.dial), LookUp(names{}), trust, SessionTimeout(time.Second))
			return err
		})
		p := e.accept()
		if err := tls.Server(p.conn, serving).Handshake(); err == nil || !strings.Contains(err.Error(), "bad certificate") {
			t.Errorf("the handshake of a member with another's certificate: %v", err)
		}
		select {
		case err := <-dialled:
			t.Errorf("dial: %v", err)
		case p := <-e.conns: // it tries again
			p.cut()
		}
	})
}

// tokens plays the server's part of a login.
func (p *peer) tokens(users sasl.Users) (ok bool) {
	p.t.Helper()
	x := sasl.NewServer(sasl.ClientProtocol, sasl.ClientServerName, users).Begin()
	for {
		a := p.expect(wire.OpSASL)
		d := jute.NewDecoder(a.body)
		answer, err := x.Step(d.Buffer(), rand.Reader)
		if err != nil {
			p.reply(a.xid, 0, zk.ErrAuthFailed, func(b []byte) []byte { return jute.AppendBuffer(b, nil) })
			p.cut()
			return false
		}
		p.reply(a.xid, 0, zk.OK, func(b []byte) []byte { return jute.AppendBuffer(b, answer) })
		if _, ok := x.User(); ok {
			return true
		}
	}
}

// A login by SASL comes before everything else on a connection. A refusal is final,
// a server that cannot prove itself is left.
func TestSASL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		login := []Option{SASL(DigestMD5("bob", "secret"))}
		var p *peer
		c := e.dialTo("a", login, func() {
			p = e.accept()
			p.greet(9 * time.Second)
			p.expect(wire.OpSASL)
			p.cut() // in the middle
			p = e.accept()
			if ask := p.greet(9 * time.Second); ask.SessionID != testSession {
				t.Errorf("session %v after a login that broke off", ask.SessionID)
			}
			p.tokens(sasl.Users{"bob": "secret"})
		})
		get := after(func() error { _, _, err := c.Get(t.Context(), "/"); return err })
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.ErrNoNode)
		check(t, "get", <-get, zk.ErrNoNode, false)
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		if p.tokens(sasl.Users{"bob": "changed"}) {
			t.Error("a wrong password logs in")
		}
		check(t, "after a refusal", c.Delete(t.Context(), "/a", -1), zk.ErrAuthFailed, false)

		dialled := after(func() error {
			_, err := Dial(t.Context(), "a", append(login, Dialer(e.dial), LookUp(names{}))...)
			return err
		})
		p = e.accept()
		p.greet(9 * time.Second)
		a := p.expect(wire.OpSASL) // a server without logins
		p.reply(a.xid, 0, zk.OK, func(b []byte) []byte { return jute.AppendBuffer(b, nil) })
		if err := <-dialled; !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("dial: %v", err)
		}
	})
}
