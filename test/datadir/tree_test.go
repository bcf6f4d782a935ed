package datadir

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// alice may read and administer every znode of the trees.
func alice() client.Option { return client.Auth("digest", []byte("alice:secret")) }

// dump is all that a client is shown of a tree, a line for each znode.
func dump(t *testing.T, c *client.Client) string {
	t.Helper()
	var lines []string
	todo := []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		data, stat, err := c.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		acl, _, err := c.GetACL(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		names, _, err := c.Children(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			todo = append(todo, strings.TrimSuffix(path, "/")+"/"+n)
		}
		text := fmt.Sprintf("%q", data)
		if data == nil {
			text = "null"
		}
		lines = append(lines, fmt.Sprintf("%s %s %+v %v\n", path, text, stat, acl))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// writer fills a server. What it cannot do, it fails the test for.
type writer struct {
	t *testing.T
	c *client.Client
}

func (w *writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *writer) create(path, data string, mode zk.CreateMode, acl ...zk.ACL) {
	w.t.Helper()
	if acl == nil {
		acl = zk.OpenACLUnsafe()
	}
	_, err := w.c.Create(w.t.Context(), path, []byte(data), mode, acl)
	w.must(err)
}

// fill makes one of everything that the release has, under a top of its own. other
// is a second client.
func (w *writer) fill(top string, other *client.Client, modern bool) {
	w.t.Helper()
	ctx, open := w.t.Context(), zk.OpenACLUnsafe()
	w.create(top, "top", zk.Persistent)
	for range 3 {
		w.create(top+"/s-", "", zk.PersistentSequential)
	}
	w.must(w.c.Delete(ctx, top+"/s-0000000001", -1))
	w.create(top+"/acls", "\x00\xff binary", zk.Persistent, slices.Concat(zk.CreatorAllACL(), zk.ReadACLUnsafe(),
		[]zk.ACL{{Perms: zk.PermRead | zk.PermWrite, ID: zk.ID{Scheme: "ip", ID: "10.9.8.7"}}})...)
	_, err := w.c.SetACL(ctx, top+"/s-0000000000", zk.CreatorAllACL(), 0)
	w.must(err)
	_, err = w.c.Set(ctx, top+"/s-0000000000", []byte("grüße"), 0)
	w.must(err)
	w.create(top+"/mine", "e", zk.Ephemeral)
	_, err = other.Create(ctx, top+"/other-", nil, zk.EphemeralSequential, open)
	w.must(err)
	x := w.c.Txn()
	if modern { // before 3.5 a multi knows no create2, which this is
		x.Create(top+"/multi", nil, zk.Persistent, open)
		x.Create(top+"/multi/a", []byte("a"), zk.Persistent, open)
	}
	x.Check(top, 0)
	x.Set(top, []byte("in a multi"), -1)
	x.Delete(top+"/s-0000000002", -1)
	w.must(x.Commit(ctx))
	x = w.c.Txn()
	x.Set(top, []byte("never"), -1)
	x.Delete(top+"/missing", -1)
	if x.Commit(ctx) == nil {
		w.t.Fatal("a multi that cannot be")
	}
	if _, err := w.c.Create(ctx, top, nil, zk.Persistent, open); err == nil {
		w.t.Fatal("a create that cannot be")
	}
	if modern {
		w.create(top+"/container", "c", zk.Container)
		w.create(top+"/container/kept", "", zk.Persistent)
		_, _, err := w.c.CreateTTL(ctx, top+"/ttl", []byte("t"), zk.PersistentWithTTL, open, 1000*time.Hour)
		w.must(err)
	}
}

// quota puts limits on a znode.
func (w *writer) quota(path string) {
	w.t.Helper()
	at := "/zookeeper/quota"
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		at += "/" + name
		w.create(at, "", zk.Persistent)
	}
	w.create(at+"/zookeeper_limits", "count=50,bytes=1000", zk.Persistent)
	w.create(at+"/zookeeper_stats", "count=0,bytes=0", zk.Persistent)
}

// malformed sends a create that cannot be read, as a client of its own.
func malformed(t *testing.T, addr string) {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	k := frames.New(c)
	if _, err := k.Connect(wire.ConnectRequest{TimeoutMillis: 10_000, HasReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	for xid, q := range []struct {
		op   wire.OpCode
		body []byte
	}{{wire.OpCreate, []byte{0}}, {wire.OpCloseSession, nil}} {
		if _, err := k.Call(int32(xid), q.op, q.body); err != nil {
			t.Fatal(err)
		}
	}
}

// dial returns a client with a session that outlives it, for nobody closes it.
func dial(t *testing.T, servers string, opts ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, servers, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
