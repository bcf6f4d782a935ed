package recipes

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	python = flag.String("python", "", "a Python `program` that has kazoo")
	server = flag.String("server", "", "`address` of a server; none runs one inside of the test")
)

// patience is how long anything may take.
const patience = 20 * time.Second

// serve returns the address of the server.
func serve(t *testing.T) string {
	if *server != "" {
		return *server
	}
	s := inproc.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var bridges sync.WaitGroup
	bridges.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := s.Dial(context.Background(), "", "")
			if err != nil {
				near.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				bridges.Go(func() {
					io.Copy(way[0], way[1]) // ends with the connection
					way[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.Cut()
		bridges.Wait()
	})
	return l.Addr().String()
}

// A peer is kazoo_peer.py.
type peer struct {
	t   *testing.T
	in  io.Writer
	out chan string
}

func startPeer(t *testing.T, addr string) *peer {
	cmd := exec.Command(*python, "kazoo_peer.py", addr)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	p := &peer{t, in, make(chan string, 100)}
	go func() {
		defer close(p.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.out <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer late.Stop()
		for range p.out {
		}
		if err := cmd.Wait(); err != nil {
			t.Error("kazoo_peer.py: ", err)
		}
	})
	return p
}

// tell sends a command.
func (p *peer) tell(words ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, words...); err != nil {
		p.t.Fatal(err)
	}
}

// hear returns the next answer.
func (p *peer) hear() string {
	p.t.Helper()
	select {
	case s, ok := <-p.out:
		if !ok {
			p.t.Fatal("kazoo_peer.py has ended")
		}
		return s
	case <-time.After(patience):
		p.t.Fatal("kazoo_peer.py says nothing")
	}
	return ""
}

func (p *peer) expect(answer string) {
	p.t.Helper()
	if got := p.hear(); got != answer {
		p.t.Fatalf("kazoo says %q, not %q", got, answer)
	}
}

// ask is tell and expect.
func (p *peer) ask(answer string, words ...any) {
	p.t.Helper()
	p.tell(words...)
	p.expect(answer)
}

// meeting is a server with kazoo and us.
type meeting struct {
	t    *testing.T
	c    *client.Client
	kaz  *peer
	made int
}

func meet(t *testing.T) *meeting {
	if *python == "" {
		t.Skip("needs -python, a Python with kazoo")
	}
	addr := serve(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) // of the session of a test that is over
	return &meeting{t: t, c: c, kaz: startPeer(t, addr)}
}

// path is a path that no other lock of the run has.
func (m *meeting) path() string {
	m.made++
	return fmt.Sprintf("/recipes/%x-%d", time.Now().UnixNano(), m.made)
}

type tryLock func(context.Context) (*recipe.Held, error)

// ours is one of our locks, and which of its two sides.
type ours struct {
	name      string
	try, wait func(c recipe.Client, path string) tryLock
}

func mutex(n recipe.NodeNames) ours {
	return ours{"Lock",
		func(c recipe.Client, p string) tryLock { return recipe.NewLock(c, p, recipe.UseNames(n)).TryLock },
		func(c recipe.Client, p string) tryLock { return recipe.NewLock(c, p, recipe.UseNames(n)).Lock }}
}

func writer(n recipe.NodeNames) ours {
	return ours{"RWLock.Lock",
		func(c recipe.Client, p string) tryLock { return recipe.NewRWLock(c, p, recipe.UseNames(n)).TryLock },
		func(c recipe.Client, p string) tryLock { return recipe.NewRWLock(c, p, recipe.UseNames(n)).Lock }}
}

func reader(n recipe.NodeNames) ours {
	return ours{"RWLock.RLock",
		func(c recipe.Client, p string) tryLock { return recipe.NewRWLock(c, p, recipe.UseNames(n)).TryRLock },
		func(c recipe.Client, p string) tryLock { return recipe.NewRWLock(c, p, recipe.UseNames(n)).RLock }}
}

// Who keeps whom out, as docs/recipes.md has it.
func TestKazooExcludes(t *testing.T) {
	const curator, kazoo = recipe.CuratorNames, recipe.KazooNames
	m := meet(t)
	for _, test := range []struct {
		names      string
		ours       ours
		theirs     string // with extra_lock_patterns
		theyHeed   bool   // kazoo waits for us
		weHeedThem bool
	}{
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
		t.Run(test.names+" "+test.ours.name+" and "+test.theirs, func(t *testing.T) {
			m.kaz.t = t
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			path := m.path()
			kind, patterns, _ := strings.Cut(test.theirs, " ")
			m.kaz.ask("made k", "new", "k", kind, path, patterns)

			held, err := test.ours.try(m.c, path)(ctx)
			if err != nil {
				t.Fatal(err)
			}
			answer := map[bool]string{true: "refused k", false: "acquired k"}[test.theyHeed]
			m.kaz.ask(answer, "try", "k")
			if !test.theyHeed {
				m.kaz.ask("released k", "release", "k")
			}
			if err := held.Unlock(ctx); err != nil {
				t.Fatal(err)
			}

			m.kaz.ask("made l", "new", "l", kind, path, patterns)
			m.kaz.ask("acquired l", "try", "l")
			held, err = test.ours.try(m.c, path)(ctx)
			if test.weHeedThem != errors.Is(err, recipe.ErrHeld) {
				t.Fatalf("we get %v", err)
			}
			if err == nil {
				if err := held.Unlock(ctx); err != nil {
					t.Error(err)
				}
			}
			m.kaz.ask("released l", "release", "l")
		})
	}
}

// Waiting goes from one library to the other and back, in order.
func TestKazooWaits(t *testing.T) {
	m := meet(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	l := recipe.NewLock(m.c, path, recipe.UseNames(recipe.KazooNames), recipe.HolderData([]byte("we")))
	for _, name := range []string{"a", "b"} {
		m.kaz.ask("made "+name, "new", name, "Lock", path)
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
	m.kaz.ask("acquired a", "acquire", "a")
	second := make(chan *recipe.Held, 1)
	go func() {
		h, err := l.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		second <- h
	}()
	inLine(2)
	m.kaz.tell("acquire", "b")
	inLine(3)
	m.kaz.ask("contenders a a we b", "contenders", "a")
	list, err := l.Contenders(ctx)
	if err != nil || string(list[0].Data) != "a" || !list[0].Holds || string(list[2].Data) != "b" {
		t.Fatalf("%+v, %v", list, err)
	}
	select {
	case <-second:
		t.Fatal("two have it")
	default:
	}
	m.kaz.ask("released a", "release", "a")
	h := <-second
	if h == nil || h.Token() != list[1].Token {
		t.Fatalf("we have %+v", h)
	}
	if err := h.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	m.kaz.expect("acquired b")
	m.kaz.ask("released b", "release", "b")
}

// Three of kazoo's and three of ours, again and again.
func TestKazooContends(t *testing.T) {
	const rounds = 25
	for _, test := range []struct {
		names    recipe.NodeNames
		patterns string
	}{{recipe.KazooNames, ""}, {recipe.CuratorNames, "-lock-"}} {
		m := meet(t)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		path := m.path()
		inside := path + "-inside"
		if _, err := m.c.Create(ctx, "/recipes", nil, zk.Persistent, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			m.kaz.ask("made "+name, "new", name, "Lock", path, test.patterns)
			m.kaz.tell("loop", name, rounds, inside)
		}
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				l := recipe.NewLock(m.c, path, recipe.UseNames(test.names))
				var last zk.Zxid
				for range rounds {
					h, err := l.Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if h.Token() <= last {
						t.Errorf("token %v after %v", h.Token(), last)
					}
					last = h.Token()
					if _, err := m.c.Create(ctx, inside, nil, zk.Ephemeral, nil); err != nil {
						t.Error(err)
					} else if err := m.c.Delete(ctx, inside, -1); err != nil {
						t.Error(err)
					}
					if err := h.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		for range 3 {
			if s := m.kaz.hear(); !strings.HasPrefix(s, "looped ") || !strings.HasSuffix(s, " 0") {
				t.Errorf("kazoo says %q", s)
			}
		}
	}
}
