package recipes

import (
	"context"
	"testing"

	"github.com/pinfold-zk/pinfold/recipe"
)

// Who keeps whom out, as docs/recipes.md has it.
func TestKazooExcludes(t *testing.T) {
	const curator, kazoo = recipe.CuratorNames, recipe.KazooNames
	m := meetKazoo(t)
	for _, test := range []pair{
		{"kazoo", mutex(kazoo), "Lock", true, true},
		{"kazoo", mutex(kazoo), "WriteLock", true, true},
		{"kazoo", mutex(kazoo), "ReadLock", true, true},
		{"kazoo", writer(kazoo), "Lock", true, true},
		{"kazoo", writer(kazoo), "WriteLock", true, true},
		{"kazoo", writer(kazoo), "ReadLock", true, true},
		{"kazoo", reader(kazoo), "Lock", false, true}, // as with kazoo's own ReadLock
		{"kazoo", reader(kazoo), "WriteLock", true, true},
		{"kazoo", reader(kazoo), "ReadLock", false, false},

		{"curator", mutex(curator), "Lock -lock-", true, true},
		{"curator", mutex(curator), "Lock", false, true},
		{"curator", writer(curator), "WriteLock -__WRIT__ -__READ__", true, true},
		{"curator", writer(curator), "ReadLock -__WRIT__", true, true},
		{"curator", reader(curator), "WriteLock -__WRIT__ -__READ__", true, true},
		{"curator", reader(curator), "ReadLock -__WRIT__", false, false},
	} {
		t.Run(test.names+" "+test.ours.name+" and "+test.theirs, func(t *testing.T) { m.excludes(t, test) })
	}
}

// Waiting goes from one library to the other and back, in order.
func TestKazooWaits(t *testing.T) {
	m := meetKazoo(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	l := recipe.NewLock(m.c, path, recipe.UseNames(recipe.KazooNames), recipe.HolderData([]byte("we")))
	for _, name := range []string{"a", "b"} {
		m.peer.ask("made "+name, "new", name, "Lock", path)
	}
	inLine := func(n int) {
		t.Helper()
		for {
			list, err := l.Contenders(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == n {
				return
			}
		}
	}
	m.peer.ask("acquired a", "acquire", "a")
	second := make(chan *recipe.Held, 1)
	go func() {
		h, err := l.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		second <- h
	}()
	inLine(2)
	m.peer.tell("acquire", "b")
	inLine(3)
	m.peer.ask("contenders a a we b", "contenders", "a")
	list, err := l.Contenders(ctx)
	if err != nil || string(list[0].Data) != "a" || !list[0].Holds || string(list[2].Data) != "b" {
		t.Fatalf("%+v, %v", list, err)
	}
	select {
	case <-second:
		t.Fatal("two have it")
	default:
	}
	m.peer.ask("released a", "release", "a")
	h := <-second
	if h == nil || h.Token() != list[1].Token {
		t.Fatalf("we have %+v", h)
	}
	if err := h.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	m.peer.expect("acquired b")
	m.peer.ask("released b", "release", "b")
}

// Three of kazoo's and three of ours.
func TestKazooContends(t *testing.T) {
	m := meetKazoo(t)
	m.contends(recipe.KazooNames, "Lock", "")
	m.contends(recipe.CuratorNames, "Lock", "-lock-")
}
