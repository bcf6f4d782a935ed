package recipes

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/recipe"
)

// A holder is `pinfold cli lock` or `elect` with a command that says "has" when it
// runs, and ends with its input.
type holder struct {
	t     *testing.T
	input io.Closer
	has   chan struct{} // closed when the command runs
	errs  bytes.Buffer  // may be read once the holder has ended
	ended chan int      // exit status
}

// hold starts words, a command of pinfold cli up to the path.
func (m *meeting) hold(ctx context.Context, words ...string) *holder {
	input, w := io.Pipe()
	h := &holder{t: m.t, input: w, has: make(chan struct{}), ended: make(chan int, 1)}
	o := cli.Options{
		Servers: m.addr, Timeout: patience, In: input, Out: h, Err: &h.errs,
		Args: append(words, "--", "sh", "-c", "echo has; cat"),
	}
	go func() {
		h.ended <- cli.ExitStatus(cli.Run(ctx, o))
	}()
	return h
}

// Write is called with the output of the command.
func (h *holder) Write(p []byte) (int, error) {
	close(h.has)
	return len(p), nil
}

// holds waits until the command runs.
func (h *holder) holds() {
	h.t.Helper()
	select {
	case <-h.has:
	case status := <-h.ended:
		h.t.Fatalf("status %d: %s", status, &h.errs)
	case <-time.After(patience):
		h.t.Fatal("the command does not run")
	}
}

// ends ends the input of the command, and waits for the end of the holder.
func (h *holder) ends(want int) (says string) {
	h.t.Helper()
	h.input.Close()
	select {
	case status := <-h.ended:
		if status != want {
			h.t.Fatalf("status %d, want %d: %s", status, want, &h.errs)
		}
	case <-time.After(patience):
		h.t.Fatal("it does not end")
	}
	return h.errs.String()
}

// locksByCommand demands that `pinfold cli lock --names` and a lock of theirs exclude
// each other, waiting and not.
func (m *meeting) locksByCommand(t *testing.T, names, kind string) {
	m.t, m.peer.t = t, t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	h := m.hold(ctx, "lock", "--names", names, path)
	h.holds()
	m.peer.ask("made a", "new", "a", kind, path)
	m.peer.ask("refused a", "try", "a")
	m.peer.tell("acquire", "a")
	m.queued(ctx, path, 2)
	h.ends(0)
	m.peer.expect("acquired a")

	says := m.hold(ctx, "lock", "-n", "--names", names, path).ends(125)
	if !strings.Contains(says, "held by others") {
		t.Errorf("it says %q", says)
	}
	h = m.hold(ctx, "lock", "--names", names, path)
	m.queued(ctx, path, 2)
	select {
	case <-h.has:
		t.Fatal("both have the lock")
	default:
	}
	m.peer.ask("released a", "release", "a")
	h.holds()
	m.peer.ask("made b", "new", "b", kind, path)
	m.peer.ask("refused b", "try", "b")
	h.ends(0)
}

// leadsByCommand demands that `pinfold cli elect --names` and a candidate of theirs
// lead one after the other.
func (m *meeting) leadsByCommand(t *testing.T, names, kind string) {
	m.t, m.peer.t = t, t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	for _, name := range []string{"a", "b"} {
		m.peer.ask("made "+name, "new", name, kind, path)
	}
	m.peer.ask("leads a", "campaign", "a")
	h := m.hold(ctx, "elect", "--names", names, path)
	m.queued(ctx, path, 2)
	m.peer.tell("campaign", "b")
	m.queued(ctx, path, 3)
	select {
	case <-h.has:
		t.Fatal("both lead")
	default:
	}
	m.peer.ask("resigned a", "resign", "a")
	h.holds()
	h.ends(0)
	m.peer.expect("leads b") // and not before: answers come in order
	m.peer.ask("resigned b", "resign", "b")
}

// refusesByCommand demands that words, a command that waits, refuses the path of a
// lock or leadership of theirs, and says which --names fits.
func (m *meeting) refusesByCommand(t *testing.T, words, kind, fits string) {
	m.t, m.peer.t = t, t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	took, gave := []any{"acquired a", "try", "a"}, []any{"released a", "release", "a"}
	if strings.HasPrefix(words, "elect") {
		took, gave = []any{"leads a", "campaign", "a"}, []any{"resigned a", "resign", "a"}
	}
	m.peer.ask("made a", "new", "a", kind, path)
	m.peer.ask(took[0].(string), took[1:]...)
	says := m.hold(ctx, append(strings.Fields(words), path)...).ends(125)
	if !strings.Contains(says, path+"/") || !strings.Contains(says, fits) {
		t.Errorf("%s says %q, want %s/… and %q", words, says, path, fits)
	}
	m.peer.ask(gave[0].(string), gave[1:]...)
}

// queued waits until n contenders are in the queue of a path.
func (m *meeting) queued(ctx context.Context, path string, n int) {
	m.t.Helper()
	for {
		list, err := recipe.NewLock(m.c, path).Contenders(ctx)
		if err != nil {
			m.t.Fatal(err)
		}
		if len(list) == n {
			return
		}
	}
}

func TestKazooAndTheCommandLine(t *testing.T) {
	m := meetKazoo(t)
	for _, kind := range []string{"Lock", "WriteLock", "ReadLock"} {
		t.Run(kind, func(t *testing.T) { m.locksByCommand(t, "kazoo", kind) })
	}
	t.Run("Election", func(t *testing.T) { m.leadsByCommand(t, "kazoo", "Election") })
	t.Run("refused", func(t *testing.T) {
		for _, words := range []string{"lock", "lock -n", "lock --names curator", "lock --names zookeeper"} {
			m.refusesByCommand(t, words, "Lock", "use --names kazoo")
		}
		for _, names := range []string{"curator", "selector", "zookeeper"} {
			m.refusesByCommand(t, "elect --names "+names, "Election", "use --names kazoo")
		}
	})
}

func TestCuratorAndTheCommandLine(t *testing.T) {
	m := meetCurator(t)
	for _, names := range []string{"curator", "zookeeper"} {
		t.Run("Mutex "+names, func(t *testing.T) { m.locksByCommand(t, names, "Mutex") })
	}
	t.Run("LeaderLatch", func(t *testing.T) { m.leadsByCommand(t, "curator", "Latch") })
	t.Run("LeaderSelector", func(t *testing.T) { m.leadsByCommand(t, "selector", "Selector") })
	t.Run("refused", func(t *testing.T) {
		m.refusesByCommand(t, "lock --names kazoo", "Mutex", "use --names curator")
		for _, kind := range []string{"Read", "Write"} {
			for _, names := range []string{"curator", "kazoo", "zookeeper"} {
				m.refusesByCommand(t, "lock --names "+names, kind, "no --names fits")
			}
		}
		for kind, fits := range map[string]string{"Latch": "curator", "Selector": "selector"} {
			for _, names := range slices.DeleteFunc([]string{"curator", "selector", "kazoo", "zookeeper"}, func(s string) bool { return s == fits }) {
				m.refusesByCommand(t, "elect --names "+names, kind, "use --names "+fits)
			}
		}
	})
}
