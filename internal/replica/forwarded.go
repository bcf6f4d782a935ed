package replica

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// forwarded counts, on a leader, the bytes of its learners' requests that are not
// committed yet. A learner of ours forwards no more than its clients may have in flight
// (globalOutstandingBytes). One that forwards more is not held up, for its
// acknowledgements come over the same link: a request beyond its share is refused with
// ErrThrottledOp, and its bytes are not kept. A learner may have as many bytes here as
// would then still be free, so the learner that has most is refused first.
//
// Requests of at most smallForward bytes do not count, and are never refused.
type forwarded struct{ shares }

const smallForward = 4 << 10

// admit counts a request of n bytes that came over a link. It reports false if there is no
// room for it within the limit; 0 is no limit.
func (f *forwarded) admit(l zab.LinkID, n, limit int64) bool {
	return n <= smallForward || f.charge(l, n, limit)
}

// countOut takes requests out of the count: they are committed, or dropped.
func (f *forwarded) countOut(reqs []Request) {
	if f.bytes.Load() == 0 {
		return
	}
	for i := range reqs {
		if n := int64(len(reqs[i].Body)); n > smallForward {
			f.credit(linkOf(reqs[i].Owner), n)
		}
	}
}

// shares count what a server holds for others, by the link over which it came. A link may
// hold as much as would then still be free of the limit, so the link that holds most is the
// first that gets no more.
type shares struct {
	bytes  metric.Gauge // of all links; Order changes it
	byLink map[zab.LinkID]int64
}

// charge counts n bytes for a link. It reports false if there is no room for them within the
// limit; 0 is no limit.
func (s *shares) charge(l zab.LinkID, n, limit int64) bool {
	held := s.byLink[l] + n
	if limit > 0 && held > limit-s.bytes.Load()-n {
		return false
	}
	if s.byLink == nil {
		s.byLink = map[zab.LinkID]int64{}
	}
	s.byLink[l] = held
	s.bytes.Store(s.bytes.Load() + n)
	return true
}

// credit counts n bytes of a link out, or those that are left: forget may have been called
// since they were charged.
func (s *shares) credit(l zab.LinkID, n int64) {
	if n = min(n, s.byLink[l]); n == 0 {
		return
	}
	s.bytes.Store(s.bytes.Load() - n)
	if s.byLink[l] -= n; s.byLink[l] == 0 {
		delete(s.byLink, l)
	}
}

// forget counts everything out: the role is left.
func (s *shares) forget() {
	s.byLink = nil
	s.bytes.Store(0)
}

// dropForwarded drops what came over a link that is lost and is not proposed. Its learner
// takes it for lost: it may serve a session as local again that one of these requests would
// make global.
func (o *orderer) dropForwarded(l zab.LinkID) {
	o.deliveries = slices.DeleteFunc(o.deliveries, func(d zab.Delivery) bool { return d.Link == l })
	o.forgetUntaken()
	o.incoming = slices.DeleteFunc(o.incoming, func(req Request) bool {
		lost := linkOf(req.Owner) == l
		if lost {
			o.forwarded.countOut([]Request{req})
		}
		return lost
	})
}
