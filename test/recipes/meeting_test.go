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

// A peer is another library, behind a program that takes commands.
type peer struct {
	t   *testing.T
	in  io.Writer
	out chan string
}

func startPeer(t *testing.T, words ...string) *peer {
	cmd := exec.Command(words[0], words[1:]...)
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
			t.Error("the peer: ", err)
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
			p.t.Fatal("the peer has ended")
		}
		return s
	case <-time.After(patience):
		p.t.Fatal("the peer says nothing")
	}
	return ""
}

func (p *peer) expect(answer string) {
	p.t.Helper()
	if got := p.hear(); got != answer {
		p.t.Fatalf("the peer says %q, not %q", got, answer)
	}
}

// ask is tell and expect.
func (p *peer) ask(answer string, words ...any) {
	p.t.Helper()
	p.tell(words...)
	p.expect(answer)
}

// meeting is a server with another library and us.
type meeting struct {
	t    *testing.T
	addr string
	c    *client.Client
	peer *peer
	made int
}

func meetKazoo(t *testing.T) *meeting {
	if *python == "" {
		t.Skip("needs -python, a Python with kazoo")
	}
	return meet(t, *python, "kazoo_peer.py")
}

// meet starts the program with the server's address as its last argument.
func meet(t *testing.T, words ...string) *meeting {
	m := &meeting{t: t, addr: serve(t)}
	m.c = m.dial()
	m.peer = startPeer(t, append(words, m.addr)...)
	return m
}

// dial returns one more client of ours.
func (m *meeting) dial() *client.Client {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { c.Close() }) // of the session of a test that is over
	return c
}

// path is a path that no other lock of the run has.
func (m *meeting) path() string {
	m.made++
	return fmt.Sprintf("/recipes/%x-%d", time.Now().UnixNano(), m.made)
}

type tryLock func(context.Context) (*recipe.Held, error)

// ours is one of our locks, or one side of it.
type ours struct {
	name string
	try  func(c recipe.Client, path string) tryLock
}

func mutex(n recipe.NodeNames) ours {
	return ours{"Lock", func(c recipe.Client, path string) tryLock {
		return recipe.NewLock(c, path, recipe.UseNames(n)).TryLock
	}}
}

func writer(n recipe.NodeNames) ours {
	return ours{"RWLock.Lock", func(c recipe.Client, path string) tryLock {
		return recipe.NewRWLock(c, path, recipe.UseNames(n)).TryLock
	}}
}

func reader(n recipe.NodeNames) ours {
	return ours{"RWLock.RLock", func(c recipe.Client, path string) tryLock {
		return recipe.NewRWLock(c, path, recipe.UseNames(n)).TryRLock
	}}
}

// pair is one of our locks with one of theirs.
type pair struct {
	names      string
	ours       ours
	theirs     string // and for kazoo its extra_lock_patterns
	theyHeed   bool   // they wait for us
	weHeedThem bool
}

// excludes tries who keeps whom out.
func (m *meeting) excludes(t *testing.T, test pair) {
	m.peer.t = t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	kind, patterns, _ := strings.Cut(test.theirs, " ")
	m.peer.ask("made k", "new", "k", kind, path, patterns)

	held, err := test.ours.try(m.c, path)(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m.peer.ask(map[bool]string{true: "refused k", false: "acquired k"}[test.theyHeed], "try", "k")
	if !test.theyHeed {
		m.peer.ask("released k", "release", "k")
	}
	if err := held.Unlock(ctx); err != nil {
		t.Fatal(err)
	}

	m.peer.ask("made l", "new", "l", kind, path, patterns)
	m.peer.ask("acquired l", "try", "l")
	held, err = test.ours.try(m.c, path)(ctx)
	if test.weHeedThem != errors.Is(err, recipe.ErrHeld) {
		t.Fatalf("we get %v", err)
	}
	if err == nil {
		if err := held.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}
	m.peer.ask("released l", "release", "l")
}

// contends has three of theirs and three of ours take one lock, again and again.
func (m *meeting) contends(names recipe.NodeNames, kind, patterns string) {
	const rounds = 25
	t := m.t
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	path := m.path()
	inside := path + "-inside"
	if _, err := m.c.Create(ctx, "/recipes", nil, zk.Persistent, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		m.peer.ask("made "+name, "new", name, kind, path, patterns)
		m.peer.tell("loop", name, rounds, inside)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			l := recipe.NewLock(m.c, path, recipe.UseNames(names))
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
		if s := m.peer.hear(); !strings.HasPrefix(s, "looped ") || !strings.HasSuffix(s, " 0") {
			t.Errorf("the peer says %q", s)
		}
	}
}
