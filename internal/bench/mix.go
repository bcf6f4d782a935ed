package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Mix reads and writes znodes chosen at random: closed (each connection keeps
// Outstanding requests under way) or, with Rate, open.
type Mix struct {
	Options
	Connections int
	Outstanding int     // requests under way on a connection; at most that many if open
	ReadRatio   float64 // 1: only reads, 0: only writes
	Size        int     // bytes of a value
	Keys        int     // znodes
	Rate        float64 // requests per second of all connections together; 0: closed
}

// Run creates the znodes, applies the load, and removes them. The Result is nil
// only if nothing was measured.
func (m Mix) Run(ctx context.Context) (*Result, error) {
	if m.Connections < 1 || m.Outstanding < 1 || m.Keys < 1 || m.Size < 0 || m.Rate < 0 ||
		m.ReadRatio < 0 || m.ReadRatio > 1 {
		return nil, fmt.Errorf("bench: mix: a parameter is out of range: %+v", m)
	}
	place := newPlace("mix")
	set := znodes{parents: []string{place}, count: m.Keys, size: m.Size}
	if err := set.create(ctx, m.Options); err != nil {
		return nil, err
	}
	if err := syncServers(ctx, m.Options); err != nil {
		return nil, err
	}
	res, err := m.load(ctx, path{prefix: place + "/k", numbered: true})
	// Removing is not part of what was asked for: it happens after Ctrl-C too.
	if e := set.remove(context.WithoutCancel(ctx), m.Options); err == nil {
		err = e
	}
	return res, err
}

func (m Mix) load(ctx context.Context, keys path) (*Result, error) {
	r, err := m.begin(ctx, keys, nil)
	if err != nil {
		return nil, err
	}
	return r.conclude(ctx, "mix", m.params())
}

func (m Mix) params() map[string]any {
	params := map[string]any{
		"connections": m.Connections, "outstanding": m.Outstanding, "read_ratio": m.ReadRatio,
		"size": m.Size, "keys": m.Keys,
	}
	if m.Rate > 0 {
		params["rate"] = m.Rate
	}
	return params
}

// begin sets the load going on znodes that there are. With track, lost
// connections are replaced, and track is told of all that is answered. The
// caller stops the run.
func (m Mix) begin(ctx context.Context, keys path, track *track) (*run, error) {
	if track != nil {
		m.Loops = 1 // track is used by one goroutine
	}
	value := fixedValue(m.Size)
	r, err := prepare(ctx, m.Options, m.Connections, func(i int) script {
		s := &mixScript{
			depth:      m.Outstanding,
			keys:       uint64(m.Keys),
			readShare:  uint64(m.ReadRatio * (1 << 32)),
			random:     rng(i+1) * 0x9e3779b97f4a7c15,
			readFrame:  readFrame(wire.OpGetData, keys, false),
			readBody:   4 + m.Size + statBytes,
			writeFrame: setDataFrame(keys, value),
		}
		if m.Rate > 0 {
			s.depth = math.MaxInt // the pacer decides
		}
		s.open, s.track = m.Rate > 0, track
		return s
	})
	if err != nil {
		return nil, err
	}
	m.pace(r)
	if track != nil {
		r.survive()
	}
	r.start()
	return r, nil
}

// pace gives every loop its part of the schedule of an open load. The parts are
// shifted against each other, so that they interleave.
func (m Mix) pace(r *run) {
	if m.Rate == 0 {
		return
	}
	n := float64(len(r.loops))
	interval := float64(time.Second) * n / m.Rate
	for i, l := range r.loops {
		l.pacer = &pacer{
			start:    l.now() + int64(interval*float64(i)/n),
			interval: interval,
			limit:    m.Outstanding,
		}
	}
}

// mixScript sends getData and setData.
type mixScript struct {
	depth      int
	keys       uint64
	readShare  uint64 // of 2^32
	random     rng
	readFrame  frame
	readBody   int
	writeFrame frame
	open       bool   // one request for each call of next
	track      *track // or nil
}

func (m *mixScript) next(s *session, now int64) {
	if m.open {
		m.one(s, now)
		return
	}
	for s.underWay() < m.depth {
		m.one(s, now)
	}
}

func (m *mixScript) one(s *session, at int64) {
	key := m.random.below(m.keys)
	if m.random.next()>>32 < m.readShare {
		m.readFrame.number(key)
		s.send(m.readFrame, kindRead, m.readBody, at)
		return
	}
	m.writeFrame.number(key)
	s.send(m.writeFrame, kindWrite, statBytes, at)
}

func (m *mixScript) reply(_ *session, q request, code zk.Code, _ []byte, now int64) error {
	if m.track != nil && code == zk.OK {
		m.track.add(q.kind, now)
	}
	return nil
}

func (*mixScript) event(*session, []byte, int64) error { return errUnaskedEvent }
