package bench

import (
	"context"
	"fmt"
	"math"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Profile is the load of a busy production ensemble: an open loop of reads, of
// which 65 % get data, 33 % list children and 2 % ask for existence, and half as
// many multis of five writes, of which every fourth creates a znode: the tree
// grows. What cannot be sent in time is kept, and its latency counts from when it
// was due.
type Profile struct {
	Options
	Connections int
	Rate        float64 // reads and multis per second
	Size        int     // bytes of a value
	Keys        int     // znodes to begin with
}

// Of the tree of a Profile: directories that are listed.
const (
	profileLists = 100
	profileNames = 20 // children of each
	profileOps   = 5  // writes of a multi
)

// Run fills the tree, applies the load, and leaves the tree there. The Result is
// nil only if nothing was measured.
func (p Profile) Run(ctx context.Context) (*Result, error) {
	if p.Connections < 1 || p.Rate <= 0 || p.Size < 0 || p.Keys < 1 {
		return nil, fmt.Errorf("bench: profile: a parameter is out of range: %+v", p)
	}
	place := newPlace("profile")
	set := znodes{parents: []string{place}, count: p.Keys, size: p.Size}
	if err := set.create(ctx, p.Options); err != nil {
		return nil, err
	}
	lists := znodes{count: profileLists * profileNames}
	for i := range profileLists {
		lists.parents = append(lists.parents, path{prefix: place + "/l", numbered: true}.at(uint64(i)))
	}
	if err := lists.create(ctx, p.Options); err != nil {
		return nil, err
	}
	if err := syncServers(ctx, p.Options); err != nil {
		return nil, err
	}
	return p.load(ctx, place)
}

func (p Profile) load(ctx context.Context, place string) (*Result, error) {
	keys := path{prefix: place + "/k", numbered: true}
	r, err := prepare(ctx, p.Options, p.Connections, func(i int) script {
		grown := path{prefix: fmt.Sprintf("%s/g%d-", place, i), numbered: true}
		return &profileScript{
			random: rng(i+1) * 0x9e3779b97f4a7c15, keys: uint64(p.Keys), value: 4 + p.Size + statBytes,
			get: readFrame(wire.OpGetData, keys, false), exists: readFrame(wire.OpExists, keys, false),
			list: readFrame(wire.OpGetChildren2, path{prefix: place + "/l", numbered: true}, false),
			sets: newMultiFrame(keys, path{}, fixedValue(p.Size)), grows: newMultiFrame(keys, grown, fixedValue(p.Size)),
		}
	})
	if err != nil {
		return nil, err
	}
	Mix{Rate: p.Rate, Outstanding: math.MaxInt}.pace(r)
	r.start()
	return r.conclude(ctx, "profile", map[string]any{"connections": p.Connections, "rate": p.Rate, "size": p.Size, "keys": p.Keys})
}

type profileScript struct {
	idleScript
	random            rng
	keys              uint64
	value             int // bytes of the answer to a get
	get, exists, list frame
	sets, grows       multiFrame
	multis, grown     uint64
}

// next sends one request: it is called when one is due.
func (p *profileScript) next(s *session, at int64) {
	switch n := p.random.below(300); {
	case n < 100:
		p.multi(s, at)
	case n < 100+130:
		p.get.number(p.random.below(p.keys))
		s.send(p.get, kindRead, p.value, at)
	case n < 100+130+66:
		p.list.number(p.random.below(profileLists))
		s.send(p.list, kindRead, anyBody, at)
	default:
		p.exists.number(p.random.below(p.keys))
		s.send(p.exists, kindRead, statBytes, at)
	}
}

func (p *profileScript) multi(s *session, at int64) {
	m := &p.sets
	if p.multis++; p.multis%4 == 0 {
		m = &p.grows
	}
	for i := range m.keys {
		if m.grows && i == 0 {
			p.grown++
			m.number(i, p.grown)
		} else {
			m.number(i, p.random.below(p.keys))
		}
	}
	s.send(frame{b: m.b}, kindMulti, anyBody, at)
}

// reply also looks into the answer to a multi, whose head is that of a success
// even when it failed.
func (p *profileScript) reply(s *session, q request, code zk.Code, body []byte, now int64) error {
	if q.kind == kindMulti && code == zk.OK {
		var head wire.MultiHeader
		d := jute.NewDecoder(body)
		head.Decode(&d)
		if d.Err() != nil || head.Type == wire.OpError {
			return fmt.Errorf("%w: a multi that failed", ErrProtocol)
		}
	}
	return p.idleScript.reply(s, q, code, body, now)
}

// A multiFrame is a multi of sets, the first of which may be a create.
type multiFrame struct {
	b     []byte
	keys  []int // where the numbers start
	grows bool
}

func newMultiFrame(keys, grown path, value []byte) multiFrame {
	m := multiFrame{b: wire.RequestHeader{Op: wire.OpMulti}.Append(make([]byte, 4)), grows: grown.numbered}
	for i := range profileOps {
		op, p := wire.MultiOp{Type: wire.OpSetData, Version: -1}, keys
		if m.grows && i == 0 {
			op, p = wire.MultiOp{Type: wire.OpCreate}, grown
			op.ACL = zk.OpenACLUnsafe()
		}
		op.Path, op.Data = p.at(0), value
		start := len(m.b)
		m.b = op.Append(m.b)
		m.keys = append(m.keys, start+multiHead+4+len(p.prefix))
	}
	m.b = wire.AppendMultiEnd(m.b)
	jute.PutInt(m.b, int32(len(m.b)-4))
	return m
}

// multiHead is the length of a multi's header before each operation.
const multiHead = 4 + 1 + 4

// number writes n into the path of operation i.
func (m *multiFrame) number(i int, n uint64) { frame{b: m.b, key: m.keys[i]}.number(n) }

// profilePoints are per mille of the load of the largest profile that was
// published: 30,000 reads and 15,000 multis a second on 3,750,000 znodes.
func (p *Paper) profilePoints() (list []point) {
	scales, keys := []float64{20, 50, 100, 200, 400, 800}, 375_000
	if p.Quick {
		scales, keys = []float64{20, 100}, 20_000
	}
	for _, scale := range scales {
		rate := scale * 45
		list = append(list, point{values{"rate": rate}, func(ctx context.Context, v *paperVisit) (values, error) {
			if v.saturated("profile", rate) {
				return values{"saturated": 1}, nil
			}
			o := v.load()
			o.Duration *= 2
			return saturation(rate)(valuesOf(Profile{Options: o, Connections: paperConnections, Rate: rate, Size: 256, Keys: keys}.Run(ctx)))
		}})
	}
	return list
}
