package recipes

import (
	"context"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/recipe"
)

func TestKazooElection(t *testing.T) {
	meetKazoo(t).elects(recipe.KazooNames, "Election")
}

func TestCuratorElection(t *testing.T) {
	t.Run("LeaderLatch", func(t *testing.T) { meetCurator(t).elects(recipe.CuratorNames, "Latch") })
	t.Run("LeaderSelector", func(t *testing.T) { meetCurator(t).elects(recipe.SelectorNames, "Selector") })
}

// A leader that dies, theirs or ours, is followed by the next in line.
func TestCuratorLeadersDie(t *testing.T) {
	for kind, names := range map[string]recipe.NodeNames{"Latch": recipe.CuratorNames, "Selector": recipe.SelectorNames} {
		t.Run(kind, func(t *testing.T) {
			l := lineOf(meetCurator(t))
			for _, name := range []string{"a", "b"} {
				l.peer.ask("made "+name, "new", name, kind, l.path)
			}
			l.peer.ask("leads a", "campaign", "a")
			c, won := l.dial(), make(chan *recipe.Leadership, 1)
			go func() {
				e := recipe.NewElection(c, l.path, recipe.UseNames(names), recipe.HolderData([]byte("we")))
				leads, err := e.Campaign(l.ctx)
				if err != nil {
					t.Error(err)
				}
				won <- leads
			}()
			l.stands("a", "we")
			l.peer.tell("campaign", "b")
			l.stands("a", "we", "b")
			l.peer.ask("dead a", "die", "a")
			if <-won == nil {
				t.FailNow()
			}
			l.stands("we", "b")
			c.Close() // ends the session
			l.peer.expect("leads b")
			l.peer.ask("resigned b", "resign", "b")
		})
	}
}

// elects demands that candidates of ours and of theirs follow each other in the
// order in which they came, and that an observer of ours sees each once.
func (m *meeting) elects(names recipe.NodeNames, kind string) {
	t := m.t
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	e := recipe.NewElection(m.c, path, recipe.UseNames(names), recipe.HolderData([]byte("we")))
	seen := make(chan recipe.Leader, 100)
	observed := make(chan error, 1)
	go func() { observed <- e.Observe(ctx, func(l recipe.Leader) { seen <- l }) }()
	inLine := func(want ...string) {
		t.Helper()
		for {
			list, err := e.Candidates(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range list {
				names = append(names, string(c.Data))
			}
			if slices.Equal(names, want) {
				return
			}
		}
	}
	leads := func(who string) recipe.Leader {
		t.Helper()
		for l := range seen {
			if l.Epoch != 0 {
				if string(l.Data) != who {
					t.Fatalf("an observer sees %s, not %s", l.Data, who)
				}
				return l
			}
		}
		return recipe.Leader{}
	}
	for _, name := range []string{"a", "b"} {
		m.peer.ask("made "+name, "new", name, kind, path)
	}
	m.peer.ask("leads a", "campaign", "a")
	leads("a")
	won := make(chan *recipe.Leadership, 1)
	go func() {
		l, err := e.Campaign(ctx)
		if err != nil {
			t.Error(err)
		}
		won <- l
	}()
	inLine("a", "we")
	m.peer.tell("campaign", "b")
	inLine("a", "we", "b")
	m.peer.ask("contenders a a we b", "contenders", "a")
	m.peer.ask("resigned a", "resign", "a")
	l := <-won
	if l == nil {
		t.FailNow()
	}
	if now := leads("we"); now.Epoch != l.Epoch() {
		t.Errorf("our epoch is %v, an observer sees %v", l.Epoch(), now.Epoch)
	}
	if err := l.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	m.peer.expect("leads b")
	if now := leads("b"); now.Epoch <= l.Epoch() {
		t.Errorf("b leads in epoch %v after %v", now.Epoch, l.Epoch())
	}
	m.peer.ask("resigned b", "resign", "b")
	cancel()
	<-observed
}

// kazoo's Election has no patterns: it does not see candidates of Curator's names.
// We see both, so they must not share a path.
func TestKazooElectionAndCuratorsNames(t *testing.T) {
	m := meetKazoo(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	l, err := recipe.NewElection(m.c, path).Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.peer.ask("made a", "new", "a", "Election", path)
	m.peer.ask("leads a", "campaign", "a") // beside us
	if now, err := recipe.NewElection(m.c, path).Leader(ctx); err != nil || now.Epoch != l.Epoch() {
		t.Errorf("%+v, %v", now, err)
	}
	m.peer.ask("resigned a", "resign", "a")
	if err := l.Resign(ctx); err != nil {
		t.Fatal(err)
	}
}
