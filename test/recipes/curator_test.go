package recipes

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/recipe"
)

var curator = flag.String("curator", "", "`scripts/curator`, or a command like it")

func meetCurator(t *testing.T) *meeting {
	if *curator == "" {
		t.Skip("needs -curator, which is scripts/curator")
	}
	return meet(t, append(strings.Fields(*curator), ".", "CuratorPeer")...)
}

// Who keeps whom out, as docs/recipes.md has it.
func TestCuratorExcludes(t *testing.T) {
	const curator, kazoo = recipe.CuratorNames, recipe.KazooNames
	m := meetCurator(t)
	for _, test := range []pair{
		{"curator", mutex(curator), "Mutex", true, true},
		{"curator", mutex(curator), "Write", false, true},
		{"curator", mutex(curator), "Read", false, true},
		{"curator", writer(curator), "Mutex", false, true},
		{"curator", writer(curator), "Write", true, true},
		{"curator", writer(curator), "Read", true, true},
		{"curator", reader(curator), "Write", true, true},
		{"curator", reader(curator), "Read", false, false},
		{"kazoo", mutex(kazoo), "Mutex", false, true},
		{"kazoo", writer(kazoo), "Read", false, true},
	} {
		t.Run(test.names+" "+test.ours.name+" and "+test.theirs, func(t *testing.T) { m.excludes(t, test) })
	}
}

// A line has clients of theirs and of ours, who come one after the other for one
// lock, and die or give it back.
type line struct {
	*meeting
	ctx  context.Context
	path string
	who  []string // in the order in which they came
}

// theirs makes one of theirs, and has it come.
func (l *line) theirs(kind, name string) {
	l.t.Helper()
	l.peer.ask("made "+name, "new", name, kind, l.path)
	l.peer.tell("acquire", name)
	if len(l.who) == 0 {
		l.peer.expect("acquired " + name)
	}
	l.stands(append(l.who, name)...)
}

// oursAs makes one of ours, with a session of its own, and has it come.
func (l *line) oursAs(name string, take func(recipe.Client, string, ...recipe.LockOption) tryLock) *waiter {
	l.t.Helper()
	c := l.dial()
	w := &waiter{name, make(chan *recipe.Held, 1), func() { c.Close() }}
	lock := take(c, l.path, recipe.HolderData([]byte(name)))
	go func() {
		h, err := lock(l.ctx)
		if err != nil {
			l.t.Errorf("%s: %v", name, err)
		}
		w.held <- h
	}()
	l.stands(append(l.who, name)...)
	return w
}

// waiter is one of ours; die ends its session, whatever it has.
type waiter struct {
	name string
	held chan *recipe.Held
	die  func()
}

// stands waits until these are in line, in this order.
func (l *line) stands(who ...string) {
	l.t.Helper()
	l.who = who
	for {
		list, err := recipe.NewLock(l.c, l.path).Contenders(l.ctx)
		if err != nil {
			l.t.Fatal(err)
		}
		var names []string
		for _, c := range list {
			names = append(names, string(c.Data))
		}
		if slices.Equal(names, who) {
			return
		}
	}
}

// has waits until one of ours has the lock.
func (l *line) has(w *waiter) *recipe.Held {
	l.t.Helper()
	select {
	case h := <-w.held:
		if h == nil {
			l.t.FailNow()
		}
		return h
	case <-l.ctx.Done():
		l.t.Fatalf("%s waits in vain", w.name)
		return nil
	}
}

// waits demands that one of ours does not have the lock.
func (l *line) waits(w *waiter) {
	l.t.Helper()
	select {
	case <-w.held:
		l.t.Fatalf("%s has it out of turn", w.name)
	default:
	}
}

func lineOf(m *meeting) *line {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	m.t.Cleanup(cancel)
	return &line{meeting: m, ctx: ctx, path: m.path()}
}

// Theirs and ours have the lock in the order in which they came, also when those
// before them die, be it in the line or with the lock.
func TestCuratorQueues(t *testing.T) {
	l := lineOf(meetCurator(t))
	lock := func(c recipe.Client, path string, o ...recipe.LockOption) tryLock {
		return recipe.NewLock(c, path, o...).Lock
	}
	l.theirs("Mutex", "a")
	we := l.oursAs("we", lock)
	l.theirs("Mutex", "b")
	us := l.oursAs("us", lock)
	l.theirs("Mutex", "c")
	l.peer.ask("contenders a a we b us c", "contenders", "a")
	l.peer.ask("dead b", "die", "b")
	l.stands("a", "we", "us", "c")
	l.waits(we)
	l.peer.ask("dead a", "die", "a")
	first := l.has(we)
	l.stands("we", "us", "c")
	l.waits(us)
	we.die()
	second := l.has(us)
	if second.Token() <= first.Token() {
		t.Errorf("token %v after %v", second.Token(), first.Token())
	}
	if err := second.Unlock(l.ctx); err != nil {
		t.Error(err)
	}
	l.peer.expect("acquired c")
	l.peer.ask("released c", "release", "c")
}

// Readers of both kinds have the lock together, writers alone, all in their turn.
func TestCuratorQueuesToReadAndWrite(t *testing.T) {
	l := lineOf(meetCurator(t))
	read := func(c recipe.Client, path string, o ...recipe.LockOption) tryLock {
		return recipe.NewRWLock(c, path, o...).RLock
	}
	write := func(c recipe.Client, path string, o ...recipe.LockOption) tryLock {
		return recipe.NewRWLock(c, path, o...).Lock
	}
	l.theirs("Write", "a")
	we := l.oursAs("we", read)
	l.theirs("Read", "b")
	us := l.oursAs("us", write)
	l.theirs("Read", "c")
	last := l.oursAs("last", read)
	l.waits(we)
	l.peer.ask("dead a", "die", "a")
	l.peer.expect("acquired b") // and not c
	h := l.has(we)
	if err := h.Unlock(l.ctx); err != nil {
		t.Error(err)
	}
	l.waits(us) // for b
	l.peer.ask("dead b", "die", "b")
	l.has(us)
	l.waits(last)
	us.die()
	l.peer.expect("acquired c")
	if err := l.has(last).Unlock(l.ctx); err != nil {
		t.Error(err)
	}
	l.peer.ask("released c", "release", "c")
}

// Three of Curator's and three of ours.
func TestCuratorContends(t *testing.T) {
	meetCurator(t).contends(recipe.CuratorNames, "Mutex", "")
}
