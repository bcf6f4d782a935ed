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
type forwarded struct {
	bytes  metric.Gauge
	byLink map[zab.LinkID]int64
}

const smallForward = 4 << 10

// admit counts a request of n bytes that came over a link. It reports false if there is no
// room for it within the limit; 0 is no limit.
func (f *forwarded) admit(l zab.LinkID, n, limit int64) bool {
	if n <= smallForward {
		return true
	}
	held := f.byLink[l] + n
	if limit > 0 && held > limit-f.bytes.Load()-n {
		return false
	}
	if f.byLink == nil {
		f.byLink = map[zab.LinkID]int64{}
	}
	f.byLink[l] = held
	f.bytes.Store(f.bytes.Load() + n)
	return true
}

// release counts requests out: they are committed, or dropped.
func (f *forwarded) release(reqs []Request) {
	held := f.bytes.Load()
	if held == 0 {
		return
	}
	for i := range reqs {
		l, n := linkOf(reqs[i].Owner), int64(len(reqs[i].Body))
		if n = min(n, f.byLink[l]); n <= smallForward {
			continue
		}
		held -= n
		if f.byLink[l] -= n; f.byLink[l] == 0 {
			delete(f.byLink, l)
		}
	}
	f.bytes.Store(held)
}

// forget counts all of them out: the role is left.
func (f *forwarded) forget() {
	f.byLink = nil
	f.bytes.Store(0)
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
			o.forwarded.release([]Request{req})
		}
		return lost
	})
}
