package hostile

import (
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// multiTooLong sends multis whose creates, with ACLs that expand, nearly fill a
// transaction, and as many operations that fail as the frame has room for.
func multiTooLong(x *scene) {
	const identities, failing = 30, 45000
	for _, m := range x.e.Members {
		s := x.session(m)
		if s == nil {
			continue
		}
		for i := range identities {
			if _, err := s.Do(authenticate("digest", fmt.Sprintf("%s:secret", long(1000, i)))); err != nil {
				return
			}
		}
		const expanded = identities * 1045 // bytes that one ACL takes in the transaction
		for creates := 1<<20/expanded - 2; creates <= 2<<20/expanded+2 && x.lasts(); creates++ {
			var ops []wire.MultiOp
			for i := range creates {
				op := client.CreateOp(fmt.Sprintf("/too-long-%d", i), nil, zk.Persistent)
				op.ACL = []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}
				ops = append(ops, op)
			}
			for range failing {
				ops = append(ops, client.CheckOp("/", 12345))
			}
			if _, err := s.Do(client.Multi(ops...)); err != nil {
				x.note("the connection was closed at %d creates", creates)
				return
			}
		}
	}
}

// unread sends the same requests on many connections of which nothing is read.
func (x *scene) unread(conns int, hold time.Duration, reqs func(i int) []client.Request) {
	list := x.sessions(conns)
	x.each(len(list), func(i int) { x.post(list[i], reqs(i)...) })
	x.hold(hold)
}

func longNames(x *scene) {
	s := x.mustSession(x.leader)
	x.do(s, client.Create("/long-names", nil, zk.Persistent))
	for i := range x.n(300) {
		x.do(s, client.Create("/long-names/"+long(megabyte, i), nil, zk.Persistent))
	}
}

func unreadLongNames(x *scene) {
	x.unread(20, 8*time.Second, func(int) []client.Request { return repeat(4, getChildren("/long-names")) })
}

func manyNames(x *scene) {
	x.fill(x.mustSession(x.leader), "/many-names", x.n(1_000_000), zk.Persistent)
}

func unreadManyNames(x *scene) {
	x.unread(20, 8*time.Second, func(int) []client.Request { return repeat(10, getChildren("/many-names")) })
}

func unreadNamesBehindWrites(x *scene) {
	x.unread(20, 8*time.Second, func(int) []client.Request {
		return []client.Request{client.Set("/many-names", nil, -1), getChildren("/many-names"), getChildren("/many-names")}
	})
}

func longACLs(x *scene) {
	s := x.mustSession(x.leader)
	x.do(s, createWith("/addresses", nil, addresses(35_000)), createWith("/users", nil, users(20_000)))
	x.stored += 4 << 20
}

// readLongACLs has one request check an ACL that matches nobody thousands of times.
func readLongACLs(x *scene) {
	for range 2 {
		s := x.session(x.leader)
		if s == nil {
			return
		}
		paths := make([]string, x.n(3000))
		for i := range paths {
			paths[i] = "/addresses"
		}
		began := time.Now()
		if _, err := s.Do(client.MultiGet(paths...)); err != nil {
			x.note("the connection was closed after %v", round(time.Since(began)))
		}
	}
}

// readWithIdentities has a client with a thousand identities read a znode with an ACL of
// twenty thousand.
func readWithIdentities(x *scene) {
	s := x.session(x.leader)
	if s == nil {
		return
	}
	for i := range 1000 {
		if _, err := s.Do(authenticate("digest", fmt.Sprintf("u%d:p", i))); err != nil {
			break
		}
	}
	x.drain(s.Conn())
	for x.lasts() {
		if !x.post(s, repeat(100, client.Get("/users"))...) {
			return
		}
		x.wait(20 * time.Millisecond)
	}
}

func ephemerals(x *scene) {
	s := x.session(x.follower)
	if s == nil {
		return
	}
	x.fillOrLeave(s, "/ephemerals", x.n(1_000_000))
	began := time.Now()
	if _, err := s.Close(); err != nil {
		x.note("closing the session: %v", err)
	}
	x.note("its end took %v", round(time.Since(began)))
}

// fillOrLeave is fill with ephemerals, within an attack: an error ends it.
func (x *scene) fillOrLeave(s *client.Session, parent string, n int) {
	const perMulti = 5000
	if _, err := s.Do(client.Create(parent, nil, zk.Persistent)); err != nil {
		return
	}
	for done := 0; done < n && x.lasts(); {
		var ops []wire.MultiOp
		for ; done < n && len(ops) < perMulti; done++ {
			ops = append(ops, client.CreateOp(fmt.Sprintf("%s/%d", parent, done), nil, zk.Ephemeral))
		}
		if _, err := s.Do(client.Multi(ops...)); err != nil {
			return
		}
	}
}

func forCounts(x *scene) {
	x.fill(x.mustSession(x.leader), "/counts", x.n(1_000_000), zk.Persistent)
}

func countAll(x *scene) {
	s := x.session(x.leader)
	if s == nil {
		return
	}
	x.drain(s.Conn())
	x.post(s, repeat(x.n(2000), onPath(wire.OpGetAllChildrenNumber, "/"))...)
	x.hold(10 * time.Second)
}

func manyEphemerals(x *scene) {
	s := x.mustSession(x.leader)
	x.fill(s, "/prefix", x.n(300_000), zk.Ephemeral)
	x.owner = s
}

// listNoEphemerals asks the session that has many ephemerals for those with a prefix
// that none has.
func listNoEphemerals(x *scene) {
	s := x.owner
	if s.Connect(x.leader.Client) != nil {
		return
	}
	x.keep(s.Conn())
	x.drain(s.Conn())
	x.post(s, repeat(50, onPath(wire.OpGetEphemerals, "/nothing"))...)
	x.hold(8 * time.Second)
}

func forQuotas(x *scene) {
	x.fill(x.mustSession(x.leader), "/quotas", x.n(1_000_000), zk.Persistent)
}

// quotas creates and deletes the statistics of a quota over many znodes.
func quotas(x *scene) {
	const dir = "/zookeeper/quota/quotas"
	s := x.session(x.leader)
	if s == nil {
		return
	}
	limits, stats := []byte("count=-1,bytes=-1"), []byte("count=0,bytes=0")
	if _, err := s.Do(client.Create(dir, nil, zk.Persistent), client.Create(dir+"/zookeeper_limits", limits, zk.Persistent)); err != nil {
		return
	}
	x.drain(s.Conn())
	for range x.n(50) {
		x.post(s, client.Multi(client.CreateOp(dir+"/zookeeper_stats", stats, zk.Persistent), client.DeleteOp(dir+"/zookeeper_stats", -1)))
	}
	x.hold(8 * time.Second)
}

// longACLsOfAll gives znodes ACLs of a megabyte each.
func longACLsOfAll(x *scene) {
	s := x.mustSession(x.leader)
	n := x.n(300)
	x.do(s, client.Create("/acls", nil, zk.Persistent))
	for i := range n {
		acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: long(megabyte, i) + ":x"}}}
		x.do(s, createWith(fmt.Sprintf("/acls/%d", i), nil, acl))
	}
	x.stored += int64(n) * megabyte
}

// snapshots writes so much that snapshots begin.
func snapshots(x *scene) {
	s := x.session(x.leader)
	if s == nil {
		return
	}
	x.drain(s.Conn())
	for end := time.Now().Add(4 * time.Second); x.lasts() && time.Now().Before(end); {
		if !x.post(s, repeat(100, client.Set("/acls", nil, -1))...) {
			return
		}
		x.wait(20 * time.Millisecond)
	}
}

// deep creates znodes below each other, and counts, watches and deletes them.
func deep(x *scene) {
	s := x.session(x.leader)
	if s == nil {
		return
	}
	path, paths := "", []string{}
	for depth := 0; depth < x.n(4000) && x.lasts(); {
		var ops []wire.MultiOp
		for size := 0; size < 500_000; depth++ {
			path += "/d"
			paths = append(paths, path)
			ops = append(ops, client.CreateOp(path, nil, zk.Persistent))
			size += len(path) + 60
		}
		if _, err := s.Do(client.Multi(ops...)); err != nil {
			return
		}
	}
	x.note("%d znodes deep", len(paths))
	for _, m := range x.e.Members {
		if w := x.session(m); w != nil {
			x.drain(w.Conn())
			x.post(w, addWatch("/", persistentRecursive), addWatch(path, persistentRecursive))
			x.post(w, repeat(200, onPath(wire.OpGetAllChildrenNumber, "/d"))...)
		}
	}
	for i := len(paths) - 1; i >= 0 && x.lasts(); i-- {
		if _, err := s.Do(client.Delete(paths[i], -1)); err != nil {
			return
		}
	}
}

// failingWrites sends writes that fail, each of which takes a place in the log.
func failingWrites(x *scene) {
	list := x.sessions(10)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		for x.lasts() && x.post(list[i], repeat(500, client.Delete("/no-such-znode", -1))...) {
			x.wait(time.Millisecond)
		}
	})
}

// laggingFollower pauses a follower beside writes that fail, again and again, so that it
// has much to catch up with, and lets observers that read nothing queue the same.
func laggingFollower(x *scene) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failingWrites(x)
	}()
	for i := range 8 {
		x.learner(x.leader.Quorum, zab.ObserverInfo, int64(200+i)) // nil if it is refused
	}
	for x.lasts() {
		if x.follower.Pause() != nil {
			break // it has ended, which finish tells
		}
		x.wait(2 * time.Second)
		_ = x.follower.Resume() // as above
		x.wait(2 * time.Second)
	}
	<-ended
}

// largeMultis has sessions send multis with as many operations as a frame holds.
func largeMultis(sessions int) func(*scene) {
	return func(x *scene) { sendLargeMultis(x, sessions) }
}

func sendLargeMultis(x *scene, sessions int) {
	const operations = 40_000
	list := x.sessions(sessions)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		var ops []wire.MultiOp
		for range operations {
			ops = append(ops, client.CheckOp("/", -1))
		}
		all := client.Multi(ops...)
		for range x.n(90) / sessions {
			if !x.lasts() || !x.post(list[i], all) {
				return
			}
		}
	})
	x.hold(4 * time.Second)
}
