package replica

import "github.com/pinfold-zk/pinfold/internal/zab"

// forwarded counts, on a leader, the bytes of its learners' requests that are not
// committed yet. A learner of ours forwards no more than its clients may have in flight
// (globalOutstandingBytes). One that forwards more is not held up, for its
// acknowledgements come over the same link: a request beyond its share is refused with
// ErrThrottledOp, and its bytes are not kept. A learner may have as many bytes here as
// would then still be free, so the learner that has most is refused first.
//
// Requests of at most smallForward bytes do not count, and are never refused.
type forwarded struct {
	bytes  int64
	byLink map[zab.LinkID]int64
}

const smallForward = 4 << 10

// admitForwarded counts a request of n bytes that came over a link. It reports false if
// there is no room for it.
func (o *orderer) admitForwarded(l zab.LinkID, n int) bool {
	f, limit, more := &o.forwarded, o.o.ForwardedBytes, int64(n)
	if n <= smallForward {
		return true
	}
	held := f.byLink[l] + more
	if limit > 0 && held > limit-f.bytes-more {
		return false
	}
	if f.byLink == nil {
		f.byLink = map[zab.LinkID]int64{}
	}
	f.byLink[l] = held
	f.bytes += more
	o.stats.forwardedBytes.Store(f.bytes)
	return true
}

// releaseForwarded counts the learners' requests of a batch out: it is committed.
func (o *orderer) releaseForwarded(b *batch) {
	f := &o.forwarded
	if f.bytes == 0 {
		return
	}
	for i := b.own; i < len(b.reqs); i++ {
		l, n := linkOf(b.reqs[i].Owner), int64(len(b.reqs[i].Body))
		if n = min(n, f.byLink[l]); n <= smallForward {
			continue
		}
		f.bytes -= n
		if f.byLink[l] -= n; f.byLink[l] == 0 {
			delete(f.byLink, l)
		}
	}
	o.stats.forwardedBytes.Store(f.bytes)
}

// forgetForwarded counts all of them out: the role is left.
func (o *orderer) forgetForwarded() {
	o.forwarded = forwarded{}
	o.stats.forwardedBytes.Store(0)
}
