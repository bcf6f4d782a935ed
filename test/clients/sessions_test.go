package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// sessionMoves takes a session from client to client, and so from member to
// member, and through the restart of a server. It stays, and its ephemerals do.
func sessionMoves(t *testing.T, e *Env) {
	ctx := e.Context()
	first := e.Client()
	id, password := first.SessionID(), first.SessionPassword()
	_, err := first.Create(ctx, "/mine", nil, zk.Ephemeral, nil)
	must(t, err)
	stat, _, err := first.Exists(ctx, "/mine")
	must(t, err)
	if stat.EphemeralOwner != int64(id) {
		t.Errorf("the owner is %#x, the session %v", stat.EphemeralOwner, id)
	}
	e.Hold(first) // two clients with one session would take it from each other
	c := first
	for _, m := range e.s.members {
		next := e.ClientOf(m, client.Session(id, password))
		if next.SessionID() != id {
			t.Fatalf("at member %v the session is %v, not %v", m, next.SessionID(), id)
		}
		must(t, settle(e, next))
		if _, there, err := next.Exists(ctx, "/mine"); !there || err != nil {
			t.Errorf("at member %v its ephemeral is there: %v, %v", m, there, err)
		}
		_, err := next.Set(ctx, "/mine", nil, -1)
		must(t, err)
		if m != e.s.members[len(e.s.members)-1] {
			e.Hold(next)
		}
		c = next
	}
	e.Hold(c)
	c = e.Client(client.Session(id, password))
	_, err = c.Create(ctx, "/mine too", nil, zk.Ephemeral, nil)
	must(t, err)
	e.Restart()
	must(t, settle(e, c))
	for _, path := range []string{"/mine", "/mine too"} {
		if _, there, err := c.Exists(ctx, path); !there || err != nil || c.SessionID() != id {
			t.Errorf("after the restart %s is there: %v, %v", path, there, err)
		}
	}
	sessionCloses(t, e, c)
	if _, err := client.Dial(ctx, e.s.addrs(), client.Session(id, password)); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("a session that was closed: %v", err)
	}
}

// sessionCloses closes a session that has two ephemerals, which go with it.
func sessionCloses(t *testing.T, e *Env, c *client.Client) {
	ctx := e.Context()
	other := e.Client()
	must(t, settle(e, other))
	_, there, w, err := other.ExistsW(ctx, "/mine")
	must(t, err)
	if !there {
		t.Fatal("the ephemeral is gone before its session")
	}
	must(t, c.Close())
	want(t, e, "the ephemeral's watch", w, "deleted /mine")
	must(t, settle(e, other))
	if _, there, err := other.Exists(ctx, "/mine too"); there || err != nil {
		t.Errorf("an ephemeral of a closed session: %v, %v", there, err)
	}
	if _, _, err := c.Get(ctx, "/"); !errors.Is(err, client.ErrClosed) {
		t.Errorf("get after Close: %v", err)
	}
}

// sessionExpires has a client out of reach for longer than its session lasts, which is longer than
// a busy machine stands still.
func sessionExpires(t *testing.T, e *Env) {
	ctx := e.Context()
	other := e.Client()
	const lasts = 5 * time.Second
	short := client.SessionTimeout(lasts)
	c, renewing := e.Client(short), e.Client(short, client.NewSession())
	states, cancel := renewing.States()
	defer cancel()
	var gone []*client.Watch
	for i, c := range []*client.Client{c, renewing} {
		if c.SessionTimeout() != lasts {
			t.Errorf("the session lasts %v", c.SessionTimeout())
		}
		_, err := c.Create(ctx, fmt.Sprint("/e", i), nil, zk.Ephemeral, nil)
		must(t, err)
	}
	must(t, settle(e, other))
	for i := range 2 {
		_, there, w, err := other.ExistsW(ctx, fmt.Sprint("/e", i))
		if !there || err != nil {
			t.Fatalf("an ephemeral: %v, %v", there, err)
		}
		gone = append(gone, w)
	}
	_, _, watch, err := c.ExistsW(ctx, "/e1")
	must(t, err)
	_, _, renewed, err := renewing.ExistsW(ctx, "/e0")
	must(t, err)
	old := renewing.SessionID()
	e.Hold(c)
	e.Hold(renewing)
	for i, w := range gone {
		want(t, e, "an ephemeral's watch", w, fmt.Sprint("deleted /e", i))
	}
	e.Release(c)
	e.Release(renewing)
	if _, _, err := c.Get(ctx, "/"); !errors.Is(err, zk.ErrSessionExpired) || c.State() != client.Expired {
		t.Errorf("after the session's end: %v, %v", err, c.State())
	}
	expired := fmt.Sprint("state ", int(zk.StateExpired))
	want(t, e, "a watch of the session", watch, expired)
	want(t, e, "a watch of a session that another follows", renewed, expired)
	for _, s := range []client.State{client.Connected, client.Suspended, client.Expired, client.Connecting, client.Connected} {
		if got := <-states; got != s {
			t.Errorf("state %v, want %v", got, s)
		}
	}
	if _, err := renewing.Create(ctx, "/e1", nil, zk.Ephemeral, nil); err != nil || renewing.SessionID() == old {
		t.Errorf("in the new session %v, before it was %v: %v", renewing.SessionID(), old, err)
	}
}

// TestReadOnly is about members without a quorum. Apache lets nobody read there
// whose session is not a local one.
func TestReadOnly(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,apache,apache") {
		t.Run(members, func(t *testing.T) {
			s := startServers(t, members, "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")
			if len(s.members) < 2 {
				t.Skip("a standalone server needs no quorum")
			}
			s.sideBySide(t, []scenario{{name: "read-only", run: readOnly}})
		})
	}
}

// readOnly leaves one member of three alone. A client that is content with reading
// may read there what is known, and writes again when there is a quorum.
func readOnly(t *testing.T, e *Env) {
	ctx := e.Context()
	old := e.ClientOf(e.s.members[0], client.AllowReadOnly())
	_, err := old.Create(ctx, "/x", []byte("1"), zk.Persistent, nil)
	must(t, err)
	for _, m := range e.s.members[1:] {
		m.Kill()
	}
	must(t, e.s.e.Until(ctx, func() bool {
		s, err := e.s.members[0].Status()
		return err != nil || s.Mode == "read-only"
	}))
	c := e.ClientOf(e.s.members[0], client.AllowReadOnly())
	all := []*client.Client{c}
	if !e.Apache() || !e.Has(localOnly) { // otherwise sessions are local ones, which Apache forgets with every change of roles
		all = append(all, old)
	}
	for _, c := range all {
		reach(t, e, c, client.ConnectedReadOnly)
		if data, _, err := c.Get(ctx, "/x"); string(data) != "1" || err != nil {
			t.Errorf("read only: %q, %v", data, err)
		}
		if _, err := c.Set(ctx, "/x", []byte("2"), -1); !errors.Is(err, zk.ErrNotReadOnly) {
			t.Errorf("a write: %v", err)
		}
		if _, err := c.WhoAmI(ctx); !e.Lacks(identity, err) {
			must(t, err)
		}
	}
	for _, m := range e.s.members[1:] {
		must(t, m.Start())
	}
	_, err = e.s.e.WaitLeader(ctx, func(*cluster.Member) bool { return true })
	must(t, err)
	for _, c := range all {
		reach(t, e, c, client.Connected)
		_, err = c.Set(ctx, "/x", []byte("3"), -1)
		must(t, err)
	}
	must(t, e.s.e.WaitServing(ctx))
}

// reach waits until a client has a state.
func reach(t *testing.T, e *Env, c *client.Client, want client.State) {
	t.Helper()
	ctx := e.Context()
	states, cancel := c.States()
	defer cancel()
	for {
		select {
		case got, ok := <-states:
			if got == want {
				return
			}
			if !ok {
				t.Fatalf("the client is %v, and was never %v", c.State(), want)
			}
		case <-ctx.Done():
			t.Fatalf("the client is %v, and was never %v", c.State(), want)
		}
	}
}
