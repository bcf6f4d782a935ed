package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A multi of very many operations is applied in pieces. A read of what it changes is
// answered after the last piece, any other at once; so no client sees a part of it.
func TestLongMultiIsAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 6000
		var between atomic.Pointer[func()] // called once, in the middle of the multi
		s := newRig(t, func(setup *rigSetup) {
			setup.onFlush = func() {
				if f := between.Load(); f != nil {
					(*f)()
				}
			}
		})
		var multi []byte
		for i := range many {
			op := wire.MultiOp{Type: wire.OpSetData, Version: -1}
			switch op.Path = fmt.Sprint("/m/", i); {
			case i == 2:
				op = wire.MultiOp{Type: wire.OpDelete, Version: -1}
				op.Path = "/m/2"
			case i == 3:
				op = wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: "/m/new", ACL: zk.OpenACLUnsafe(), Flags: zk.Ephemeral}}
			default:
				op.Data = []byte("new")
			}
			multi = op.Append(multi)
		}
		multi = wire.AppendMultiEnd(multi)
		writer := s.open()
		writer.create("/other", "same", zk.Persistent)
		writer.create("/m", "", zk.Persistent)
		createAll(writer, many, zk.Persistent, func(i int) string { return fmt.Sprint("/m/", i) })
		renew := wire.SetWatches{Data: []string{"/m/1"}, Exist: []string{}, Child: []string{}, RelativeZxid: 1 << 40}
		reads := []struct {
			op    wire.OpCode
			body  []byte
			right func(r reply) bool
		}{
			{wire.OpGetData, readBody("/m/0", false), func(r reply) bool { return strings.Contains(string(r.body), "new") }},
			{wire.OpGetData, readBody("/m/5999", false), func(r reply) bool { return strings.Contains(string(r.body), "new") }},
			{wire.OpExists, readBody("/m/2", false), func(r reply) bool { return r.Err == zk.ErrNoNode }},
			{wire.OpExists, readBody("/m/new", true), func(r reply) bool { return r.Err == zk.OK }},
			{wire.OpGetChildren, readBody("/m", false), func(r reply) bool {
				d := jute.NewDecoder(r.body)
				return len(d.Strings()) == many
			}},
			{wire.OpGetACL, jute.AppendString(nil, "/m/1"), func(r reply) bool { return strings.Contains(string(r.body), "anyone") }},
			{wire.OpMultiRead, multiReadOf("/m/5998", 3), func(r reply) bool { return strings.Count(string(r.body), "new") == 3 }},
			{wire.OpGetAllChildrenNumber, jute.AppendString(nil, "/m"), func(r reply) bool { return string(r.body) == "\x00\x00\x17\x70" }},
			{wire.OpGetEphemerals, prefixBody("/m"), func(r reply) bool { return len(r.body) == 4 }},
			{wire.OpSetWatches, renew.Append(nil, wire.OpSetWatches), func(r reply) bool { return r.Err == zk.OK }},
		}
		var readers []*wireClient
		for range reads {
			readers = append(readers, s.open())
		}
		bystander, replies, answered := s.open(), make([]reply, len(reads)), atomic.Int64{}
		before := s.rep.LastApplied()
		done := make(chan struct{}, len(reads))
		flushes := 0
		look := func() {
			part := false
			s.rep.View(func(v replica.View) { part = v.AnyChanging() != nil })
			if flushes++; !part || flushes != 2 {
				return
			}
			for i, c := range readers {
				go func() {
					replies[i], _ = c.do(reads[i].op, reads[i].body)
					answered.Add(1)
					done <- struct{}{}
				}()
			}
			if data, r := bystander.get("/other"); data != "same" || r.Zxid != before {
				t.Errorf("a read of another znode in between: %q at %v, want %v", data, r.Zxid, before)
			}
			synctest.Wait()
			if n := answered.Load(); n > 0 {
				t.Errorf("%d reads were answered from a part of the multi", n)
			}
		}
		between.Store(&look)
		r := writer.mustCall(wire.OpMulti, multi)
		for range reads {
			<-done
		}
		for i, got := range replies {
			if !reads[i].right(got) || got.Zxid != r.Zxid {
				t.Errorf("%v: %+v %q", reads[i].op, got.ReplyHeader, got.body[:min(len(got.body), 40)])
			}
		}
		const head = 9 // of each result, and of the end
		if want := (many-2)*(head+wire.StatLen) + head + head + 4 + len("/m/new") + head; len(r.body) != want {
			t.Errorf("a reply of %d bytes, want %d", len(r.body), want)
		}
	})
}
