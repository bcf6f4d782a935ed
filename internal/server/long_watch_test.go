package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// longPath is a path that a watch keeps without a copy of the watch tables' own.
func longPath(name string) string { return "/" + name + strings.Repeat("-", watch.LongPath) }

// A watch on a long path, whatever request leaves it, has the path that it was asked for: the bytes of the request are used
// again by those that follow.
func TestWatchesOnLongPaths(t *testing.T) {
	g := newGateFS(vfs.NewMem())
	s := newRig(t, func(o *rigSetup) { o.fs = g })
	admin, c := s.open(), s.open()
	var ways []string
	leave := func(way string, request func(path string)) {
		path := longPath(way)
		if way != "exists" && way != "renewed-exists" {
			admin.create(path, "", zk.Persistent)
		}
		request(path)
		ways = append(ways, way)
	}
	read := func(op wire.OpCode) func(string) {
		return func(path string) { c.read(op, path, true) }
	}
	renew := func(r func(path string) wire.SetWatches) func(string) {
		return func(path string) {
			list := r(path)
			list.RelativeZxid = 1 << 60
			for _, paths := range []*[]string{&list.Data, &list.Exist, &list.Child, &list.Persistent, &list.PersistentRecursive} {
				*paths = append([]string{}, *paths...) // null is refused
			}
			c.mustCall(wire.OpSetWatches2, list.Append(nil, wire.OpSetWatches2))
		}
	}
	leave("exists", read(wire.OpExists))
	leave("data", read(wire.OpGetData))
	leave("children", read(wire.OpGetChildren))
	leave("added", func(path string) {
		c.mustCall(wire.OpAddWatch, addWatchBody(path, zk.AddWatchPersistent))
	})
	leave("behind-a-write", func(path string) {
		g.set(true, nil)
		flood(c, encode(encode(nil, 1, wire.OpCreate, createBody("/write", nil, zk.Persistent)), 2, wire.OpGetData, readBody(path, true)))
		g.set(false, nil)
		for range 2 {
			if r, err := c.nextReply(); err != nil || r.Err != zk.OK {
				t.Fatal(r.ReplyHeader, err)
			}
		}
	})
	leave("renewed-data", renew(func(p string) wire.SetWatches { return wire.SetWatches{Data: []string{p}} }))
	leave("renewed-exists", renew(func(p string) wire.SetWatches { return wire.SetWatches{Exist: []string{p}} }))
	leave("renewed-child", renew(func(p string) wire.SetWatches { return wire.SetWatches{Child: []string{p}} }))
	leave("renewed-added", renew(func(p string) wire.SetWatches { return wire.SetWatches{PersistentRecursive: []string{p}} }))

	c.read(wire.OpExists, "/"+strings.Repeat("x", 2*watch.LongPath), false)
	c.takeEvents()
	for _, way := range ways {
		path := longPath(way)
		want := []string{"NodeDeleted " + path}
		switch {
		case strings.HasSuffix(way, "exists"):
			want[0] = "NodeCreated " + path
			admin.create(path, "", zk.Persistent)
		default:
			admin.mustCall(wire.OpDelete, deleteBody(path))
		}
		if got := c.takeEvents(); !slices.Equal(got, want) {
			for i := range got {
				got[i] = got[i][:min(40, len(got[i]))]
			}
			t.Errorf("%s: %d events: %.60q", way, len(got), got)
		}
	}
}

// The copy of a long path for a watch waits for its turn without any lock.
func TestLongPathsAreCopiedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c, other := s.open(), s.open()
		for range cap(s.srv.making) {
			s.srv.making <- struct{}{} // others make theirs
		}
		path := longPath("watched")
		renewed := wire.SetWatches{Data: []string{}, Exist: []string{path}, Child: []string{}}
		flood(c, encode(encode(nil, 7, wire.OpExists, readBody(path, true)), 8, wire.OpSetWatches, renewed.Append(nil, wire.OpSetWatches)))
		synctest.Wait()
		if began := time.Now(); other.create("/other", "", zk.Persistent).Err != zk.OK || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		s.srv.replica.Watches(func(w *watch.Tables) {
			if w.Bytes() > 0 {
				t.Error("a path is copied out of turn")
			}
		})
		for range cap(s.srv.making) {
			<-s.srv.making
		}
		for xid := int32(7); xid <= 8; xid++ {
			if r, err := c.next(); err != nil || r.Xid != xid || r.Err != zk.OK && r.Err != zk.ErrNoNode {
				t.Errorf("reply %+v, %v", r.ReplyHeader, err)
			}
		}
		other.create(path, "", zk.Persistent)
		if got := c.takeEvents(); !slices.Equal(got, []string{fmt.Sprint("NodeCreated ", path)}) {
			t.Errorf("%d events", len(got))
		}
	})
}
