package znode

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// bodyNode is a znode of a snapshot that a test writes.
type bodyNode struct {
	path string
	data []byte
	acl  int64
	mode Mode
}

type bodyACL struct {
	id  int64
	acl []zk.ACL
}

// appendBody writes a snapshot's body by what the protocol page says of it.
func appendBody(b []byte, sessions []zk.SessionID, acls []bodyACL, nodes []bodyNode) []byte {
	b = jute.AppendInt(b, int32(len(sessions)))
	for _, s := range sessions {
		b = jute.AppendInt(jute.AppendLong(b, int64(s)), 1000)
	}
	b = jute.AppendInt(b, int32(len(acls)))
	for _, a := range acls {
		b = wire.AppendACL(jute.AppendLong(b, a.id), a.acl)
	}
	for _, n := range nodes {
		b = jute.AppendBuffer(jute.AppendString(b, n.path), n.data)
		m := n.mode
		for _, v := range []int64{n.acl, int64(m.Czxid), int64(m.Mzxid), m.Ctime, m.Mtime} {
			b = jute.AppendLong(b, v)
		}
		for _, v := range []int32{m.Version, m.Cversion, m.Aversion} {
			b = jute.AppendInt(b, v)
		}
		b = jute.AppendLong(jute.AppendLong(b, m.Owner), int64(m.Pzxid))
	}
	return jute.AppendString(b, "/")
}

// reload is the tree that a snapshot of an idle t gives.
func reload(t *Tree) (*Tree, error) {
	w, b := t.Walk(), []byte(nil)
	b, done := w.Next(b, 1<<40)
	if !done {
		return nil, fmt.Errorf("the walk is not done after %d bytes", len(b))
	}
	l := NewLoader(t.opts)
	n, done, err := l.Load(b)
	if err != nil || !done || n != len(b) {
		return nil, fmt.Errorf("Load of %d bytes: %d, %v, %v", len(b), n, done, err)
	}
	return l.Tree(w.Zxid()), nil
}

// dump writes everything that a tree knows, each thing once, sorted.
func dump(t *Tree) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	var visit func(id ID)
	visit = func(id ID) {
		var s zk.Stat
		t.Stat(id, &s)
		add("%s %s %v %+v %+v", t.Path(id), spell(t.Data(id)), t.ACL(id).All(), t.Mode(id), s)
		t.Children(id, func(name string) {
			p := strings.TrimSuffix(t.Path(id), "/") + "/" + name
			visit(t.Lookup(p))
		})
	}
	visit(rootID)
	t.Sessions(func(s zk.SessionID, timeout int32) { add("session %v %d", s, timeout) })
	t.EphemeralSessions(func(s zk.SessionID) {
		t.Ephemerals(s, func(path string) { add("ephemeral %v %s", s, path) })
	})
	for id := range t.containers {
		add("container %s", t.Path(id))
	}
	for id := range t.ttls {
		add("ttl %s", t.Path(id))
	}
	for q := range t.quotas {
		add("quota %s", q)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\nzxid %v digest %d znodes %d ephemerals %d bytes %d\n", strings.Join(lines, "\n"),
		t.LastZxid(), t.Digest(), t.Count(), t.EphemeralCount(), t.DataSize())
}

// spell tells null from empty.
func spell(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%q", data)
}

// firstDiff shows the first line in which two dumps differ; "" if none.
func firstDiff(got, want string) string {
	if got == want {
		return ""
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d\n got %.600s\nwant %.600s", i, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
