package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// transactions carries out multis that succeed, and that fail, and reads together.
func transactions(t *testing.T, e *Env) {
	c, ctx := e.Client(), e.Context()
	x := c.Txn()
	a := x.Create("/a", []byte("1"), zk.Persistent, nil)
	s := x.Create("/a/s-", nil, zk.EphemeralSequential, nil)
	x.Check("/a", 0)
	stat := x.Set("/a", []byte("2"), 0)
	x.Create("/gone", nil, zk.Persistent, nil)
	x.Delete("/gone", 0)
	must(t, x.Commit(ctx))
	if a.Path != "/a" || s.Path != "/a/s-0000000000" || stat.Version != 1 || stat.NumChildren != 1 {
		t.Errorf("created %q and %q, set %+v", a.Path, s.Path, *stat)
	}

	failing := c.Txn()
	failing.Set("/a", []byte("3"), -1)
	failing.Delete("/a/s-0000000000", -1)
	failing.Create("/a", nil, zk.Persistent, nil)
	failing.Check("/a", 9)
	err := failing.Commit(ctx)
	var why *client.TxnError
	if !errors.As(err, &why) || why.Index != 2 || why.Path != "/a" || why.Err != zk.ErrNodeExists || !errors.Is(err, zk.ErrNodeExists) {
		t.Errorf("a transaction whose third operation fails: %v", err)
	}
	if data, stat, err := c.Get(ctx, "/a"); string(data) != "2" || stat.Version != 1 || stat.NumChildren != 1 || err != nil {
		t.Errorf("it changed something: %q %+v, %v", data, stat, err)
	}
	check := c.Txn()
	check.Check("/a", 0)
	if err := check.Commit(ctx); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("a check of another version: %v", err)
	}
	empty := c.Txn()
	must(t, empty.Commit(ctx))
	readTogether(t, e, c)
	asyncTransactions(t, e, c)
	laterTransactions(t, e, c)
}

// laterTransactions create what 3.4 does not know. Where one operation is not known
// none is carried out.
func laterTransactions(t *testing.T, e *Env, c *client.Client) {
	ctx := e.Context()
	x := c.Txn()
	plain := x.Create("/plain", nil, zk.Persistent, nil)
	made := x.Create2("/with-stat", nil, zk.Persistent, nil)
	if err := x.Commit(ctx); !e.Lacks(create2, err) {
		must(t, err)
		if made.Path != "/with-stat" || made.Stat.DataLength != 0 || plain.Path != "/plain" {
			t.Errorf("created %+v and %+v", plain, made)
		}
	}
	x = c.Txn()
	x.Create("/box", nil, zk.Container, nil)
	if err := x.Commit(ctx); !e.Lacks(containers, err) {
		must(t, err)
	}
	for path, f := range map[string]feature{"/plain": create2, "/with-stat": create2, "/box": containers} {
		if _, there, err := c.Exists(ctx, path); err != nil || there != e.Has(f) {
			t.Errorf("%s is there: %v, %v", path, there, err)
		}
	}
}

func readTogether(t *testing.T, e *Env, c *client.Client) {
	r := c.ReadTxn()
	data, names := r.Get("/a"), r.Children("/a")
	missing, none := r.Get("/no"), r.Children("/no")
	err := r.Commit(e.Context())
	if e.Lacks(reading, err) {
		return
	}
	must(t, err)
	if string(data.Data) != "2" || data.Stat.Version != 1 || data.Err != nil || fmt.Sprint(names.Names) != "[s-0000000000]" || names.Err != nil {
		t.Errorf("read together: %+v, %+v", data, names)
	}
	if !errors.Is(missing.Err, zk.ErrNoNode) || !errors.Is(none.Err, zk.ErrNoNode) {
		t.Errorf("what is not there, read together: %v, %v", missing.Err, none.Err)
	}
}

// asyncTransactions starts transactions each of which relies on the one before.
func asyncTransactions(t *testing.T, e *Env, c *client.Client) {
	const number = 50
	ctx, done := e.Context(), make(chan error, number)
	for i := range number {
		x := c.Txn()
		x.Check("/a", int32(1+i))
		x.Set("/a", fmt.Append(nil, i), int32(1+i))
		x.CommitAsync(ctx, func(err error) { done <- err })
	}
	for i := range number {
		if err := <-done; err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
}

// acls are kept by the servers: what a client may, it may after AddAuth, and after
// its connection was lost.
func acls(t *testing.T, e *Env) {
	ctx := e.Context()
	owner, other := e.Client(client.Auth("digest", []byte("anna:secret"))), e.Client()
	_, err := owner.Create(ctx, "/own", []byte("x"), zk.Persistent, zk.CreatorAllACL())
	must(t, err)
	acl, _, err := owner.GetACL(ctx, "/own")
	if err != nil || len(acl) != 1 || acl[0].ID.Scheme != "digest" || acl[0].Perms != zk.PermAll {
		t.Errorf("the owner's ACL: %v, %v", acl, err)
	}
	denied := func(who string, c *client.Client) {
		t.Helper()
		_, _, get := c.Get(ctx, "/own")
		_, set := c.Set(ctx, "/own", nil, -1)
		_, create := c.Create(ctx, "/own/x", nil, zk.Persistent, nil)
		_, setACL := c.SetACL(ctx, "/own", zk.OpenACLUnsafe(), -1)
		x := c.Txn()
		x.Set("/own", nil, -1)
		for op, err := range map[string]error{"get": get, "set": set, "create": create, "setacl": setACL, "multi": x.Commit(ctx)} {
			if !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("%s by %s: %v", op, who, err)
			}
		}
	}
	allowed := func(who string, c *client.Client) {
		t.Helper()
		_, _, err := c.Get(ctx, "/own")
		must(t, err)
		_, err = c.Set(ctx, "/own", []byte("y"), -1)
		must(t, err)
	}
	must(t, settle(e, other))
	denied("a stranger", other)
	allowed("the owner", owner)
	must(t, other.AddAuth(ctx, "digest", []byte("bert:wrong")))
	denied("somebody else", other)
	must(t, other.AddAuth(ctx, "digest", []byte("anna:secret")))
	allowed("one who knows the password", other)
	for _, c := range []*client.Client{owner, other} {
		e.Cut(c)
		err := c.Sync(ctx, "/")
		for errors.Is(err, zk.ErrConnectionLoss) {
			err = c.Sync(ctx, "/")
		}
		must(t, err)
		allowed("one whose connection was lost", c)
	}
	badAuth(t, e)
}

// badAuth ends a client.
func badAuth(t *testing.T, e *Env) {
	c, ctx := e.Client(), e.Context()
	if err := c.AddAuth(ctx, "none", []byte("x")); !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("a scheme that does not exist: %v", err)
	}
	if _, _, err := c.Get(ctx, "/own"); !errors.Is(err, zk.ErrAuthFailed) || c.State() != client.AuthFailed {
		t.Errorf("afterwards: %v, %v", err, c.State())
	}
}

// chroots are seen by nobody who is below.
func chroots(t *testing.T, e *Env) {
	ctx := e.Context()
	top := e.Client()
	for _, path := range []string{"/r", "/r/s"} {
		_, err := top.Create(ctx, path, nil, zk.Persistent, nil)
		must(t, err)
	}
	below := e.dial(e.chroot + "/r/s")
	_, _, w, err := below.ExistsW(ctx, "/x")
	must(t, err)
	rec, err := below.AddWatch(ctx, "/", zk.AddWatchPersistentRecursive)
	if !e.Lacks(persistents, err) {
		must(t, err)
	}
	path, err := below.Create(ctx, "/x-", []byte("1"), zk.EphemeralSequential, nil)
	if path != "/x-0000000000" || err != nil {
		t.Errorf("created %q, %v", path, err)
	}
	must(t, settle(e, top))
	if _, there, err := top.Exists(ctx, "/r/s"+path); !there || err != nil {
		t.Errorf("seen from above: %v, %v", there, err)
	}
	paths, err := below.Ephemerals(ctx, "/")
	if !e.Lacks(ephemerals, err) && (fmt.Sprint(paths) != "[/x-0000000000]" || err != nil) {
		t.Errorf("ephemerals %v, %v", paths, err)
	}
	_, err = top.Create(ctx, "/r/s/x", nil, zk.Persistent, nil)
	must(t, err)
	want(t, e, "the watch", w, "created /x")
	if e.Has(persistents) {
		want(t, e, "the recursive watch", rec, "created /x-0000000000", "created /x")
	}
	x := below.Txn()
	made := x.Create("/m", nil, zk.Persistent, nil)
	if err := x.Commit(ctx); err != nil || made.Path != "/m" {
		t.Errorf("a transaction makes %q, %v", made.Path, err)
	}
	_, err = below.Set(ctx, "/", []byte("root"), -1)
	must(t, err)
	must(t, settle(e, top))
	if data, _, err := top.Get(ctx, "/r/s"); string(data) != "root" || err != nil {
		t.Errorf("its root seen from above: %q, %v", data, err)
	}
	nowhere := e.dial(e.chroot + "/not/there")
	if _, err := nowhere.Create(ctx, "/x", nil, zk.Persistent, nil); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("create below a chroot that does not exist: %v", err)
	}
}

// containersAndTTL go by themselves, when they are empty or old.
func containersAndTTL(t *testing.T, e *Env) {
	c, ctx := e.Client(), e.Context()
	_, box := c.Create(ctx, "/box", nil, zk.Container, nil)
	_, _, old := c.CreateTTL(ctx, "/old", nil, zk.PersistentWithTTL, nil, time.Millisecond)
	if e.Lacks(containers, box) && e.Lacks(containers, old) {
		return
	}
	must(t, errors.Join(box, old))
	seq, stat, err := c.CreateTTL(ctx, "/kept-", nil, zk.PersistentSequentialWithTTL, nil, time.Hour)
	must(t, err)
	if seq != "/kept-0000000002" || stat.Version != 0 {
		t.Errorf("%q, %+v", seq, stat)
	}
	_, there, w, err := c.ExistsW(ctx, "/old")
	must(t, err)
	if there {
		want(t, e, "the watch of what is old", w, "deleted /old")
	}
	if _, there, err := c.Exists(ctx, "/box"); !there || err != nil {
		t.Errorf("a container that never had a child: %v, %v", there, err)
	}
	_, err = c.Create(ctx, "/box/x", nil, zk.Persistent, nil)
	must(t, err)
	_, _, w, err = c.ExistsW(ctx, "/box")
	must(t, err)
	must(t, c.Delete(ctx, "/box/x", -1))
	want(t, e, "the watch of an empty container", w, "deleted /box")
	if _, there, err := c.Exists(ctx, seq); !there || err != nil {
		t.Errorf("what has an hour: %v, %v", there, err)
	}
	if _, err := c.Create(ctx, "/bad", nil, zk.PersistentWithTTL, nil); !errors.Is(err, zk.ErrBadArguments) {
		t.Errorf("a TTL mode without a TTL: %v", err)
	}
}
