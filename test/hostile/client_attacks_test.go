package hostile

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// sets has clients send as many sets of so many bytes as the servers take.
func sets(clients, size int) func(*scene) {
	return func(x *scene) {
		s := x.session(x.leader)
		if s == nil {
			return
		}
		_, _ = s.Do(client.Create("/sets", nil, zk.Persistent)) // it may be there
		end := time.Now().Add(max(4*time.Second, time.Duration(x.scale*float64(10*time.Second))))
		list := x.sessions(clients)
		data := make([]byte, size)
		x.each(len(list), func(i int) {
			x.drain(list[i].Conn())
			set := client.Set("/sets", data, -1)
			for range x.n(1000) {
				if time.Now().After(end) || !x.lasts() || !x.post(list[i], set) {
					return
				}
			}
		})
	}
}

func dataOfMegabyte(x *scene) {
	x.do(x.mustSession(x.leader), client.Create("/megabyte", make([]byte, megabyte), zk.Persistent))
}

// unreadMultiReads asks for replies of 18 MB that are not read.
func unreadMultiReads(x *scene) {
	paths := make([]string, 18)
	for i := range paths {
		paths[i] = "/megabyte"
	}
	x.unread(x.n(60), 6*time.Second, func(int) []client.Request { return []client.Request{client.MultiGet(paths...)} })
}

// unreadData asks for data of a megabyte on many connections.
func unreadData(x *scene) {
	x.unread(x.n(1000), 6*time.Second, func(int) []client.Request { return repeat(4, client.Get("/megabyte")) })
}

// unreadDataBehindWrites does it behind writes, where the applier makes the replies.
func unreadDataBehindWrites(x *scene) {
	x.unread(x.n(200), 6*time.Second, func(int) []client.Request {
		var reqs []client.Request
		for range 4 {
			reqs = append(reqs, client.Set("/zookeeper", nil, 12345), client.Get("/megabyte"), client.Get("/megabyte"))
		}
		return reqs
	})
}

// partialFrames sends most of a frame on many connections, and no more.
func partialFrames(connections int) func(*scene) {
	return func(x *scene) { sendPartialFrames(x, x.n(connections)) }
}

func sendPartialFrames(x *scene, connections int) {
	part := append([]byte{0, 0x0F, 0x42, 0x40}, make([]byte, 600_000)...) // of a million
	list := x.sessions(connections)
	x.each(len(list), func(i int) {
		c := list[i].Conn()
		if c.SetDeadline(time.Now().Add(2*time.Second)) == nil {
			_, _ = c.Write(part) // the server may not take it
		}
	})
	x.hold(6 * time.Second)
}

// slowFrame sends a byte a second of a frame that is never complete. That must not keep
// the session.
func slowFrame(x *scene) {
	s := client.New(innocentTimeout, patience)
	if s.Connect(x.follower.Client) != nil {
		return
	}
	x.keep(s.Conn())
	const path = "/slow-frame"
	if _, err := s.Do(client.Create(path, nil, zk.Ephemeral)); err != nil {
		return
	}
	look := x.session(x.leader)
	if look == nil {
		return
	}
	_, _ = s.Conn().Write([]byte{0, 0, 1, 0})
	began := time.Now()
	for range 12 {
		if x.wait(time.Second); !x.lasts() {
			return
		}
		_, _ = s.Conn().Write([]byte{0}) // the connection may be closed, as it should
		if r, err := look.Do(client.Get(path)); err == nil && r[0].Code == zk.ErrNoNode {
			x.note("the session ended after %v", round(time.Since(began)))
			return
		}
	}
	x.fault("a session of %v lived for %v without a request", innocentTimeout, time.Since(began).Round(time.Second))
}

// guessPasswords computes the passwords of the innocent clients' sessions from their ids,
// which every client can see.
func guessPasswords(x *scene) {
	s := x.session(x.leader)
	if s == nil {
		return
	}
	for i := range x.e.Members {
		r, err := s.Do(client.Get(fmt.Sprintf("/innocent-%d", i)))
		if err != nil {
			return
		}
		_, stat, err := r[0].Data()
		if err != nil {
			continue
		}
		id := zk.SessionID(stat.EphemeralOwner)
		password := session.Password(id)
		thief := client.Resume(id, password[:], innocentTimeout, dialTimeout)
		if thief.Connect(x.leader.Client) == nil {
			_, err := thief.Close()
			x.note("session taken over, closed: %v", err == nil)
		}
	}
}

// watchesOfLongPaths leaves watches on paths of half a megabyte that do not exist.
func watchesOfLongPaths(x *scene) {
	n := x.n(1000)
	list := x.sessions(20)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		for j := range n / len(list) {
			if !x.post(list[i], watchOf("/"+long(megabyte/2, i*n+j))) {
				return
			}
		}
	})
	x.hold(4 * time.Second)
}

// manyWatches leaves a million watches on short paths.
func manyWatches(x *scene) {
	n := x.n(1_000_000)
	list := x.sessions(20)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		const perPost = 1000
		for done := 0; done < n/len(list) && x.lasts(); {
			var reqs []client.Request
			for range perPost {
				reqs = append(reqs, watchOf(fmt.Sprintf("/watch-%d-%d", i, done)))
				done++
			}
			if !x.post(list[i], reqs...) {
				return
			}
		}
	})
	x.hold(2 * time.Second)
}

// setWatchesOfLongPaths restores watches by requests of a megabyte, again and again.
func setWatchesOfLongPaths(x *scene) {
	list := x.sessions(20)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		for j := range x.n(50) {
			r := wire.SetWatches{RelativeZxid: math.MaxInt64}
			for k := range 9 {
				r.Exist = append(r.Exist, "/"+long(megabyte/10, i*1000+j*10+k))
			}
			if !x.lasts() || !x.post(list[i], client.Request{Op: wire.OpSetWatches, Body: r.Append(nil, wire.OpSetWatches)}) {
				return
			}
		}
	})
	x.hold(4 * time.Second)
}

// unreadEvents has clients that read nothing watch everything, while znodes with names of
// a megabyte come and go.
func unreadEvents(x *scene) {
	list := x.sessions(x.n(400))
	x.each(len(list), func(i int) { x.post(list[i], addWatch("/", persistentRecursive)) })
	s := x.session(x.leader)
	if s == nil {
		return
	}
	for i := 0; i < x.n(40) && x.lasts(); i++ {
		path := "/" + long(megabyte, i)
		if _, err := s.Do(client.Create(path, nil, zk.Persistent), client.Delete(path, -1)); err != nil {
			return
		}
	}
	x.hold(4 * time.Second)
}

// manyIdentities has many connections prove as many identities as they may.
func manyIdentities(connections int) func(*scene) {
	return func(x *scene) { proveManyIdentities(x, x.n(connections)) }
}

func proveManyIdentities(x *scene, connections int) {
	list := x.sessions(connections)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		for j := range 125 {
			if !x.lasts() || !x.post(list[i], authenticate("digest", fmt.Sprintf("%s:p", long(1000, j)))) {
				return
			}
		}
	})
	x.hold(2 * time.Second)
}

// longSchemes names authentication schemes of a megabyte that do not exist.
func longSchemes(x *scene) {
	before := x.printed()
	x.each(x.n(200), func(i int) {
		if s := x.session(x.e.Members[i%len(x.e.Members)]); s != nil {
			_, _ = s.Do(authenticate(long(megabyte, i), "x")) // it is closed
		}
	})
	grown := x.printed() - before
	x.note("%d KB of log", grown>>10)
	if grown > 1<<20 {
		x.fault("%d bytes were logged", grown)
	}
}

// manySessions begins sessions and drops their connections.
func manySessions(x *scene) {
	x.each(x.n(20_000), func(i int) {
		s := client.New(attackerTimeout, dialTimeout)
		if s.Connect(x.e.Members[i%len(x.e.Members)].Client) == nil {
			s.Drop()
		}
	})
}

// silentConnections opens connections that say nothing, and as many that say a part of
// the first frame.
func silentConnections(x *scene) {
	x.each(x.n(2000), func(i int) {
		if c := x.dial(x.e.Members[i%len(x.e.Members)].Client); c != nil && i%2 == 0 {
			_, _ = c.Write([]byte{0, 0, 0, 45, 0, 0}) // the server may have closed it
		}
	})
	x.hold(6 * time.Second)
}

// garbage sends random bytes and impossible lengths to all ports.
func garbage(x *scene) {
	var addrs []string
	for _, m := range x.e.Members {
		addrs = append(addrs, m.Client)
		if x.members > 1 {
			addrs = append(addrs, m.Quorum, m.Election)
		}
	}
	lengths := [][]byte{
		{0x7F, 0xFF, 0xFF, 0xFF}, {0xFF, 0xFF, 0xFF, 0xFF}, {0x80, 0, 0, 0}, {0, 0x10, 0, 0}, {0, 0x0F, 0xFF, 0xFF}, {0, 0, 0, 0}, {0, 0, 0, 1},
	}
	seeds, rng := make([]byte, 64<<10), x.source()
	for i := range seeds {
		seeds[i] = byte(rng.Uint32())
	}
	x.each(x.n(3000), func(i int) {
		c := x.dial(addrs[i%len(addrs)])
		if c == nil || c.SetDeadline(time.Now().Add(time.Second)) != nil {
			return
		}
		at := i * 997 % (len(seeds) - 5000)
		_, _ = c.Write(append(bytes.Clone(lengths[i%len(lengths)]), seeds[at:at+i%5000]...))
		if i%3 > 0 {
			_ = c.Close() // the server may have closed it
		}
	})
}

// words asks for long answers to four-letter words and reads none.
func words(x *scene) {
	list := []string{"wchp", "wchc", "dump", "cons", "mntr", "stat", "hash"}
	var conns []net.Conn
	for i := 0; i < x.n(300) && x.lasts(); i++ {
		if c := x.dial(x.e.Members[i%len(x.e.Members)].Client); c != nil {
			_, _ = c.Write([]byte(list[i%len(list)])) // the server may have closed it
			conns = append(conns, c)
		}
	}
	x.note("%d connections", len(conns))
	x.hold(6 * time.Second)
}

func wordsPrepared(x *scene) {
	for i := range x.n(100) {
		s := x.mustSession(x.e.Members[i%len(x.e.Members)])
		var reqs []client.Request
		for j := range 1000 {
			reqs = append(reqs, watchOf(fmt.Sprintf("/words-%d-%d", i, j)))
		}
		_, err := s.Do(reqs...)
		x.must(err)
	}
}

// syncs sends more syncs than servers should keep.
func syncs(x *scene) {
	list := x.sessions(20)
	x.each(len(list), func(i int) {
		x.drain(list[i].Conn())
		for range x.n(20) {
			if !x.lasts() || !x.post(list[i], repeat(1000, client.Sync("/"))...) {
				return
			}
		}
	})
	x.hold(2 * time.Second)
}

// everyRequest sends every request with every extreme value of its fields, whole and cut
// off.
func everyRequest(x *scene) {
	bodies := extremes()
	order := x.source().Perm(len(bodies))[:x.n(len(bodies))]
	x.note("%d bodies", len(order))
	x.each(len(order), func(i int) {
		i = order[i]
		for _, op := range []wire.OpCode{bodies[i].op, wire.OpMulti, wire.OpMultiRead} {
			body := bodies[i].body
			if op != bodies[i].op {
				body = append(wire.MultiHeader{Type: bodies[i].op, Err: -1}.Append(nil), body...)
				body = wire.AppendMultiEnd(body)
			}
			if len(body) > maxFrame-8 {
				continue
			}
			x.one(x.e.Members[i%len(x.e.Members)], client.Request{Op: op, Body: body})
			if len(body) > 0 {
				x.one(x.e.Members[i%len(x.e.Members)], client.Request{Op: op, Body: body[:len(body)-1]})
			}
		}
	})
}

// one sends a request on a session of its own, and ends that.
func (x *scene) one(m *cluster.Member, r client.Request) {
	s := client.New(innocentTimeout, 5*time.Second)
	if s.Connect(m.Client) != nil {
		return
	}
	_, _ = s.Do(r) // whatever the answer is
	if s.Connected() {
		_, _ = s.Close() // the connection may be closed
	}
	s.Drop()
}

// A body is what an operation carries.
type body struct {
	op   wire.OpCode
	body []byte
}

// extremes are the bodies of all operations with extreme values. Paths are not such that
// anything of others is changed.
func extremes() (list []body) {
	deepPath := bytes.Repeat([]byte("/e"), megabyte/2)
	paths := []string{
		"", "/", "//", "e", "/e/", "/e//e", "/e/.", "/e/..", "/e\x00", "/e\xff\xfe", "/e\ud7ff\uf8ff", "/zookeeper", "/zookeeper/quota/e",
		"/zookeeper/config", "/extreme", "/extreme/no/such", string(deepPath), "/" + long(megabyte, 0),
	}
	ints := []int32{0, 1, -1, -2, 4, 5, 6, 7, math.MaxInt32, math.MinInt32}
	data := [][]byte{nil, {}, make([]byte, megabyte-1000)}
	acls := [][]zk.ACL{
		nil, {}, zk.OpenACLUnsafe(), {{Perms: -1, ID: zk.ID{Scheme: "world", ID: "anyone"}}}, {{Perms: 31, ID: zk.ID{Scheme: "auth"}}},
		{{Perms: 31, ID: zk.ID{Scheme: "x509", ID: "e"}}}, {{Perms: 31, ID: zk.ID{Scheme: "ip", ID: "1.2.3.4/99"}}}, addresses(35_000),
	}
	add := func(op wire.OpCode, b []byte) { list = append(list, body{op, b}) }
	for _, p := range paths {
		for _, op := range []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL} {
			for i, n := range ints {
				r := wire.CreateRequest{Path: p, Data: data[i%len(data)], ACL: acls[i%len(acls)], Flags: zk.CreateMode(n), TTL: int64(n) << 31}
				add(op, r.Append(nil, op))
			}
		}
		for i, n := range ints {
			set, acl := wire.SetDataRequest{Path: p, Data: data[i%len(data)], Version: n}, wire.SetACLRequest{Path: p, ACL: acls[i%len(acls)], Version: n}
			if p != "/" && p != "/zookeeper" {
				add(wire.OpSetData, set.Append(nil))
				add(wire.OpSetACL, acl.Append(nil))
			}
			v := wire.PathVersion{Path: p, Version: n}
			at := wire.PathInt{Path: p, Value: n}
			add(wire.OpDelete, v.Append(nil))
			add(wire.OpCheck, v.Append(nil))
			for _, op := range []wire.OpCode{wire.OpAddWatch, wire.OpCheckWatches, wire.OpRemoveWatches} {
				add(op, at.Append(nil))
			}
		}
		for _, op := range []wire.OpCode{
			wire.OpExists, wire.OpGetData, wire.OpGetChildren, wire.OpGetChildren2, wire.OpGetACL, wire.OpSync, wire.OpDeleteContainer,
			wire.OpGetEphemerals, wire.OpGetAllChildrenNumber, wire.OpWhoAmI, wire.OpPing, wire.OpReconfig, wire.OpSASL,
			wire.OpCreateSession, wire.OpError, wire.OpNotification, 4711, math.MinInt32, math.MaxInt32,
		} {
			add(op, jute.AppendBool(jute.AppendString(nil, p), true))
		}
	}
	for _, n := range ints {
		for _, op := range []wire.OpCode{wire.OpSetWatches, wire.OpSetWatches2, wire.OpAuth, wire.OpReconfig, wire.OpMulti, wire.OpCreateSession} {
			b := jute.AppendLong(nil, int64(n)<<32)
			add(op, jute.AppendInt(jute.AppendInt(jute.AppendInt(b, n), n), n))
		}
	}
	return list
}
