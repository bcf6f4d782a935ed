package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// P6: however often a learner asks about sessions whose end is not decided, a leader holds
// one question of each link about each session, and none of a link that is lost. Of this
// server's clients the latest connection waits, and the earlier ones are dropped.
func TestP6OneQuestionOfEachLink(t *testing.T) {
	const sessions, links, times = 3, 4, 1000
	var qs questions
	for n := range times {
		for id := zk.SessionID(1); id <= sessions; id++ {
			for l := zab.LinkID(1); l <= links; l++ {
				qs.ask(question{link: l, resume: resume{id: id, timeoutMillis: int32(n)}})
			}
		}
	}
	held := func() (n int) {
		for _, all := range qs {
			n += len(all)
		}
		return n
	}
	if n := held(); n != sessions*links {
		t.Errorf("%d questions are held, want %d", n, sessions*links)
	}
	qs.forget(2)
	if n := held(); n != sessions*(links-1) {
		t.Errorf("%d questions are held after the end of a link, want %d", n, sessions*(links-1))
	}
	first, second := new(notes), new(notes)
	qs.ask(question{resume: resume{id: 1, origin: first}})
	qs.ask(question{resume: resume{id: 1, origin: second}})
	if first.dropped != 1 || second.dropped != 0 {
		t.Errorf("dropped: %d and %d, want the earlier connection alone", first.dropped, second.dropped)
	}
	for l := zab.LinkID(1); l <= links; l++ {
		qs.forget(l)
	}
	if n := held(); n != 1 {
		t.Errorf("%d questions are held without a link, want that of a connection", n)
	}
}
