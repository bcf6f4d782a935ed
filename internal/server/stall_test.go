package server

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// The disk of a server without an ensemble stalls for longer than a session's timeout,
// while the connection's own goroutine waits for the write. Another goroutine reads the client's
// pings meanwhile, and its session goes on. Others are answered.
func TestStalledDiskKeepsSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{}, 1) // while something is in it, syncs of the log wait
		s := newRig(t, func(setup *rigSetup) {
			setup.fs = faultfs.New(vfs.NewMem(), 0, faultfs.None, func(op faultfs.Op) {
				if op.Kind == "sync" && strings.Contains(op.Name, "log.") {
					gate <- struct{}{}
					<-gate
				}
			})
		})
		c := newWireClient(t, s.pipe())
		c.mustConnect(4 * rigTick)
		c.create("/e", "", zk.Ephemeral)
		other := newWireClient(t, s.pipe())
		other.mustConnect(20 * rigTick)
		c.create("/x", "", zk.Persistent) // the disk has been prompt
		gate <- struct{}{}
		if _, err := c.send(wire.OpCreate, createBody("/y", nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; !bytes.Contains(stacks, []byte("server.(*conn).work(")) {
			t.Fatal("the write is not made by the connection's goroutine: the test shows nothing")
		}
		for range 10 {
			pass(time.Second)
			if _, err := c.send(wire.OpPing, nil); err != nil {
				t.Fatal(err)
			}
			if !other.has("/e") {
				t.Fatal("another client does not see the ephemeral")
			}
		}
		<-gate
		pass(3 * rigTick) // the pings are as old as that when the next comes
		if r, err := c.nextReply(); err != nil || r.Err != zk.OK {
			t.Fatalf("the write: %+v, %v", r, err)
		}
		if !s.knows(c.resp.SessionID) || !other.has("/e") {
			t.Error("the session ended although its client sent pings")
		}
	})
}

// So many requests wait behind a write, and that for a disk that stalls, that the server does not read from the connection any
// more. The client's pings lie in the socket meanwhile: they count, and its session goes on.
func TestStalledDiskKeepsASessionThatReads(t *testing.T) {
	keepsASession(t, wire.OpExists, readBody("/y", false), true)
}

// A read waits, unread, for the answers to its session's writes, and these for a disk that stalls. The client's pings lie in
// the socket meanwhile: they count, and its session goes on.
func TestStalledDiskKeepsASessionWhoseReadWaits(t *testing.T) {
	keepsASession(t, wire.OpGetAllChildrenNumber, jute.AppendString(nil, "/"), false)
}

// keepsASession demands that a session outlives a stall of the disk, if its client sends a write and then this read until the
// connection takes no more. queued says whether the reads fill the queue behind the write.
func keepsASession(t *testing.T, op wire.OpCode, body []byte, queued bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{}, 1) // while something is in it, syncs of the log wait
		s := newRig(t, func(setup *rigSetup) {
			setup.fs = faultfs.New(vfs.NewMem(), 0, faultfs.None, func(op faultfs.Op) {
				if op.Kind == "sync" && strings.Contains(op.Name, "log.") {
					gate <- struct{}{}
					<-gate
				}
			})
		})
		c, other := newWireClient(t, s.pipe()), newWireClient(t, s.pipe())
		c.mustConnect(4 * rigTick)
		other.mustConnect(20 * rigTick)
		gate <- struct{}{}
		if _, err := other.send(wire.OpCreate, createBody("/x", nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		go func() { // until the pipe is full
			_, err := c.send(wire.OpCreate, createBody("/y", nil, zk.Persistent))
			for err == nil {
				_, err = c.send(op, body)
			}
		}()
		synctest.Wait()
		full := s.connOf(c).full()
		pass(8 * rigTick)
		knows := s.knows(c.resp.SessionID)
		<-gate
		if full != queued {
			t.Fatalf("the reads are queued: %v; the test shows nothing", full)
		}
		pass(rigTick / 2)
		if !knows || !s.knows(c.resp.SessionID) {
			t.Error("the session ended although the server did not read what its client sent")
		}
	})
}
