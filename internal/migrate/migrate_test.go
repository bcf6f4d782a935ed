package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/zk"
)

// fake is an ensemble whose members stop and start at once.
type fake struct {
	modes    map[int64]string // "" is down
	versions map[int64]string
	done     []string // "stop 1", "start 1", …
	dead     map[int64]bool
	next     string // the version that is started
	after    func(f *fake, what string)

	handsOver bool // it can be asked; those that are dead refuse
}

const (
	oldVersion = "3.8.0"
	newVersion = "3.9.4-pinfold"
)

// three is an ensemble of Apache's with an observer, which server 2 leads.
func three() *fake {
	f := &fake{modes: map[int64]string{1: "follower", 2: "leader", 3: "follower", 4: "observer"}, versions: map[int64]string{}, next: newVersion}
	for id := range f.modes {
		f.versions[id] = oldVersion
	}
	return f
}

func (f *fake) Status(_ context.Context, m Member) (fourletter.Status, error) {
	if f.modes[m.ID] == "" {
		return fourletter.Status{}, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return fourletter.Status{Version: f.versions[m.ID], Mode: f.modes[m.ID], Zxid: 0x100000005}, nil
}

func (f *fake) Sessions(context.Context, Member) (map[zk.SessionID]int32, error) {
	return nil, fourletter.ErrNoSessions
}

func (f *fake) Stop(_ context.Context, m Member) error {
	was := f.modes[m.ID]
	f.modes[m.ID] = ""
	if was == "leader" {
		f.modes[slices.Min([]int64{m.ID%3 + 1, (m.ID+1)%3 + 1})] = "leader"
	}
	return f.did("stop", m)
}

func (f *fake) Start(_ context.Context, m Member) error {
	if f.dead[m.ID] {
		return errors.New("exit status 1")
	}
	f.modes[m.ID], f.versions[m.ID] = "follower", f.next
	if m.Observer {
		f.modes[m.ID] = "observer"
	}
	return f.did("start", m)
}

func (f *fake) CanHandOver(Member) bool { return f.handsOver }

func (f *fake) HandOver(_ context.Context, m Member) error {
	if f.dead[m.ID] {
		return errors.New("exit status 1")
	}
	f.modes[m.ID], f.modes[m.ID%3+1] = "follower", "leader"
	return f.did("hand over", m)
}

func (f *fake) did(what string, m Member) error {
	f.done = append(f.done, fmt.Sprintf("%s %d", what, m.ID))
	if f.after != nil {
		f.after(f, f.done[len(f.done)-1])
	}
	return nil
}

func (f *fake) Dial(context.Context, string, ...client.Option) (*client.Client, error) {
	return nil, errors.New("there is no server")
}

// configOf reads a zoo.cfg.
func configOf(t *testing.T, text string) *Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const fourLines = "clientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nserver.4=d:1:2:observer\n"

// do runs a migration, in virtual time, and returns what it prints.
func do(t *testing.T, f *fake, o Options) (out string, err error) {
	t.Helper()
	c := configOf(t, fourLines)
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		o.Wait, o.Settle = time.Minute, time.Second
		err = Run(t.Context(), f, c, o, &plan.Printer{Out: &b}, func() bool { return false })
		out = b.String()
	})
	return out, err
}

func (f *fake) want(t *testing.T, done string) {
	t.Helper()
	if got := strings.Join(f.done, ", "); got != done {
		t.Errorf("did %s, want %s", got, done)
	}
}

func options(t *testing.T, to string) Options {
	return Options{Options: plan.Options{Yes: true}, To: to, State: filepath.Join(t.TempDir(), "state")}
}

// Observers are taken first, the leader last; the way back is the same.
func TestOrder(t *testing.T) {
	f, o := three(), options(t, Pinfold)
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 1, start 1, stop 2, start 2")
	f.done, f.next = nil, oldVersion
	o.To = Apache
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 2, start 2, stop 1, start 1")
}

// A leader of Pinfold's that can be asked hands over, and is stopped as a follower. One that leads
// on all the same is stopped as the leader.
func TestHandsOver(t *testing.T) {
	back := func() *fake {
		f := three()
		f.next, f.handsOver = oldVersion, true
		for id := range f.versions {
			f.versions[id] = newVersion
		}
		return f
	}
	f := back()
	out, err := do(t, f, options(t, Apache))
	if err != nil || !strings.Contains(out, "hand the leadership over, stop 3.9.4-pinfold (leader)") || !strings.Contains(out, "is follower, runs 3.9.4-pinfold") {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 1, start 1, hand over 2, stop 2, start 2")
	f = back()
	f.dead = map[int64]bool{2: true}
	f.after = func(f *fake, what string) {
		if what == "stop 2" {
			f.dead = nil
		}
	}
	if out, err = do(t, f, options(t, Apache)); err != nil || !strings.Contains(out, "server 2 leads on, and is stopped as the leader: exit status 1") {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 1, start 1, stop 2, start 2")
	f = back()
	f.handsOver = false
	if out, err = do(t, f, options(t, Apache)); err != nil || !strings.Contains(out, "with --admin-port") {
		t.Fatal(err, out)
	}
	f = three() // a leader of Apache's is not asked
	f.handsOver = true
	if out, err = do(t, f, options(t, Pinfold)); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 1, start 1, stop 2, start 2")
}

// A member that is elected meanwhile is taken last.
func TestLeaderChanges(t *testing.T) {
	f := three()
	f.after = func(f *fake, what string) {
		if what == "start 3" {
			f.modes[2], f.modes[1] = "follower", "leader"
		}
	}
	if out, err := do(t, f, options(t, Pinfold)); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3, start 3, stop 2, start 2, stop 1, start 1")
}

// A run that has failed half-way goes on with the member that it has stopped, and only if it
// was stopped by it.
func TestGoesOn(t *testing.T) {
	f, o := three(), options(t, Pinfold)
	f.dead = map[int64]bool{3: true}
	if out, err := do(t, f, o); err == nil || !strings.Contains(err.Error(), "The way back") {
		t.Fatal(err, out)
	}
	f.want(t, "stop 4, start 4, stop 3")
	f.dead, f.done = nil, nil
	other := o
	other.State += "2"
	if out, err := do(t, f, other); !errors.Is(err, plan.ErrRefused) {
		t.Fatal(err, out)
	}
	f.want(t, "")
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "start 3, stop 1, start 1, stop 2, start 2")
	f.done = nil
	if out, err := do(t, f, o); err != nil || !strings.Contains(out, "no member is left to take") {
		t.Fatal(err, out)
	}
	f.want(t, "")
}

// The way back may begin while a member is half-way.
func TestGoesBackHalfWay(t *testing.T) {
	f, o := three(), options(t, Pinfold)
	f.dead = map[int64]bool{3: true}
	if out, err := do(t, f, o); err == nil {
		t.Fatal(out)
	}
	f.dead, f.done, f.next, o.To = nil, nil, oldVersion, Apache
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "start 3, stop 4, start 4")
}

// Any takes every member once, also over two runs.
func TestAny(t *testing.T) {
	f, o := three(), options(t, Any)
	o.Only = []int64{1, 3}
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	o.Only = nil
	if out, err := do(t, f, o); err != nil {
		t.Fatal(err, out)
	}
	f.want(t, "stop 3, start 3, stop 1, start 1, stop 4, start 4, stop 2, start 2")
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*fake, *Options)
	}{
		{"a member is down", "server 3 does not answer", func(f *fake, _ *Options) { f.modes[3] = "" }},
		{"no leader", "not exactly one member leads", func(f *fake, _ *Options) { f.modes[2] = "follower" }},
		{"two leaders", "not exactly one member leads", func(f *fake, _ *Options) { f.modes[1] = "leader" }},
		{"alone", "server 1 is standalone", func(f *fake, _ *Options) { f.modes[1] = "standalone" }},
		{"an observer that should vote", "server 1 observes", func(f *fake, _ *Options) { f.modes[1] = "observer" }},
		{"a voter that should not", "server 4 follows", func(f *fake, _ *Options) { f.modes[4] = "follower" }},
		{"no such member", "has no server.9", func(_ *fake, o *Options) { o.Only = []int64{9} }},
	} {
		f, o := three(), options(t, Pinfold)
		tt.change(f, &o)
		if out, err := do(t, f, o); !errors.Is(err, plan.ErrRefused) || !strings.Contains(out, tt.want) {
			t.Errorf("%s: %v\n%s", tt.name, err, out)
		}
		f.want(t, "")
	}
	f, o := three(), options(t, Pinfold)
	f.next = oldVersion
	if _, err := do(t, f, o); err == nil || !strings.Contains(err.Error(), "not pinfold") {
		t.Error(err)
	}
	f.want(t, "stop 4, start 4")
}

func TestConfig(t *testing.T) {
	c := configOf(t, " clientPort = 2181 \nserver.2=[::1]:1:2:participant;3000\nserver.1=a:1:2|b:1:2;10.0.0.1:4000\n server.3 = c:1:2:observer\n")
	want := []Member{{1, false, "a", "10.0.0.1:4000"}, {2, false, "::1", "[::1]:3000"}, {3, true, "c", "c:2181"}}
	if !slices.Equal(c.Members, want) {
		t.Errorf("%+v, want %+v", c.Members, want)
	}
	dir := t.TempDir()
	dynamic, static := filepath.Join(dir, "dynamic"), filepath.Join(dir, "zoo.cfg")
	for file, text := range map[string]string{dynamic: "server.1=a:1:2\nserver.2=b:1:2\n", static: "dynamicConfigFile=" + dynamic} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadConfig(static, map[int64]string{1: "x:1"}); err == nil || !strings.Contains(err.Error(), "--client 2=HOST:PORT") {
		t.Error(err)
	}
	if c, err := ReadConfig(static, map[int64]string{1: "x:1", 2: "x:2"}); err != nil || c.Members[1].Client != "x:2" {
		t.Error(c, err)
	}
	if _, err := ReadConfig(static, map[int64]string{1: "x:1", 2: "x:2", 3: "x:3"}); err == nil {
		t.Error("an address of a server that there is not")
	}
}

// Quorums are counted by groups and weights as servers do.
func TestQuorumWithout(t *testing.T) {
	lines := func(n int) (text string) {
		for id := 1; id <= n; id++ {
			text += fmt.Sprintf("server.%d=h%d:1:2;2181\n", id, id)
		}
		return text
	}
	for _, tt := range []struct {
		name, config string
		without      int64
		want         bool
	}{
		{"three", lines(3), 1, true},
		{"two", lines(2), 1, false},
		{"two and an observer", lines(2) + "server.3=c:1:2:observer;2181\n", 1, false},
		{"three groups of three", lines(9) + "group.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9\n", 4, true},
		{"three groups of one", lines(3) + "group.1=1\ngroup.2=2\ngroup.3=3\n", 2, true},
		{"two groups, of which one would be lost", lines(5) + "group.1=1:2:3\ngroup.2=4:5\n", 4, false},
		{"two groups, of which none is lost", lines(5) + "group.1=1:2:3\ngroup.2=4:5\n", 1, true},
		{"all weight at one", lines(3) + "group.1=1:2:3\nweight.1=1\nweight.2=0\nweight.3=0\n", 1, false},
		{"without weight", lines(3) + "group.1=1:2:3\nweight.1=1\nweight.2=0\nweight.3=0\n", 2, true},
		{"a group without weight does not count", lines(4) + "group.1=1:2:3\ngroup.2=4\nweight.4=0\n", 4, true},
		{"weights within a group", lines(3) + "group.1=1:2:3\nweight.1=3\n", 1, false},
	} {
		if got := configOf(t, tt.config).quorumWithout(tt.without); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestExpand(t *testing.T) {
	m := Member{ID: 2, Host: "zk2", Client: "zk2:2181"}
	if got := m.expand("ssh {host} stop {id} {client} {id}"); got != "ssh zk2 stop 2 zk2:2181 2" {
		t.Error(got)
	}
}
