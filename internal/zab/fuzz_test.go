package zab

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// script reads what to do from fuzzed bytes.
type script struct{ b []byte }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

// zxid is one that means something, or any.
func (s *script) zxid(c *Core) zk.Zxid {
	near := []zk.Zxid{
		c.last, c.last + 1, c.last + 2, c.last - 1, c.committed, c.committed + 1, zk.MakeZxid(c.epoch, 0), zk.MakeZxid(c.epoch, 1),
		zk.MakeZxid(c.epoch+1, 0), zk.MakeZxid(c.epoch+1, 1), zk.MakeZxid(maxEpoch, 0), zk.MakeZxid(maxEpoch-1, 0), -1, 0, math.MinInt64, math.MaxInt64,
		c.leader.zxid, c.leader.zxid + 1, zk.MakeZxid(c.acceptedEpoch+1, 0), zk.MakeZxid(c.acceptedEpoch, 0),
	}
	if i := int(s.byte()); i < 200 {
		return near[i%len(near)]
	}
	var b [8]byte
	for i := range b {
		b[i] = s.byte()
	}
	return zk.Zxid(binary.BigEndian.Uint64(b[:]))
}

func (s *script) packet(c *Core) Packet {
	p := Packet{Type: PacketType(s.byte() % 24), Zxid: s.zxid(c)}
	switch n := s.byte(); {
	case n < 100:
		p.Data = make([]byte, n%32)
		for i := range p.Data {
			p.Data[i] = s.byte()
		}
	case n < 150:
		p.Data = binary.BigEndian.AppendUint32(nil, c.currentEpoch)
	case n < 200:
		p.Data = infoOf(int64(n%6), 0).Data
	}
	return p
}

// common does what may happen to any server; it reports whether it knew the
// operation.
func (s *script) common(o *solo, op byte) bool {
	c := o.core
	switch op {
	case 0:
		o.persist()
	case 1:
		o.tick(time.Duration(s.byte()) * 10 * ms)
	case 2:
		c.Applied(s.zxid(c))
	case 3:
		o.core.Notification(o.now, election.Notification{
			From: int64(s.byte() % 5), State: election.State(s.byte() % 4), Leader: int64(s.byte() % 5), Zxid: s.zxid(c),
			ElectionEpoch: int64(s.byte()), PeerEpoch: int64(s.byte()), Version: 2,
		})
		o.drive()
	case 4:
		if len(o.links) > 0 {
			l := o.links[int(s.byte())%len(o.links)]
			o.unlink(l)
			c.LinkDown(o.now, l, errors.New("fuzzed"))
			o.drive()
		}
	case 5:
		o.accept()
	case 6:
		c.PeerDown(o.now, int64(s.byte()%5))
		o.drive()
	case 7:
		c.StepDown(o.now, "fuzzed")
		o.drive()
	case 8:
		c.Alive(o.now, LinkID(s.byte()))
	case 9:
		if len(o.links) > 0 {
			o.step(o.links[int(s.byte())%len(o.links)], s.packet(c), s.packet(c))
		}
	case 10:
		o.step(LinkID(s.byte()), s.packet(c))
	default:
		return false
	}
	return true
}

// asLearner does what a leader would do next, or what a disk may.
func (s *script) asLearner(o *solo, op byte) {
	c, l := o.core, o.core.learner.link
	send := func(p Packet) { o.step(l, p) }
	switch op {
	case 11:
		o.elect(2 + int64(s.byte()%2))
		if c.phase == connecting && l == 0 && c.learner.link != 0 {
			o.up(c.learner.link)
		}
	case 12:
		send(Packet{Type: LeaderInfo, Zxid: zk.MakeZxid(c.acceptedEpoch+uint32(s.byte()%2), 0)})
		o.persist()
	case 13:
		send(Packet{Type: Diff, Zxid: c.last})
	case 14:
		send(Packet{Type: Trunc, Zxid: s.zxid(c)})
	case 15:
		send(Packet{Type: Snap, Zxid: s.zxid(c)})
	case 16, 17:
		send(Packet{Type: Proposal, Zxid: c.last + 1, Data: []byte("x")})
	case 18:
		send(Packet{Type: Proposal, Zxid: zk.MakeZxid(c.epoch, 1)})
	case 19, 20:
		send(Packet{Type: Commit, Zxid: c.nextCommit()})
	case 21:
		send(Packet{Type: NewLeader, Zxid: zk.MakeZxid(c.epoch, 0)})
	case 22:
		send(Packet{Type: UpToDate, Zxid: -1})
	case 23:
		if s.truncates(o) {
			o.lost = o.began
			c.TruncateFailed(o.now, max(o.tookLast, 0))
			o.drive()
		}
	default:
		send(s.packet(c))
	}
}

// truncates reports whether a truncation is on its way to the disk.
func (s *script) truncates(o *solo) bool {
	for seq := max(o.core.persisted, o.lost) + 1; seq <= o.began; seq++ {
		if o.kinds[seq] == WriteTruncate {
			return true
		}
	}
	return false
}

// nextCommit is what a leader would have committed next.
func (c *Core) nextCommit() zk.Zxid {
	if c.learner.pending.Len() > 0 {
		return c.learner.pending.At(0).Zxid
	}
	return c.committed
}

func (s *script) asLeader(o *solo, op byte) {
	c := o.core
	var l *learner
	if n := len(c.leader.learners); n > 0 {
		l = c.leader.learners[int(s.byte())%n]
	}
	switch {
	case op == 11 || c.role != Leading:
		o.elect(1)
	case op == 12:
		o.step(o.accept(), infoOf(int64(s.byte()%6), c.acceptedEpoch))
	case op == 13 && c.phase == broadcast:
		z, left := c.NextZxid()
		es := make([]Entry, min(left, int(s.byte()%4)))
		for i := range es {
			es[i] = Entry{z + zk.Zxid(i), []byte("x")}
		}
		if err := c.Propose(es); err != nil {
			o.tb.Fatal(err)
		}
		o.drive()
	case op == 14 && c.phase == broadcast:
		if err := c.Sync(0); err != nil {
			o.tb.Fatal(err)
		}
		o.drive()
	case op == 15 && len(o.asked) > 0:
		at := Location{Exact: s.byte()%2 == 0, Before: s.zxid(c), After: s.zxid(c), LogBytes: int64(s.byte()), SnapshotBytes: int64(s.byte())}
		var err error
		if s.byte() == 0 {
			err = errors.New("fuzzed")
		}
		c.Located(o.now, o.asked[0].Link, at, err)
		o.asked = o.asked[1:]
		o.drive()
	case l == nil:
	case op == 16:
		o.step(l.link, ackEpochOf(int32(c.currentEpoch)-int32(s.byte()%2), s.zxid(c)))
	case op == 17:
		o.step(l.link, Packet{Type: Ack, Zxid: zk.MakeZxid(c.epoch, 0)})
	case op == 18:
		o.step(l.link, Packet{Type: Ack, Zxid: c.committed + 1})
	case op == 19:
		o.step(l.link, Packet{Type: Ack, Zxid: c.leader.zxid})
	case op == 20:
		o.step(l.link, Packet{Type: Ping})
	default:
		o.step(l.link, s.packet(c))
	}
}

// states are disks to begin with.
func (s *script) state() (st State) {
	if s.byte()%2 == 0 {
		return State{}
	}
	for i := range uint32(4) {
		st.Recent = append(st.Recent, Entry{zk.MakeZxid(3, 1+i), []byte("x")})
	}
	st.Last, st.CurrentEpoch, st.AcceptedEpoch = st.Recent[3].Zxid, 3, 3+uint32(s.byte()%2)
	return st
}

const maxSteps = 300

// Nothing that comes over a link, or from an election, makes a learner break an
// invariant.
func FuzzLearner(f *testing.F) {
	f.Add([]byte("\x00\x0b\x00\x0c\x01\x0d\x15\x00\x16\x00\x10\x10\x00\x13\x00"))
	f.Add([]byte("\x01\x01\x0b\x00\x0c\x01\x0e\x03\x17"))
	f.Add([]byte("\x01\x00\x0b\x01\x0c\x01\x0f\x00\x12\x15\x00\x16\x13"))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzLearner(t, b) })
}

func fuzzLearner(tb testing.TB, b []byte) {
	s := &script{b}
	o := newSolo(tb, testConfig(3), s.state())
	for n := 0; len(s.b) > 0 && n < maxSteps; n++ {
		if op := s.byte() % 26; !s.common(o, op) {
			s.asLearner(o, op)
		}
	}
}

// The same for a leader.
func FuzzLeader(f *testing.F) {
	f.Add([]byte("\x00\x0b\x0c\x02\x00\x0c\x03\x00\x10\x00\x00\x0d\x00\x11\x00\x0d\x03\x00\x13\x00\x0e\x14\x00"))
	f.Add([]byte("\x01\x00\x0b\x0c\x02\x00\x10\x00\x00\x05\x0f\x00\x00\x01\x02\x03"))
	f.Fuzz(func(t *testing.T, b []byte) { fuzzLeader(t, b) })
}

func fuzzLeader(tb testing.TB, b []byte) {
	s := &script{b}
	cfg := testConfig([]int{1, 3, 5}[s.byte()%3])
	cfg.LastCounter = uint32(s.byte() % 8)
	o := newSolo(tb, cfg, s.state())
	for n := 0; len(s.b) > 0 && n < maxSteps; n++ {
		if op := s.byte() % 24; !s.common(o, op) {
			s.asLeader(o, op)
		}
	}
}

// The same with bytes that mean nothing, for go test.
func TestAnyInput(t *testing.T) {
	n := uint64(2000)
	if *seedsFlag != defaultSeeds {
		n = *seedsFlag
	}
	for seed := range n {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := make([]byte, 50+rng.IntN(600))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			fuzzLearner(t, b)
			fuzzLeader(t, b)
		})
	}
}
