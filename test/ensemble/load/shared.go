package load

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/history"
	"github.com/pinfold-zk/pinfold/zk"
)

const (
	registerRoot   = "/register"
	pairRoot       = "/pair"
	sequentialRoot = "/queue"
	beaconRoot     = "/beacon"

	registers = 4    // in use at a time
	lifetime  = 1000 // operations on all registers until they are changed for new ones
	pairs     = 3
	queues    = 2
)

// register does one operation on a register. Registers are changed for new ones
// after a while: operations without an answer make a history hard to judge, and
// so each has few of them.
func (w *worker) register() {
	turn := w.l.turn.Add(1)
	key := fmt.Sprintf("%s/%d-%d", registerRoot, w.rng.IntN(registers), turn/lifetime)
	o := history.Op{Session: w.life.Session, Key: key, Want: history.AnyVersion}
	if seen, ok := w.versions[key]; ok && w.rng.IntN(2) == 0 {
		o.Want = seen
	}
	var reqs []client.Request
	switch n := w.rng.IntN(100); {
	case n < 15:
		o.Kind, o.Data = history.Create, fmt.Sprint(turn)
		reqs = append(reqs, client.Create(key, []byte(o.Data), zk.Persistent))
	case n < 55:
		o.Kind, o.Data = history.Set, fmt.Sprint(turn)
		reqs = append(reqs, client.Set(key, []byte(o.Data), o.Want))
	case n < 65:
		o.Kind = history.Delete
		reqs = append(reqs, client.Delete(key, o.Want))
	case n < 85:
		o.Kind, o.Synced = history.Read, true
		reqs = append(reqs, client.Sync("/"), client.Get(key))
	default:
		o.Kind = history.Read
		reqs = append(reqs, client.Get(key))
	}
	o.Call = w.l.now()
	replies, err := w.s.Do(reqs...)
	o.Return = w.l.now()
	if err != nil {
		w.broken(err)
		o.Outcome = history.Unknown
		w.record(o)
		return
	}
	w.answered(o, replies)
}

// answered completes an operation by its last reply.
func (w *worker) answered(o history.Op, replies []client.Reply) {
	if c := replies[0].Code; len(replies) > 1 && c != zk.OK {
		w.refused("sync", c)
		return
	}
	r := replies[len(replies)-1]
	o.Code, o.Zxid = r.Code, r.Zxid
	switch r.Code {
	case zk.OK:
	case zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion:
		delete(w.versions, o.Key)
		w.record(o)
		return
	default:
		w.refused(o.Kind.String(), r.Code)
		return
	}
	var err error
	switch o.Kind {
	case history.Set:
		var st zk.Stat
		st, err = r.Stat()
		o.Version = st.Version
		w.versions[o.Key] = st.Version
	case history.Read:
		var st zk.Stat
		var data []byte
		data, st, err = r.Data()
		o.Data, o.Version, o.Mzxid = string(data), st.Version, st.Mzxid
		w.versions[o.Key] = st.Version
	case history.Create:
		w.versions[o.Key] = 0
	case history.Delete:
		delete(w.versions, o.Key)
	}
	if err != nil {
		w.l.violate("session %v at %s: the reply to %v: %v", w.s.ID(), w.s.Addr(), o, err)
	}
	if o.Kind != history.Read {
		w.acked(o.Call, o.Zxid, 1)
	}
	w.record(o)
}

func (w *worker) record(o history.Op) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.ops = append(w.l.ops, o)
}

func pairPath(i int) string { return fmt.Sprintf("%s/%d", pairRoot, i) }

// poison is what multis write that must fail.
const poison = "poison"

// pair sets both znodes of a pair to one value in a multi, or tries to in one
// that must fail, or reads both.
func (w *worker) pair() {
	p := pairPath(w.rng.IntN(pairs))
	a, b := p+"/a", p+"/b"
	call := w.l.now()
	switch n := w.rng.IntN(10); {
	case n < 4:
		data := []byte(fmt.Sprintf("%d of session %d", w.l.turn.Add(1), w.life.Session))
		set := client.Multi(client.SetOp(a, data, -1), client.SetOp(b, data, -1))
		if z, ok := w.multi(set, zk.OK); ok {
			w.acked(call, z, 1)
		}
	case n < 6:
		w.multi(client.Multi(client.SetOp(a, []byte(poison), -1), client.SetOp(b, []byte(poison), -1),
			client.CreateOp(p+"/c", []byte(poison), zk.Persistent), client.CheckOp(b, 1<<30)), zk.ErrBadVersion)
	case w.l.cfg.Old: // which cannot read both at once
	default:
		replies, err := w.s.Do(client.MultiGet(a, b, p+"/c"))
		if err != nil {
			w.broken(err)
			return
		}
		w.judgePair(p, replies[0])
	}
}

// multi sends a multi that must end with the code. ok says that it did.
func (w *worker) multi(m client.Request, want zk.Code) (z zk.Zxid, ok bool) {
	replies, err := w.s.Do(m)
	if err != nil {
		w.broken(err)
		return 0, false
	}
	got := replies[0].Code
	if got == zk.OK {
		if got, err = replies[0].MultiCode(); err != nil {
			w.l.violate("the reply to a multi: %v", err)
			return 0, false
		}
	}
	if got != want {
		w.refused("multi", got)
		return 0, false
	}
	return replies[0].Zxid, true
}

// judgePair says whether a pair was read as multis must leave it.
func (w *worker) judgePair(p string, r client.Reply) {
	if r.Code != zk.OK {
		w.refused("multiRead", r.Code)
		return
	}
	v, err := r.Values()
	switch {
	case err != nil || len(v) != 3:
		w.l.violate("%s: %d results of a multiRead: %v", p, len(v), err)
	case v[0].Code != zk.OK || v[1].Code != zk.OK || v[2].Code != zk.ErrNoNode:
		w.l.violate("%s: at zxid %v a multiRead has %v, %v and %v", p, r.Zxid, v[0].Code, v[1].Code, v[2].Code)
	case string(v[0].Data) != string(v[1].Data) || string(v[0].Data) == poison ||
		v[0].Stat.Version != v[1].Stat.Version || v[0].Stat.Version > 0 && v[0].Stat.Mzxid != v[1].Stat.Mzxid:
		w.l.violate("%s: at zxid %v a multi is seen in part: %q %+v and %q %+v",
			p, r.Zxid, v[0].Data, v[0].Stat, v[1].Data, v[1].Stat)
	}
}

func queuePath(i int) string { return fmt.Sprintf("%s/%d", sequentialRoot, i) }

// sequential creates a sequential znode, and most often deletes it again.
func (w *worker) sequential() {
	parent, mode := queuePath(w.rng.IntN(queues)), zk.PersistentSequential
	if w.rng.IntN(3) == 0 {
		mode = zk.EphemeralSequential
	}
	call := w.l.now()
	replies, err := w.s.Do(client.Create(parent+"/s-", nil, mode))
	if err != nil {
		w.broken(err)
		return
	}
	if c := replies[0].Code; c != zk.OK {
		w.refused("sequential create", c)
		return
	}
	w.acked(call, replies[0].Zxid, 1)
	path, err := replies[0].Path()
	number, wrong := strconv.ParseInt(strings.TrimPrefix(path, parent+"/s-"), 10, 64)
	if err != nil || wrong != nil {
		w.l.violate("session %v at %s: a sequential create made %q: %v %v", w.s.ID(), w.s.Addr(), path, err, wrong)
		return
	}
	w.l.mu.Lock()
	w.l.seqs = append(w.l.seqs, history.Sequential{
		Session: w.life.Session, Parent: parent, Number: number, Zxid: replies[0].Zxid, Call: call, Return: w.l.now(),
	})
	w.l.mu.Unlock()
	if w.rng.IntN(10) > 0 {
		w.remove(path)
	}
}

// remove deletes a znode that this session has just created.
func (w *worker) remove(path string) {
	call := w.l.now()
	replies, err := w.s.Do(client.Delete(path, 0))
	switch {
	case err != nil:
		w.broken(err)
	case replies[0].Code != zk.OK:
		w.refused("delete of its sequential znode", replies[0].Code)
	default:
		w.acked(call, replies[0].Zxid, 1)
	}
}

// beacon creates an ephemeral that lives as long as the session.
func (w *worker) beacon() {
	w.beacons++
	b := history.Beacon{
		Path:    fmt.Sprintf("%s/%d-%d", beaconRoot, w.life.Session, w.beacons),
		Session: w.life.Session, Call: w.l.now(),
	}
	replies, err := w.s.Do(client.Create(b.Path, nil, zk.Ephemeral))
	b.Return = w.l.now()
	switch {
	case err != nil:
		w.broken(err)
		b.Outcome = history.Unknown
	case replies[0].Code != zk.OK:
		w.refused("create of an ephemeral", replies[0].Code)
		return
	default:
		b.Zxid = replies[0].Zxid
		w.acked(b.Call, b.Zxid, 1)
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.beacons = append(w.l.beacons, b)
}

// look reads a beacon, of a session that may have ended long ago.
func (w *worker) look() {
	w.l.mu.Lock()
	n := len(w.l.beacons)
	if n == 0 {
		w.l.mu.Unlock()
		return
	}
	// The latest are looked at more often than those before.
	recent := min(n, 2*w.l.cfg.Clients)
	path := w.l.beacons[n-1-w.rng.IntN(recent)].Path
	w.l.mu.Unlock()

	k := history.Look{Session: w.life.Session, Path: path, Synced: w.rng.IntN(2) == 0, Call: w.l.now()}
	reqs := []client.Request{client.Get(path)}
	if k.Synced {
		reqs = []client.Request{client.Sync("/"), client.Get(path)}
	}
	replies, err := w.s.Do(reqs...)
	k.Return = w.l.now()
	if err != nil {
		w.broken(err)
		return
	}
	for i, r := range replies {
		if r.Code != zk.OK && !(i == len(replies)-1 && r.Code == zk.ErrNoNode) {
			w.refused("look at an ephemeral", r.Code)
			return
		}
	}
	r := replies[len(replies)-1]
	k.Zxid = r.Zxid
	if k.Exists = r.Code == zk.OK; k.Exists {
		_, st, err := r.Data()
		if err != nil {
			w.l.violate("%s: %v", path, err)
			return
		}
		k.Owner = zk.SessionID(st.EphemeralOwner)
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.looks = append(w.l.looks, k)
}
