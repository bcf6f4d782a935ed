package ensemble

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// kindRoot is the parent of what writers of every kind write; it has a quota.
const kindRoot = "/kinds"

// kindSlots is how many rounds of a writer of every kind remain in the tree: a later round deletes what the round in
// the same slot before it created.
const kindSlots = 10

// A kindWriter has a session of the superuser at one member, and writes znodes of every kind below its own root, one
// round after the other.
type kindWriter struct {
	s      *client.Session
	root   string
	rounds atomic.Int64
	made   [kindSlots][]string // the paths that are there, parents first
	// newACLs has every round use an ACL that no round before used. Apache 3.8.0 and 3.9.3 may load a snapshot that
	// they wrote meanwhile with wrong ACLs (ZOOKEEPER-4689): it has znodes with numbers of ACLs that it does not list,
	// and the replay of the log gives the numbers to other ACLs, if ones that were listed are not used any more.
	newACLs bool
}

// kindTimeout is the timeout of the writers' sessions: their ephemerals must be there when a restored ensemble is read,
// which a JVM may take long to join.
const kindTimeout = time.Minute

// A kindWriters is one writer at each member.
type kindWriters struct {
	t       *testing.T
	writers []*kindWriter
	stop    chan struct{}
	running sync.WaitGroup
	failed  chan error
}

// writeKinds starts a writer at each member. name is the parent of their roots, which must not exist.
func (r *rig) writeKinds(name string) *kindWriters {
	r.t.Helper()
	k := &kindWriters{t: r.t, stop: make(chan struct{}), failed: make(chan error, len(r.e.Members))}
	r.t.Cleanup(k.end)
	for _, m := range r.e.Members {
		s := client.New(kindTimeout, patience)
		r.must(s.Connect(m.Client))
		r.t.Cleanup(s.Drop)
		_, err := s.Do(authenticate())
		r.must(err)
		w := &kindWriter{s: s, root: fmt.Sprintf("%s/%s-%d", kindRoot, name, m.ID), newACLs: !r.apache()}
		r.must(w.do(client.Create(w.root, nil, zk.Persistent)))
		k.writers = append(k.writers, w)
	}
	for _, w := range k.writers {
		k.running.Go(func() {
			for {
				select {
				case <-k.stop:
					return
				default:
				}
				if err := w.round(); err != nil {
					k.failed <- fmt.Errorf("writer of %s, round %d: %w", w.root, w.rounds.Load(), err)
					return
				}
			}
		})
	}
	return k
}

// wait waits until every writer has deleted what it created in its first rounds.
func (k *kindWriters) wait(r *rig) {
	k.t.Helper()
	r.must(r.e.Until(r.within(patience), func() bool {
		return !slices.ContainsFunc(k.writers, func(w *kindWriter) bool { return w.rounds.Load() <= 2*kindSlots })
	}))
}

// end stops the writers, whose sessions live on without a client.
func (k *kindWriters) end() {
	k.t.Helper()
	select {
	case <-k.stop:
		return
	default:
	}
	close(k.stop)
	k.running.Wait()
	close(k.failed)
	for err := range k.failed {
		k.t.Error(err)
	}
	for _, w := range k.writers {
		if n := w.rounds.Load(); n <= kindSlots {
			k.t.Errorf("the writer of %s did %d rounds: nothing was deleted", w.root, n)
		}
	}
}

// close ends the sessions, and their ephemerals with them.
func (k *kindWriters) close() error {
	for _, w := range k.writers {
		if _, err := w.s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// sessions are the ids of the writers' sessions.
func (k *kindWriters) sessions() (ids []int64) {
	for _, w := range k.writers {
		ids = append(ids, int64(w.s.ID()))
	}
	return ids
}

// round deletes what the round in the same slot before created, and creates one of everything.
func (w *kindWriter) round() error {
	slot := &w.made[w.rounds.Add(1)%kindSlots]
	var deletes []client.Request
	for _, path := range slices.Backward(*slot) {
		deletes = append(deletes, client.Delete(path, -1))
	}
	*slot = nil
	if err := w.do(deletes...); err != nil {
		return err
	}
	return w.create(slot, fmt.Sprintf("%s/%d", w.root, w.rounds.Load()), byte(w.rounds.Load()))
}

// create creates znodes of every kind at base and below, changes some of them, and keeps the paths.
func (w *kindWriter) create(made *[]string, base string, fill byte) error {
	short, long := []byte{fill}, bytes.Repeat([]byte{fill}, 3000)
	hour := time.Hour.Milliseconds()
	requests := []client.Request{
		client.Create(base, nil, zk.Persistent),
		client.Create(base+"/empty", []byte{}, zk.Persistent),
		client.Create(base+"/set", long, zk.Persistent),
		client.Create(base+"/names in ünïcode", short, zk.Persistent),
		client.Create(base+"/deep", short, zk.Persistent),
		client.Create(base+"/deep/er", nil, zk.Persistent),
		client.Create(base+"/deep/er/still", long, zk.Persistent),
		client.Create(base+"/sequence", nil, zk.Persistent),
		client.Create(base+"/sequence/s-", short, zk.PersistentSequential),
		client.Create(base+"/sequence/s-", short, zk.PersistentSequential),
		client.Create(base+"/ephemeral", short, zk.Ephemeral),
		client.Create(base+"/ephemeral-", long, zk.EphemeralSequential),
		createAs(wire.OpCreateContainer, base+"/container", zk.Container, -1, zk.OpenACLUnsafe()),
		client.Create(base+"/container/child", short, zk.Persistent),
		createAs(wire.OpCreateTTL, base+"/ttl", zk.PersistentWithTTL, hour, zk.OpenACLUnsafe()),
		createAs(wire.OpCreateTTL, base+"/ttl-", zk.PersistentSequentialWithTTL, hour, zk.OpenACLUnsafe()),
		client.Set(base+"/set", short, 0),
		client.Set(base+"/set", nil, 1),
		client.Multi(client.CreateOp(base+"/multi", short, zk.Persistent), client.SetOp(base+"/empty", long, -1), client.DeleteOp(base+"/deep/er/still", -1)),
		client.Create(base+"/deep/er/still", nil, zk.Persistent),
	}
	password := "secret"
	if w.newACLs {
		password = base
	}
	requests = append(requests, withACLs(base, password)...)
	replies, err := w.replies(requests...)
	for i, reply := range replies {
		switch requests[i].Op {
		case wire.OpCreate, wire.OpCreateContainer, wire.OpCreateTTL:
			path, err := reply.Path()
			if err != nil {
				return err
			}
			if !slices.Contains(*made, path) {
				*made = append(*made, path)
			}
		case wire.OpMulti:
			*made = append(*made, base+"/multi")
		}
	}
	return err
}

// withACLs creates znodes with ACLs of several schemes, and changes one.
func withACLs(base, password string) []client.Request {
	addresses := slices.Concat(zk.ReadACLUnsafe(), []zk.ACL{{Perms: zk.PermWrite, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}}})
	return []client.Request{
		createAs(wire.OpCreate, base+"/digest", zk.Persistent, -1, zk.DigestACL(zk.PermAll, "alice", password)),
		createAs(wire.OpCreate, base+"/auth", zk.Persistent, -1, zk.AuthACL(zk.PermRead|zk.PermAdmin)),
		createAs(wire.OpCreate, base+"/ip", zk.Persistent, -1, addresses),
		createAs(wire.OpCreate, base+"/changed", zk.Persistent, -1, addresses),
		setACL(base+"/changed", zk.WorldACL(zk.PermRead|zk.PermDelete)),
	}
}

// do sends requests, all of which must succeed.
func (w *kindWriter) do(requests ...client.Request) error {
	_, err := w.replies(requests...)
	return err
}

func (w *kindWriter) replies(requests ...client.Request) ([]client.Reply, error) {
	replies, err := w.s.Do(requests...)
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		code := reply.Code
		if code == zk.OK && requests[i].Op == wire.OpMulti {
			if code, err = reply.MultiCode(); err != nil {
				return nil, err
			}
		}
		if code != zk.OK {
			return nil, fmt.Errorf("request %d, %v: %w", i, requests[i].Op, code)
		}
	}
	return replies, nil
}

// createAs creates a znode by an operation that client.Create does not send, or with an ACL.
func createAs(op wire.OpCode, path string, mode zk.CreateMode, ttl int64, acl []zk.ACL) client.Request {
	r := wire.CreateRequest{Path: path, Data: []byte(path), ACL: acl, Flags: mode, TTL: ttl}
	return client.Request{Op: op, Body: r.Append(nil, op)}
}

// setACL changes an ACL.
func setACL(path string, acl []zk.ACL) client.Request {
	r := wire.SetACLRequest{Path: path, ACL: acl, Version: -1}
	return client.Request{Op: wire.OpSetACL, Body: r.Append(nil)}
}

// prepareKinds creates the parent of the writers' roots, with a quota, a znode nearly as large as servers accept, and
// some that keep the writers' ACLs in use.
func (r *rig) prepareKinds(m *cluster.Member) {
	r.t.Helper()
	w := &kindWriter{s: r.visit(m, true)}
	r.must(w.do(withACLs("", "secret")...))
	r.must(w.do(client.Create(kindRoot, nil, zk.Persistent), client.Create("/large", bytes.Repeat([]byte("large"), 200_000), zk.Persistent)))
	_, err := w.s.Close()
	r.must(err)
	r.tool("cli", "--server", m.Client, "setquota", "-n", "1000000", "-b", "1000000000", kindRoot)
}
