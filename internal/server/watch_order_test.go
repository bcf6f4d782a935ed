package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// frameNote is what P4 speaks of: an event or a reply, and its zxid.
type frameNote struct {
	event bool
	zxid  zk.Zxid
}

// watchLoad reads and writes pipelined, and notes every frame, until it has had n
// replies.
func watchLoad(c *wireClient, rng *rand.Rand, nodes, n int) ([]frameNote, error) {
	go func() {
		for i := range n {
			path := fmt.Sprintf("/p4/%d", rng.IntN(nodes))
			b := encode(nil, int32(i), wire.OpGetData, readBody(path, rng.IntN(2) == 0))
			if rng.IntN(10) == 0 {
				b = encode(nil, int32(i), wire.OpSetData, setBody(path, nil))
			}
			if c.write(b) != nil {
				return
			}
		}
	}()
	var notes []frameNote
	for replies := 0; replies < n; {
		r, err := c.next()
		if err != nil {
			return nil, err
		}
		event := r.Xid == wire.XidNotification
		notes = append(notes, frameNote{event, r.Zxid})
		if !event {
			replies++
		}
	}
	return notes, nil
}

// P4: under load, no event comes behind a reply that shows its state or a later
// one; and a persistent watch has been told of every change up to what a reply
// shows.
func TestP4EventsBeforeReplies(t *testing.T) {
	const nodes, requests, watchers, writers = 5, 4000, 3, 2
	s := newRig(t)
	addr := s.listen()
	admin := s.openWith(dial(t, addr))
	admin.create("/p4", "", zk.Persistent)
	for i := range nodes {
		admin.create(fmt.Sprintf("/p4/%d", i), "", zk.Persistent)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var wg sync.WaitGroup
	notes := make([][]frameNote, watchers+writers)
	clients := make([]*wireClient, len(notes))
	for i := range clients {
		clients[i] = s.openWith(dial(t, addr))
		if i < watchers {
			clients[i].mustCall(wire.OpAddWatch, addWatchBody("/p4", zk.AddWatchPersistentRecursive))
		}
	}
	for i, c := range clients {
		wg.Go(func() {
			var err error
			if notes[i], err = watchLoad(c, rand.New(rand.NewPCG(seed, uint64(i))), nodes, requests); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, list := range notes {
		latest := zk.Zxid(0)
		for k, n := range list {
			if n.event && n.zxid <= latest {
				t.Fatalf("client %d, frame %d: the event of %v comes behind a reply at %v", i, k, n.zxid, latest)
			}
			if !n.event {
				latest = max(latest, n.zxid)
			}
		}
	}
	// The first watcher has been told of all changes that anybody was, but perhaps
	// the last ones.
	var changes []zk.Zxid
	for _, n := range notes[0] {
		if n.event {
			changes = append(changes, n.zxid)
		}
	}
	if len(changes) < requests/20 || !slices.IsSorted(changes) {
		t.Fatalf("%d events, in order %v", len(changes), slices.IsSorted(changes))
	}
	changes = slices.Compact(changes) // one that two kinds of watch have told of
	for i := 1; i < watchers; i++ {
		told, last := 0, zk.Zxid(0)
		for k, n := range notes[i] {
			if n.event && n.zxid != last {
				told, last = told+1, n.zxid
			}
			if n.event || n.zxid > changes[len(changes)-1] {
				continue
			}
			if at, exact := slices.BinarySearch(changes, n.zxid); exact && told != at+1 || !exact && told != at {
				t.Fatalf("client %d, frame %d: %d events before the reply at %v, want %d", i, k, told, n.zxid, at)
			}
		}
	}
}

// A client that has had an event reads a state that is not before it.
func TestP4ReadAfterEvent(t *testing.T) {
	s := newRig(t)
	addr := s.listen()
	writer := s.openWith(dial(t, addr))
	writer.create("/x", "", zk.Persistent)
	const rounds = 300
	var wg sync.WaitGroup
	for i := range 4 {
		c := s.openWith(dial(t, addr))
		wg.Go(func() {
			for range rounds {
				r, err := c.do(wire.OpGetData, readBody("/x", true))
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				if len(c.events) == 0 {
					if e, err := c.next(); err != nil || e.Xid != wire.XidNotification || e.Zxid <= r.Zxid {
						t.Errorf("client %d: %+v, %v, want an event after %v", i, e, err, r.Zxid)
						return
					}
				}
				event := c.events[0]
				c.events = nil
				r, err = c.do(wire.OpGetData, readBody("/x", false))
				d := jute.NewDecoder(r.body)
				d.Buffer()
				if stat := wire.DecodeStat(&d); err != nil || stat.Mzxid < event.zxid {
					t.Errorf("client %d: after the event of %v: %+v, %v", i, event.zxid, stat, err)
					return
				}
			}
			c.nc.Close()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
			writer.mustCall(wire.OpSetData, setBody("/x", nil))
		}
	}
}

// A null path is not the path "", on which exists may leave a watch.
func TestCheckWatchesOfNull(t *testing.T) {
	c := newRig(t).open()
	c.mustCall(wire.OpExists, readBody("", true))
	empty, null := wire.PathInt{Value: int32(zk.WatcherData)}, []byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, byte(zk.WatcherData)}
	for _, op := range []wire.OpCode{wire.OpCheckWatches, wire.OpRemoveWatches} {
		if code := c.call(op, null).Err; code != zk.ErrNoWatcher {
			t.Errorf("%d of null: %v", op, code)
		}
		if code := c.call(op, empty.Append(nil)).Err; code != zk.OK {
			t.Errorf("%d of the empty path: %v", op, code)
		}
	}
	null[3] = 0xFE
	if code := c.call(wire.OpCheckWatches, null).Err; code != zk.ErrMarshalling {
		t.Errorf("an impossible length: %v", code)
	}
}
