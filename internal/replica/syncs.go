package replica

import (
	"slices"

	"github.com/pinfold-zk/pinfold/zk"
)

// syncs are the syncs of this server's clients that are not answered, in their order.
type syncs struct {
	asked []Request  // of the core, or of the leader
	waits []syncWait // answered by the core or the leader; their zxid is not handed to Apply yet
}

// syncWait is a sync that is answered when all transactions up to at are applied.
type syncWait struct {
	at  zk.Zxid
	req Request
}

// ask adds a sync, whose body the caller keeps.
func (s *syncs) ask(req Request) {
	req.Body = slices.Clone(req.Body)
	s.asked = append(s.asked, req)
}

// answered has the n oldest syncs wait until all transactions up to at are applied.
func (s *syncs) answered(n int, at zk.Zxid) {
	for _, req := range s.asked[:n] {
		s.waits = append(s.waits, syncWait{at, req})
	}
	if s.asked = s.asked[n:]; len(s.asked) == 0 {
		s.asked = nil
	}
}

// reached removes the syncs that are to be answered once the transactions up to z are
// applied.
func (s *syncs) reached(z zk.Zxid) (reqs []Request) {
	n := 0
	for ; n < len(s.waits) && s.waits[n].at <= z; n++ {
		reqs = append(reqs, s.waits[n].req)
	}
	if s.waits = s.waits[n:]; len(s.waits) == 0 {
		s.waits = nil
	}
	return reqs
}

// take removes all of them.
func (s *syncs) take() []Request {
	for _, w := range s.waits {
		s.asked = append(s.asked, w.req)
	}
	reqs := s.asked
	*s = syncs{}
	return reqs
}
