package crash

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// worker writes under a znode of its own, many requests at a time, and knows what
// must be there.
type worker struct {
	client
	root string
	rng  *rand.Rand
	done map[string]string // the state after all that was verified
	sent []change          // since then, in order
	acks int               // how many of sent were acknowledged
	next int               // number of the next change, never reused
}

// change is one request: children to set, to create or, with no data, to delete.
// A multi has several.
type change struct {
	op    wire.OpCode
	parts []part
}

type part struct {
	op         wire.OpCode
	name, data string
	ephemeral  bool
}

// outstanding is how many requests a worker has on the way at most.
const outstanding = 50

// keep is about how many children a worker has.
const keep = 12

// load writes until the connection breaks; it returns another error than that.
func (w *worker) load() error {
	defer w.nc.Close()
	projected := maps.Clone(w.done)
	room := make(chan struct{}, outstanding)
	queue := make(chan int, outstanding)
	go func() {
		defer close(queue)
		for i := 0; ; i++ {
			room <- struct{}{}
			c := w.choose(projected)
			w.sent = append(w.sent, c) // read by others when queue is closed
			_, err := w.nc.Write(frames.AppendRequest(nil, int32(i), c.op, c.encode(w.root)))
			if err != nil {
				return
			}
			queue <- i
		}
	}()
	var wrong error
	broken := false
	for i := range queue {
		if !broken {
			code, _, err := w.reply(int32(i))
			switch {
			case err != nil:
				broken = true
				w.nc.Close()
			case code != zk.OK:
				wrong = fmt.Errorf("%s: request %d: %w", w.root, i, code)
				broken = true
				w.nc.Close()
			default:
				w.acks++
			}
		}
		<-room
	}
	return wrong
}

// choose makes a change and applies it to the state that it will lead to.
func (w *worker) choose(state map[string]string) change {
	w.next++
	data := fmt.Sprintf("%d ", w.next) + strings.Repeat("x", w.rng.IntN(300))
	if w.rng.IntN(50) == 0 {
		data += strings.Repeat("y", w.rng.IntN(30000))
	}
	names := slices.Sorted(maps.Keys(state))
	name := fmt.Sprintf("n%d", w.next)
	var c change
	switch k := w.rng.IntN(10); {
	case len(names) < keep/2 || k < 2 && len(names) < 2*keep:
		c = single(part{wire.OpCreate, name, data, w.rng.IntN(3) == 0})
	case k < 4:
		c = single(part{op: wire.OpDelete, name: names[w.rng.IntN(len(names))]})
	case k < 6:
		i := w.rng.IntN(len(names))
		c = change{wire.OpMulti, []part{
			{wire.OpCreate, name, data, false},
			{wire.OpSetData, names[(i+1)%len(names)], data, false},
			{op: wire.OpDelete, name: names[i]},
		}}
	default:
		c = single(part{wire.OpSetData, names[w.rng.IntN(len(names))], data, false})
	}
	c.apply(state)
	return c
}

func single(p part) change { return change{p.op, []part{p}} }

func (c change) apply(state map[string]string) {
	for _, p := range c.parts {
		if p.op == wire.OpDelete {
			delete(state, p.name)
		} else {
			state[p.name] = p.data
		}
	}
}

func (c change) encode(root string) []byte {
	var b []byte
	for _, p := range c.parts {
		m := wire.MultiOp{Type: p.op, Version: -1}
		m.Path = root + "/" + p.name
		m.ACL, m.Data = zk.OpenACLUnsafe(), []byte(p.data)
		if p.ephemeral {
			m.Flags = zk.Ephemeral
		}
		b = m.Append(b)
	}
	if c.op == wire.OpMulti {
		return wire.AppendMultiEnd(b)
	}
	return b[multiHeaderBytes:] // the record alone
}

// multiHeaderBytes is type 4, done 1, err 4.
const multiHeaderBytes = 9

// verify compares what the server has with what was sent: the state must be that
// after all that was acknowledged and some, none or all of what was not, in
// order. It returns how many that are.
func (w *worker) verify() (extra int, err error) {
	got, err := w.state(w.root)
	if err != nil {
		return 0, err
	}
	state := maps.Clone(w.done)
	for i := 0; ; i++ {
		if i >= w.acks && maps.Equal(got, state) {
			extra = i - w.acks
			w.done, w.sent, w.acks = state, nil, 0
			return extra, nil
		}
		if i == len(w.sent) {
			return 0, fmt.Errorf("%s: of %d requests %d were acknowledged; the state is none that they lead to:\n%s",
				w.root, len(w.sent), w.acks, w.difference(got))
		}
		w.sent[i].apply(state)
	}
}

// difference compares with the state after what was acknowledged.
func (w *worker) difference(got map[string]string) string {
	want := maps.Clone(w.done)
	for _, c := range w.sent[:w.acks] {
		c.apply(want)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if data, ok := got[name]; !ok {
			fmt.Fprintf(&b, "  %s is missing\n", name)
		} else if data != want[name] {
			fmt.Fprintf(&b, "  %s has %.20q, want %.20q\n", name, data, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			fmt.Fprintf(&b, "  %s is there\n", name)
		}
	}
	return b.String()
}
