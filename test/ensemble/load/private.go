package load

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/zk"
)

const privateRoot = "/private"

// A keep is the state that one session has below its own root, where nobody else
// writes. The session sends many changes at a time; the servers must do them in
// order, so when answers are missing the state is that after some first part of
// what was sent.
type keep struct {
	root  string
	owner zk.SessionID
	made  bool // the root exists
	next  int  // number of the next change
	state map[string]entry
	tail  []change // sent after what led to state, not answered yet, in order
}

// An entry is a znode.
type entry struct {
	data      string
	ephemeral bool
}

// A change is one request: its parts are done together or not at all.
type change []part

type part struct {
	op   wire.OpCode
	name string
	entry
}

// about is how many znodes a session keeps.
const about = 12

// choose makes a change that will succeed in the state, and changes the state.
func (k *keep) choose(rng *rand.Rand, state map[string]entry) change {
	k.next++
	data := fmt.Sprintf("%d ", k.next) + strings.Repeat("x", rng.IntN(200))
	name := fmt.Sprintf("n%d", k.next)
	made := entry{data, rng.IntN(3) == 0}
	names := slices.Sorted(maps.Keys(state))
	var c change
	switch n := rng.IntN(10); {
	case len(names) < about/2 || n < 2 && len(names) < 2*about:
		c = change{{wire.OpCreate, name, made}}
	case n < 4:
		c = change{{op: wire.OpDelete, name: names[rng.IntN(len(names))]}}
	case n < 6:
		i := rng.IntN(len(names))
		c = change{
			{wire.OpCreate, name, made},
			{wire.OpSetData, names[(i+1)%len(names)], entry{data: data}},
			{op: wire.OpDelete, name: names[i]},
		}
	default:
		c = change{{wire.OpSetData, names[rng.IntN(len(names))], entry{data: data}}}
	}
	c.apply(state)
	return c
}

func (c change) apply(state map[string]entry) {
	for _, p := range c {
		switch p.op {
		case wire.OpDelete:
			delete(state, p.name)
		case wire.OpSetData:
			state[p.name] = entry{p.data, state[p.name].ephemeral}
		default:
			state[p.name] = p.entry
		}
	}
}

func (c change) request(root string) client.Request {
	var ops []wire.MultiOp
	for _, p := range c {
		path, mode := root+"/"+p.name, zk.Persistent
		if p.ephemeral {
			mode = zk.Ephemeral
		}
		switch p.op {
		case wire.OpDelete:
			ops = append(ops, client.DeleteOp(path, -1))
		case wire.OpSetData:
			ops = append(ops, client.SetOp(path, []byte(p.data), -1))
		default:
			ops = append(ops, client.CreateOp(path, []byte(p.data), mode))
		}
	}
	if len(ops) > 1 {
		return client.Multi(ops...)
	}
	o := ops[0]
	switch o.Type {
	case wire.OpDelete:
		return client.Delete(o.Path, o.Version)
	case wire.OpSetData:
		return client.Set(o.Path, o.Data, o.Version)
	default:
		return client.Create(o.Path, o.Data, o.Flags)
	}
}

// settle is told what is there: it must be the state after some first part of
// the tail, and becomes the state. alive says that the session has not ended; a
// session that has takes its ephemerals with it.
func (k *keep) settle(got map[string]entry, alive bool) error {
	state := maps.Clone(k.state)
	for i := 0; ; i++ {
		if maps.Equal(got, visible(state, alive)) {
			k.state, k.tail = state, nil
			return nil
		}
		if i == len(k.tail) {
			return fmt.Errorf("%s: after %d changes without an answer the state is none that they lead to:\n%s",
				k.root, len(k.tail), difference(got, visible(k.state, alive)))
		}
		k.tail[i].apply(state)
	}
}

// visible is what is left of a state when the session has ended.
func visible(state map[string]entry, alive bool) map[string]entry {
	if alive {
		return state
	}
	left := maps.Clone(state)
	maps.DeleteFunc(left, func(_ string, e entry) bool { return e.ephemeral })
	return left
}

// difference compares with the state after what was acknowledged.
func difference(got, want map[string]entry) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if e, ok := got[name]; !ok {
			fmt.Fprintf(&b, "  %s is missing\n", name)
		} else if e != want[name] {
			fmt.Fprintf(&b, "  %s has %.20q, ephemeral %v; want %.20q, %v\n",
				name, e.data, e.ephemeral, want[name].data, want[name].ephemeral)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "  %s is there\n", name)
		}
	}
	return b.String()
}

// read reads what is below the root after a sync. The error says that the
// connection broke.
func (k *keep) read(s *client.Session) (map[string]entry, error) {
	replies, err := s.Do(client.Sync("/"), client.Children(k.root))
	if err != nil {
		return nil, err
	}
	if c := replies[1].Code; c != zk.OK {
		return nil, fmt.Errorf("load: list %s: %w", k.root, c)
	}
	names, _, err := replies[1].Names()
	if err != nil {
		return nil, err
	}
	var reqs []client.Request
	for _, n := range names {
		reqs = append(reqs, client.Get(k.root+"/"+n))
	}
	if replies, err = s.Do(reqs...); err != nil {
		return nil, err
	}
	got := map[string]entry{}
	for i, r := range replies {
		if r.Code != zk.OK {
			return nil, fmt.Errorf("load: read %s/%s: %w", k.root, names[i], r.Code)
		}
		data, st, err := r.Data()
		if err != nil {
			return nil, err
		}
		got[strings.Clone(names[i])] = entry{string(data), st.EphemeralOwner != 0}
	}
	return got, nil
}
