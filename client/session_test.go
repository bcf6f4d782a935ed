package client

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// The Client pings when it has sent nothing for a third of the timeout, and goes
// to another member when it has heard nothing for two thirds (paper, 4.4).
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a,b")
		begun := time.Now()
		for i := 1; i <= 3; i++ {
			p.expect(wire.OpPing)
			if d := time.Since(begun); d != time.Duration(i)*3*time.Second {
				t.Errorf("ping %d after %v", i, d)
			}
			p.reply(wire.XidPing, 1, zk.OK)
		}
		time.Sleep(2 * time.Second)
		done := after(func() error { return c.Sync(t.Context(), "/") })
		p.reply(p.expect(wire.OpSync).xid, 1, zk.OK, text("/"))
		check(t, "sync", <-done, nil, false)
		heard := time.Now()
		p.expect(wire.OpPing)
		if d := time.Since(heard); d != 3*time.Second {
			t.Errorf("ping %v after a request", d)
		}
		next := e.accept() // the ping is not answered
		if d := time.Since(heard); d != 6*time.Second || next.addr == p.addr {
			t.Errorf("after %v of silence of %s the client is at %s", d, p.addr, next.addr)
		}
		next.greet(9 * time.Second)
		p.ended()
	})
}

// Members are tried in a shuffled order, each for the timeout divided by their
// number, with a pause behind each round; names are looked up every time.
func TestConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		var asked journal
		resolver := lookup(func(host string) []string { asked.add("%s", host); return []string{host + "x"} })
		dialled := after(func() error {
			c, err := Dial(t.Context(), "a,b:1,c", Dialer(e.dial), LookUp(resolver), SessionTimeout(9*time.Second))
			if err == nil {
				t.Cleanup(c.abandon)
			}
			return err
		})
		var order []string
		begun := time.Now()
		for range 4 { // nobody answers the handshake
			p := e.accept()
			order = append(order, p.addr)
			p.asked()
			p.ended()
		}
		if took := time.Since(begun); took < 12*time.Second || took > 12*time.Second+2*lastPause {
			t.Errorf("four attempts took %v, want 3 s each and a pause", took)
		}
		first := slices.Sorted(slices.Values(order[:3]))
		if !slices.Equal(first, []string{"ax:2181", "bx:1", "cx:2181"}) || order[3] != order[0] {
			t.Errorf("attempts %v", order)
		}
		e.accept().greet(9 * time.Second)
		check(t, "dial", <-dialled, nil, false)
		if n := len(asked.lines); n != 5 {
			t.Errorf("%d look-ups for 5 attempts: %v", n, asked.lines)
		}
	})
}

// A session that lives is not kept waiting by a lone member that accepts connections
// and says nothing: the next attempt comes while a lock's holder can still be sure.
func TestConnectingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, p := connected(t, "a")
		p.cut()
		begun := time.Now()
		p = e.accept()
		p.asked()
		p.ended()
		e.accept().greet(9 * time.Second)
		if took := time.Since(begun); took > 9*time.Second/3 {
			t.Errorf("the attempt after a silent one comes after %v", took)
		}
	})
}

type lookup func(host string) []string

func (f lookup) LookupHost(_ context.Context, host string) ([]string, error) { return f(host), nil }

// The pauses grow, and also when members accept and then close.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, p := connected(t, "a")
		last, grown := time.Now(), 0
		for range 12 {
			p.cut()
			p = e.accept()
			p.greet(9 * time.Second)
			if d := time.Since(last); d >= lastPause/2 {
				grown++
			}
			last = time.Now()
		}
		if grown < 4 {
			t.Errorf("12 connections that were of no use, and only %d pauses of half a second or more", grown)
		}
		p.expect(wire.OpPing)
		p.reply(wire.XidPing, 1, zk.OK)
		synctest.Wait()
		last = time.Now()
		p.cut()
		e.accept().greet(9 * time.Second)
		if d := time.Since(last); d > firstPause {
			t.Errorf("a pause of %v behind a connection that was of use", d)
		}
	})
}

// A session goes on at another member: by its id and password, and with the newest
// transaction that the Client has seen.
func TestReattach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a", SessionTimeout(20*time.Second))
		var j journal
		defer j.states(c)()
		j.want(t, "connected")
		get := after(func() error { _, _, err := c.Get(t.Context(), "/"); return err })
		p.reply(p.expect(wire.OpGetData).xid, 77, zk.OK, buffer(""), statOf(0))
		check(t, "get", <-get, nil, false)
		p.cut()
		j.want(t, "suspended")
		p = e.accept()
		ask := p.greet(6 * time.Second)
		if ask.SessionID != testSession || !bytes.Equal(ask.Password, testPassword) || ask.LastZxidSeen != 77 ||
			ask.TimeoutMillis != 20000 || ask.ReadOnly {
			t.Errorf("handshake %+v", ask)
		}
		j.want(t, "connected")
		if c.SessionTimeout() != 6*time.Second || c.SessionID() != testSession || !bytes.Equal(c.SessionPassword(), testPassword) || c.Server() != "a:2181" {
			t.Errorf("session %v %x %v at %q", c.SessionID(), c.SessionPassword(), c.SessionTimeout(), c.Server())
		}
	})
}

// A session that is over ends the Client: operations, watches and states say so.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		var j journal
		j.states(c)
		w := addWatch(t, c, p, "/w")
		p.cut()
		synctest.Wait()
		wait := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		synctest.Wait()
		e.accept().refuse()
		check(t, "an operation that waited", <-wait, zk.ErrSessionExpired, false)
		j.want(t, "connected", "suspended", "expired", "no more states")
		if ev := <-w.Events(); ev.Type != zk.EventNone || ev.State != zk.StateExpired {
			t.Errorf("event %+v", ev)
		}
		check(t, "a later one", c.Delete(t.Context(), "/a", -1), zk.ErrSessionExpired, false)
		c.DeleteAsync(t.Context(), "/a", -1, func(err error) { j.add("%v", err) })
		j.want(t, "delete /a: zookeeper: session expired")
		check(t, "close", c.Close(), zk.ErrSessionExpired, false)
		check(t, "close again", c.Close(), nil, false)
		states, _ := c.States()
		if s, ok := <-states; s != Expired || !ok {
			t.Errorf("state of one that is over: %v", s)
		}
		if _, ok := <-states; ok {
			t.Error("another state")
		}
	})
}

// addWatch leaves a persistent watch.
func addWatch(t *testing.T, c *Client, p *peer, path string) *Watch {
	t.Helper()
	var w *Watch
	done := after(func() (err error) {
		w, err = c.AddWatch(t.Context(), path, zk.AddWatchPersistent)
		return err
	})
	p.reply(p.expect(wire.OpAddWatch).xid, 1, zk.OK)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return w
}

// With NewSession a new session follows; it begins from nothing.
func TestNewSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a", NewSession())
		var j journal
		defer j.states(c)()
		w := addWatch(t, c, p, "/w")
		p.cut()
		synctest.Wait()
		lost := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		synctest.Wait()
		e.accept().refuse()
		check(t, "an operation that waited", <-lost, zk.ErrSessionExpired, false)
		p = e.accept()
		if ask := p.asked(); ask.SessionID != 0 || ask.LastZxidSeen != 0 {
			t.Errorf("handshake of the new session: %+v", ask)
		}
		p.welcome(99, 9*time.Second, false)
		j.want(t, "connected", "suspended", "expired", "connecting", "connected")
		if ev := <-w.Events(); ev.State != zk.StateExpired || ev.Path != "/w" {
			t.Errorf("event %+v", ev)
		}
		if _, ok := <-w.Events(); ok {
			t.Error("the watch goes on")
		}
		done := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		p.reply(p.expect(wire.OpDelete).xid, 1, zk.OK)
		check(t, "delete", <-done, nil, false)
	})
}

// Credentials are sent on every connection. Dial waits for the answer to its own.
func TestAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		var p *peer
		e.dialTo("a", []Option{Auth("digest", []byte("u:p")), Auth("x", []byte("y"))}, func() {
			for range 2 { // the first connection breaks
				p = e.accept()
				p.greet(9 * time.Second)
				for _, scheme := range []string{"digest", "x"} {
					a := p.expect(wire.OpAuth)
					if a.xid != wire.XidAuth || !strings.Contains(string(a.body), scheme) {
						t.Errorf("auth %d %q", a.xid, a.body)
					}
				}
				p.reply(wire.XidAuth, 0, zk.OK)
				p.cut()
			}
			p = e.accept()
			p.greet(9 * time.Second)
			p.reply(p.expect(wire.OpAuth).xid, 0, zk.OK)
			p.reply(p.expect(wire.OpAuth).xid, 0, zk.OK)
		})
	})
}

// A member that refuses the credentials ends the Client.
func TestAuthFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		dialled := after(func() error {
			_, err := Dial(t.Context(), "a", Dialer(e.dial), LookUp(names{}), Auth("no", nil))
			return err
		})
		p := e.accept()
		p.greet(9 * time.Second)
		p.reply(p.expect(wire.OpAuth).xid, 0, zk.ErrAuthFailed)
		if err := <-dialled; !errors.Is(err, zk.ErrAuthFailed) {
			t.Errorf("dial: %v", err)
		}

		c, p := e.client("a")
		var j journal
		j.states(c)
		w := addWatch(t, c, p, "/w")
		wait := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		p.expect(wire.OpDelete)
		auth := after(func() error { return c.AddAuth(t.Context(), "no", nil) })
		p.reply(p.expect(wire.OpAuth).xid, 0, zk.ErrAuthFailed)
		check(t, "addauth", <-auth, zk.ErrAuthFailed, false)
		check(t, "an operation under way", <-wait, zk.ErrAuthFailed, true)
		check(t, "a later one", c.Delete(t.Context(), "/a", -1), zk.ErrAuthFailed, false)
		check(t, "addauth later", c.AddAuth(t.Context(), "digest", nil), zk.ErrAuthFailed, false)
		j.want(t, "connected", "authentication failed", "no more states")
		if ev := <-w.Events(); ev.State != zk.StateAuthFailed {
			t.Errorf("event %+v", ev)
		}
	})
}

// A session is taken over by its id and password; one that is over is an error.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		take := []Option{Session(testSession, testPassword)}
		c := e.dialTo("a", take, func() {
			if ask := e.accept().greet(9 * time.Second); ask.SessionID != testSession || !bytes.Equal(ask.Password, testPassword) {
				t.Errorf("handshake %+v", ask)
			}
		})
		if c.SessionID() != testSession {
			t.Errorf("session %v", c.SessionID())
		}
		dialled := after(func() error {
			_, err := Dial(t.Context(), "a", append(take, Dialer(e.dial), LookUp(names{}))...)
			return err
		})
		e.accept().refuse()
		if err := <-dialled; !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("dial: %v", err)
		}
	})
}

// What a handshake must not say: the member is left for another.
func TestBadHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		answer := func(timeout int32, id zk.SessionID, password string, readOnly bool) func() {
			return func() {
				p := e.accept()
				p.asked()
				r := wire.ConnectResponse{TimeoutMillis: timeout, SessionID: id, Password: []byte(password), ReadOnly: readOnly, HasReadOnly: true}
				p.send(r.Append)
				p.ended()
			}
		}
		c := e.dialTo("a", nil, func() {
			answer(0, 0, string(testPassword), false)()    // refuses a new session
			answer(-5, 9, string(testPassword), false)()   // the same
			answer(9000, 0, string(testPassword), false)() // a session without an id
			answer(9000, 9, "short", false)()              // a password of another length
			answer(9000, 9, string(testPassword), true)()  // read-only, which was not asked for
			p := e.accept()                                // closes without an answer
			p.asked()
			p.cut()
			p = e.accept() // less than an answer
			p.asked()
			p.send(func(b []byte) []byte { return append(b, 1, 2, 3) })
			p.ended()
			e.accept().greet(9 * time.Second)
		})
		if c.State() != Connected {
			t.Errorf("state %v", c.State())
		}
	})
}

// Dial's context bounds the wait, and its error tells of the last attempt.
func TestDialGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		dialled := after(func() error {
			_, err := Dial(ctx, "a", Dialer(e.dial), LookUp(names{}), SessionTimeout(4*time.Second))
			return err
		})
		err := <-dialled
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "dial a: context deadline exceeded (") {
			t.Errorf("dial: %v", err)
		}
	})
}

// Close from every state, and what it says.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		j.states(c)
		ctx := t.Context()
		c.SetAsync(ctx, "/a", nil, -1, func(_ zk.Stat, err error) { j.add("set: %v", err) })
		closed := after(c.Close)
		synctest.Wait()
		again := after(c.Close)
		synctest.Wait()
		check(t, "an operation behind Close", c.Delete(ctx, "/a", -1), ErrClosed, false)
		set, end := p.expect(wire.OpSetData), p.expect(wire.OpCloseSession)
		p.reply(set.xid, 1, zk.OK, statOf(1))
		p.reply(end.xid, 2, zk.OK)
		check(t, "close", <-closed, nil, false)
		check(t, "close again", <-again, nil, false)
		p.ended()
		j.want(t, "connected", "set: <nil>", "closed", "no more states")
		if c.State() != Closed || c.Server() != "" {
			t.Errorf("state %v at %q", c.State(), c.Server())
		}
	})
}

// Without a connection Close says that nobody was told; what waits fails.
func TestCloseWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		p.cut()
		synctest.Wait()
		wait := after(func() error { return c.Delete(t.Context(), "/a", -1) })
		synctest.Wait()
		check(t, "close", c.Close(), zk.ErrConnectionLoss, false)
		check(t, "an operation that waited", <-wait, ErrClosed, false)
		select {
		case <-e.conns:
		default: // the attempt that was under way has ended
		}
	})
}

// A server that does not answer Close, or breaks the connection, ends it too.
func TestCloseUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		begun := time.Now()
		closed := after(c.Close)
		p.expect(wire.OpCloseSession)
		for range 2 { // it is alive, but no more
			p.expect(wire.OpPing)
			p.reply(wire.XidPing, 1, zk.OK)
		}
		check(t, "close without an answer", <-closed, context.DeadlineExceeded, true)
		if d := time.Since(begun); d != 9*time.Second {
			t.Errorf("Close took %v", d)
		}

		c, _, p = connected(t, "a")
		closed = after(c.Close)
		p.expect(wire.OpCloseSession)
		p.cut()
		check(t, "close, and the connection breaks", <-closed, zk.ErrConnectionLoss, true)
	})
}

// States never makes a connection wait, and drops nothing that cannot be told from
// the rest.
func TestStatesOfASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, _ := connected(t, "a")
		states, cancel := c.States()
		defer cancel()
		c.mu.Lock()
		const changes = 5000
		for range changes {
			c.setState(Suspended)
			c.setState(Connected)
		}
		c.setState(Suspended)
		c.setState(Expired)
		c.mu.Unlock()
		var got []State
		for s := range states {
			if got = append(got, s); s == Expired {
				break
			}
		}
		if n := len(got); n < maxStates || n > maxStates+2*pumpBuffer {
			t.Errorf("%d states were kept", n)
		}
		for i, s := range got[:len(got)-1] {
			if want := []State{Connected, Suspended}[i%2]; s != want {
				t.Fatalf("state %d is %v behind %v", i, s, got[max(i-1, 0)])
			}
		}
		cancel()
		if _, ok := <-states; ok {
			t.Error("the channel is open after cancel")
		}
	})
}
