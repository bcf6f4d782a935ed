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
		for _, all := range qs.about {
			n += len(all)
		}
		return n
	}
	if n := held(); n != sessions*links {
		t.Errorf("%d questions are held, want %d", n, sessions*links)
	}
	if n := qs.shares.bytes.Load(); n != sessions*links*questionBytes {
		t.Errorf("%d bytes are counted, want those of %d questions", n, sessions*links)
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
	qs.take(1)
	if n := qs.shares.bytes.Load(); n != 0 || held() != 0 || len(qs.shares.byLink) != 0 {
		t.Errorf("%d bytes and %d questions are held in the end", n, held())
	}
}

// P6: the questions of all links about sessions that end at the same time are bounded by their
// bytes. The link that has asked most gets no more first, a link that is lost or a session that has ended
// makes room, and this server's clients are never refused.
func TestP6QuestionBytes(t *testing.T) {
	var qs questions
	askAll := func(l zab.LinkID) (taken int64) {
		before := qs.shares.byLink[l]
		for id := zk.SessionID(1); id <= 1<<18; id++ {
			qs.ask(question{link: l, resume: resume{id: id}})
		}
		return qs.shares.byLink[l] - before
	}
	const most = maxQuestionBytes
	if n := askAll(1); n != most/2 {
		t.Errorf("the first link has %d bytes of %d, want half", n, most)
	}
	if n := askAll(2); n != most/4 {
		t.Errorf("the second link has %d bytes of %d, want a quarter", n, most)
	}
	if n := askAll(1); n != 0 {
		t.Errorf("the link that has most was given %d bytes more", n)
	}
	qs.ask(question{resume: resume{id: 1 << 18, origin: new(notes)}})
	if len(qs.about[1<<18]) != 1 {
		t.Error("a client of this server was refused")
	}
	if n := len(qs.take(1)); n != 2 {
		t.Errorf("%d questions about the first session, want 2", n)
	}
	qs.forget(1)
	if n := qs.shares.bytes.Load(); n != most/4-questionBytes {
		t.Errorf("%d bytes are counted without the first link, want %d", n, most/4-questionBytes)
	}
	if n := askAll(3); n < most/4 {
		t.Errorf("a link that is lost made room for %d bytes alone", n)
	}
	if n := qs.shares.bytes.Load(); n > most {
		t.Errorf("%d bytes are held, the bound is %d", n, most)
	}
}
