package server

import (
	"bytes"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// The result of a create in a multi is create's or create2's: Java's client knows
// no other, and fails the whole multi.
func TestMultiCreateResults(t *testing.T) {
	for _, c := range []struct {
		op    wire.OpCode
		flags zk.CreateMode
		ttl   int64
		want  wire.OpCode
	}{
		{wire.OpCreate, zk.Persistent, -1, wire.OpCreate},
		{wire.OpCreate, zk.Ephemeral, -1, wire.OpCreate},
		{wire.OpCreate, zk.Container, -1, wire.OpCreate2},
		{wire.OpCreate2, zk.Persistent, -1, wire.OpCreate2},
		{wire.OpCreateContainer, zk.Container, -1, wire.OpCreate2},
		{wire.OpCreateContainer, zk.Persistent, -1, wire.OpCreate2},
		{wire.OpCreateTTL, zk.PersistentWithTTL, 5, wire.OpCreate2},
		{wire.OpCreateTTL, zk.Persistent, 5, wire.OpCreate},
		{wire.OpCreateTTL, zk.Container, 5, wire.OpCreate2},
	} {
		client := newRig(t).open()
		m := wire.MultiOp{Type: c.op}
		m.CreateRequest = wire.CreateRequest{Path: "/n", ACL: zk.OpenACLUnsafe(), Flags: c.flags, TTL: c.ttl}
		reply := client.mustCall(wire.OpMulti, wire.AppendMultiEnd(m.Append(nil)))
		d := jute.NewDecoder(reply.body)
		var h wire.MultiHeader
		h.Decode(&d)
		path, hasStat := d.String(), false
		if h.Type != wire.OpCreate {
			hasStat = wire.DecodeStat(&d).Czxid != 0
		}
		var end wire.MultiHeader
		end.Decode(&d)
		if d.Err() != nil || !end.Done || h.Type != c.want || h.Err != zk.OK || path != "/n" || hasStat == (c.want == wire.OpCreate) {
			t.Errorf("%d flags=%d ttl=%d: %+v %q, stat %v, error %v; want %d", c.op, c.flags, c.ttl, h, path, hasStat, d.Err(), c.want)
		}
	}
}

// The server's own sweep sends deleteContainer. A client's is refused, as Apache 3.8.0
// does, whatever the rights: also if it comes by way of a follower.
func TestClientsCannotDeleteContainers(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		for _, r := range []*rig{e.leader(), e.in(replica.Follower)[0]} {
			c := r.open()
			path := "/of-" + r.rep.Mode().String()
			c.mustCall(wire.OpCreate, createBody(path, nil, zk.Persistent))
			before := c.mustCall(wire.OpExists, readBody(path, false))
			for _, body := range [][]byte{[]byte(path), jute.AppendBuffer(nil, []byte(path)), []byte("/missing"), {}} {
				if got := c.call(wire.OpDeleteContainer, body); got.Err != zk.ErrBadArguments || len(got.body) > 0 {
					t.Errorf("%v: deleteContainer %q: %+v", r.rep.Mode(), body, got)
				}
			}
			if after := c.mustCall(wire.OpExists, readBody(path, false)); !bytes.Equal(before.body, after.body) {
				t.Errorf("%v: %s has changed", r.rep.Mode(), path)
			}
		}
	})
}
