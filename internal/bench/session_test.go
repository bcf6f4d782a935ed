package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// recorder is a script that notes what it is told.
type recorder struct{ notes []string }

func (*recorder) next(*session, int64) {}

func (r *recorder) reply(_ *session, q request, code zk.Code, body []byte, _ int64) error {
	r.notes = append(r.notes, fmt.Sprintf("%v %d %d", q.kind, int32(code), len(body)))
	return nil
}

func (r *recorder) event(_ *session, body []byte, _ int64) error {
	r.notes = append(r.notes, fmt.Sprintf("event %d", len(body)))
	return nil
}

// replyFrame is a server's frame: a header and n bytes.
func replyFrame(xid int32, code zk.Code, n int) []byte {
	b := jute.AppendInt(nil, int32(wire.ReplyHeaderLen+n))
	b = wire.ReplyHeader{Xid: xid, Zxid: 5, Err: code}.Append(b)
	return append(b, make([]byte, n)...)
}

// newTestSession returns a session with a read of 10 bytes, a write and a ping
// under way.
func newTestSession() (*session, *recorder) {
	r := new(recorder)
	s := newSession(r, new(tally))
	s.send(readFrame(wire.OpGetData, path{prefix: "/a"}, false), kindRead, 10, 100)
	s.ping()
	s.send(setDataFrame(path{prefix: "/a"}, nil), kindWrite, statBytes, 200)
	return s, r
}

// However the stream is cut, the replies are the same.
func TestReceiveInPieces(t *testing.T) {
	var stream []byte
	for _, f := range [][]byte{
		replyFrame(1, zk.OK, 10), replyFrame(xidEvent, zk.OK, 30),
		replyFrame(xidPing, zk.OK, 0), replyFrame(2, zk.ErrNoNode, 0),
	} {
		stream = append(stream, f...)
	}
	want := []string{"read 0 10", "event 30", "write -101 0"}
	for cut := range len(stream) + 1 {
		s, r := newTestSession()
		rest, err := s.receive(stream[:cut], 1100)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		rest, err = s.receive(slices.Concat(rest, stream[cut:]), 1100)
		if err != nil || len(rest) != 0 || !slices.Equal(r.notes, want) {
			t.Fatalf("cut at %d: %v, %d bytes left, %q; want %q", cut, err, len(rest), r.notes, want)
		}
		if s.underWay() != 0 || s.pings != 0 {
			t.Fatalf("cut at %d: %d requests and %d pings under way", cut, s.underWay(), s.pings)
		}
		if h := &s.tally.hist[kindRead]; h.Count() != 1 || h.Max() != 1000 {
			t.Fatalf("cut at %d: %d reads, %v; want one of 1 µs", cut, h.Count(), h.Max())
		}
		if s.tally.errors[kindWrite][zk.ErrNoNode] != 1 || s.tally.hist[kindWrite].Count() != 0 {
			t.Fatalf("cut at %d: the refused write is not counted as that", cut)
		}
	}
}

func TestReceiveRefusesViolations(t *testing.T) {
	length := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, test := range []struct {
		name   string
		frames [][]byte
		text   string
	}{
		{"wrong order", [][]byte{replyFrame(2, zk.OK, statBytes)}, "oldest request has 1"},
		{"repeated", [][]byte{replyFrame(1, zk.OK, 10), replyFrame(1, zk.OK, 10)}, "oldest request has 2"},
		{"unasked", [][]byte{replyFrame(1, zk.OK, 10), replyFrame(2, zk.OK, statBytes),
			replyFrame(3, zk.OK, 0)}, "no request under way"},
		{"body too long", [][]byte{replyFrame(1, zk.OK, 11)}, "body of 11 bytes, not 10"},
		{"body too short", [][]byte{replyFrame(1, zk.OK, 0)}, "body of 0 bytes, not 10"},
		{"second pong", [][]byte{replyFrame(xidPing, zk.OK, 0), replyFrame(xidPing, zk.OK, 0)},
			"xid -2"},
		{"auth", [][]byte{replyFrame(-4, zk.OK, 0)}, "xid -4"},
		{"negative length", [][]byte{length(math.MaxUint32)}, "reply of -1 bytes"},
		{"no room for a header", [][]byte{length(15)}, "reply of 15 bytes"},
		{"giant", [][]byte{length(maxReply + 1)}, "bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newTestSession()
			_, err := s.receive(slices.Concat(test.frames...), 0)
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v, want a violation with %q", err, test.text)
			}
		})
	}
}

// An error reply may carry a body or not: the protocol does not say.
func TestErrorReplyWithBody(t *testing.T) {
	s, r := newTestSession()
	if _, err := s.receive(replyFrame(1, zk.ErrNoAuth, 3), 0); err != nil {
		t.Fatal(err)
	}
	if want := []string{"read -102 3"}; !slices.Equal(r.notes, want) {
		t.Errorf("got %q, want %q", r.notes, want)
	}
}

func TestPipelineAllocatesNothing(t *testing.T) {
	s := newSession(idleScript{}, new(tally))
	f := setDataFrame(path{prefix: "/k", numbered: true}, fixedValue(1024))
	var replies []byte
	round := func() {
		replies = replies[:0]
		xid := s.xid
		for i := range 100 {
			f.number(uint64(i))
			s.send(f, kindWrite, statBytes, 0)
		}
		s.taken(len(s.unsent()))
		for range 100 {
			replies = append(replies, 0, 0, 0, wire.ReplyHeaderLen+statBytes)
			replies = wire.ReplyHeader{Xid: xid}.Append(replies)
			replies = append(replies, make([]byte, statBytes)...)
			xid = nextXid(xid)
		}
		if _, err := s.receive(replies, 5); err != nil {
			t.Fatal(err)
		}
	}
	round()
	if n := testing.AllocsPerRun(10, round); n != 0 {
		t.Errorf("100 requests and replies allocate %v times", n)
	}
}

func TestXidsStayPositive(t *testing.T) {
	s := newSession(new(recorder), new(tally))
	s.xid, s.oldest = math.MaxInt32, math.MaxInt32
	f := deleteFrame(path{prefix: "/a"})
	s.send(f, kindDelete, 0, 0)
	s.send(f, kindDelete, 0, 0)
	if got := int32(binary.BigEndian.Uint32(s.unsent()[len(f.b)+frameXid:])); got != 1 {
		t.Errorf("xid %d follows the largest, want 1", got)
	}
	replies := slices.Concat(replyFrame(math.MaxInt32, zk.OK, 0), replyFrame(1, zk.OK, 0))
	if _, err := s.receive(replies, 0); err != nil {
		t.Error(err)
	}
}

func TestTakenKeepsWhatIsUnsent(t *testing.T) {
	s, _ := newTestSession()
	all := slices.Clone(s.unsent())
	s.taken(5)
	if !slices.Equal(s.unsent(), all[5:]) {
		t.Error("after a short write the rest is not what follows")
	}
	s.taken(len(all) - 5)
	if len(s.unsent()) != 0 {
		t.Errorf("%d bytes are left", len(s.unsent()))
	}
}

// A tally forgets the warm-up and ignores what comes after the end.
func TestTallyPhases(t *testing.T) {
	var ta tally
	ta.add(kindRead, zk.OK, time.Second)
	ta.reset()
	ta.add(kindRead, zk.OK, time.Millisecond)
	ta.add(kindWatch, zk.ErrNoNode, time.Millisecond)
	ta.frozen = true
	ta.add(kindRead, zk.OK, time.Hour)
	op, _ := ta.result(kindRead, time.Second)
	if op.Count != 1 || op.Max != 1000 || ta.total != 3 {
		t.Errorf("%d reads, longest %v µs, %d in all; want 1, 1000, 3", op.Count, op.Max, ta.total)
	}
	if op, _ := ta.result(kindWatch, time.Second); op.Count != 1 || len(op.Errors) != 0 {
		t.Errorf("a watch on an absent znode: %+v, want it counted as done", op)
	}
}

// script of a session of an open loop.
type oneEach struct {
	idleScript
	due []int64
}

func (o *oneEach) next(s *session, at int64) {
	o.due = append(o.due, at)
	s.send(deleteFrame(path{prefix: "/a"}), kindDelete, 0, at)
}

// Requests are released when they are due, in turn, with the time that they
// were due; those that find no room wait, and their time does not change.
func TestPacer(t *testing.T) {
	a, b := new(oneEach), new(oneEach)
	sessions := []*session{newSession(a, new(tally)), newSession(b, new(tally))}
	p := &pacer{start: 1000, interval: 100, limit: 3}
	if got := p.release(sessions, 999); len(got) != 0 {
		t.Errorf("%d sessions have requests before the start", len(got))
	}
	if got := p.release(sessions, 1250); len(got) != 2 || p.full {
		t.Errorf("%d sessions to flush (full: %v), want 2", len(got), p.full)
	}
	p.release(sessions, 5000)
	if !p.full {
		t.Error("the pacer does not see that no session has room")
	}
	sessions[1].flight.Drop(1)
	p.release(sessions, 6000)
	if want := []int64{1000, 1200, 1400}; !slices.Equal(a.due, want) {
		t.Errorf("first session: due %v, want %v", a.due, want)
	}
	if want := []int64{1100, 1300, 1500, 1600}; !slices.Equal(b.due, want) {
		t.Errorf("second session: due %v, want %v", b.due, want)
	}
}
