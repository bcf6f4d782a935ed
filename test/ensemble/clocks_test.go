package ensemble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	zkclient "github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// The wall clocks of TestClocksApart, by the member's id: how far each is ahead, and by how much that of the last
// member is ahead and behind in turns.
var clocksAhead = map[int]time.Duration{1: 0, 2: 5 * time.Hour, 3: -7 * time.Hour}

const (
	clockJumps  = time.Hour
	clockPeriod = 3 * time.Second  // between two jumps
	clockChecks = time.Second      // between searches for expired TTL znodes and empty containers
	clockSlack  = 10 * time.Minute // of a time that is hours apart from another
)

// TestClocksApart has members whose wall clocks differ by twelve hours, and one whose clock jumps by two hours every
// 3 s. Each of them joins, votes, leads and is killed, and the leader leaves, under sessions of 4 s. No session
// may be lost, and all members must have the same times in their Stats: those of the clock that led. TTL znodes are
// as old as the leader's clock says.
func TestClocksApart(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			program := skewable(t)
			r := newRig(t, members, rigOptions{
				lines: append(reconfigLines(), append(smallFiles(), "extendedTypesEnabled=true")...),
				jvm:   fmt.Sprintf("%s -Dznode.container.checkIntervalMs=%d", smallJVM, clockChecks.Milliseconds()),
				before: func(e *cluster.Ensemble) {
					if err := errors.Join(unlist(e, 1), listClients(e)); err != nil {
						t.Fatal(err)
					}
					for _, m := range e.Members {
						if ahead, ok := clocksAhead[m.ID]; ok {
							m.SetProgram(program, fmt.Sprintf("%s=%d", shiftVariable, int(ahead.Seconds())))
						} else {
							m.SetProgram(program, fmt.Sprintf("%s=%d", jumpVariable, int(clockJumps.Seconds())))
						}
					}
				},
			})
			r.load()
			c := &clocks{membership: &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}}
			c.begin()
			c.join(observer, 4)
			for id := range len(clocksAhead) {
				c.lead(id + 1)
				c.age(id + 1)
				c.lose(id + 1)
			}
			c.exchange()
			c.lead(4)
			<-time.After(2 * clockPeriod)
			c.lose(4)
			c.end()
		})
	}
}

// A clocks is an ensemble whose members' wall clocks differ.
type clocks struct {
	*membership
	c  *crowd
	by *zkclient.Client
}

// begin starts the clients.
func (c *clocks) begin() {
	c.t.Helper()
	c.e.Member(4).Observer = true // until it gets a vote
	c.c = newCrowd(c.t, c.e)
	for _, m := range c.e.Members {
		c.c.writer(m, 1)
		c.c.pinger(m)
	}
	var err error
	c.by, err = zkclient.Dial(c.within(patience), "", zkclient.SessionTimeout(sessionTimeout), zkclient.Hosts(cluster.InTurn(c.e.Clients(), 0)))
	c.must(err)
	c.t.Cleanup(func() { _ = c.by.Close() }) // it may be closed already
}

// lead has a voter lead. What it creates has the time of its clock.
func (c *clocks) lead(id int) {
	c.t.Helper()
	m := c.e.Member(id)
	c.step("%v comes to lead", m)
	ctx := c.within(2 * patience)
	c.must(c.e.Elect(ctx, m, func(ctx context.Context) error { return c.l.WaitProgress(ctx, 300) }))
	path := fmt.Sprintf("/led-by-%d", id)
	c.create(path, zk.Persistent, 0)
	var stat zk.Stat
	c.persist(func() (err error) {
		stat, _, err = c.by.Exists(ctx, path)
		return err
	})
	off := time.Until(time.UnixMilli(stat.Ctime))
	ahead, ok := clocksAhead[id]
	if !ok {
		off, ahead = off.Abs(), clockJumps
	}
	c.step("what %v makes is from %v ahead", m, off.Round(time.Minute))
	if (off - ahead).Abs() > clockSlack {
		c.t.Errorf("%v leads with a clock that is %v ahead, and a znode is from %v ahead", m, ahead, off)
	}
}

// persist repeats what fails while connections are lost.
func (c *clocks) persist(do func() error) {
	c.t.Helper()
	var last error
	if err := c.e.Until(c.within(patience), func() bool { last = do(); return last == nil }); err != nil {
		c.t.Fatalf("%v: %v", err, last)
	}
}

// lose kills the member that leads. The others must go on.
func (c *clocks) lose(id int) {
	c.t.Helper()
	m := c.e.Member(id)
	c.step("kill -9 of the leader %v", m)
	m.Kill()
	c.progress()
	c.must(m.Start())
	c.whole()
	c.progress()
}

const (
	ofAnHour  = "/ttl-hour"
	ofASecond = "/ttl-second"
	container = "/container"
)

// age has TTL znodes outlive the member that leads, and be as old as the next leader's clock says.
func (c *clocks) age(id int) {
	c.t.Helper()
	switch id {
	case 1:
		c.create(ofAnHour, zk.PersistentWithTTL, time.Hour)
	case 2: // five hours later
		c.vanishes(ofAnHour)
		c.create(ofASecond, zk.PersistentWithTTL, time.Second)
		c.create(ofASecond+"/child", zk.Persistent, 0) // it keeps its parent until the next one leads
		c.create(container, zk.Container, 0)
		c.create(container+"/child", zk.Persistent, 0)
	case 3: // twelve hours before: it is not a second old yet
		for _, path := range []string{ofASecond, container} {
			c.persist(func() error { return c.by.Delete(c.t.Context(), path+"/child", -1) })
		}
		c.vanishes(container) // it has no age
		<-time.After(3 * clockChecks)
		c.persist(func() error { return c.by.Delete(c.t.Context(), ofASecond, -1) })
	}
}

// create creates a znode, unless a try before has done so.
func (c *clocks) create(path string, mode zk.CreateMode, ttl time.Duration) {
	c.t.Helper()
	c.persist(func() (err error) {
		if ttl > 0 {
			_, _, err = c.by.CreateTTL(c.t.Context(), path, nil, mode, nil, ttl)
		} else {
			_, err = c.by.Create(c.t.Context(), path, nil, mode, nil)
		}
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	})
}

// vanishes demands that a znode is deleted by the server.
func (c *clocks) vanishes(path string) {
	c.t.Helper()
	ctx := c.within(patience)
	if err := c.e.Until(ctx, func() bool {
		_, exists, err := c.by.Exists(ctx, path)
		return err == nil && !exists
	}); err != nil {
		c.t.Fatalf("%s is there: %v", path, err)
	}
}

// exchange gives the last member a vote, removes the leader, and has it join again without a vote.
func (c *clocks) exchange() {
	c.t.Helper()
	c.join(participant, 4)
	c.e.Member(4).Observer = false
	gone := c.leader()
	c.leave(gone.ID)
	c.membership.leader()
	gone.Observer = true
	c.progress()
	c.join(observer, gone.ID)
}

// end checks everything.
func (c *clocks) end() {
	c.t.Helper()
	lost, _, err := c.c.lost(c.within(patience))
	c.must(err)
	c.step("RESULT %d of %d sessions lost", lost, len(c.c.all()))
	if lost > 0 {
		c.t.Errorf("%d of %d sessions were lost", lost, len(c.c.all()))
	}
	c.c.end()
	c.must(c.by.Close())
	c.finish()
}

// The variables of the environment that tell a program of skewable the seconds.
const (
	shiftVariable = "PINFOLD_TEST_CLOCK_SHIFT"
	jumpVariable  = "PINFOLD_TEST_CLOCK_JUMP"
)

// wallShift is what skewable adds to package time.
const wallShift = `package time

import "syscall"

// What is added to the wall clock, in seconds, and what is added and taken away in turns.
var clockShift, clockJump = clockSeconds("` + shiftVariable + `"), clockSeconds("` + jumpVariable + `")

func clockSeconds(name string) int64 {
	text, _ := syscall.Getenv(name)
	n, _ := atoi(text)
	return int64(n)
}

func wallShift(mono int64) int64 {
	if mono/int64(3*Second)%2 == 0 {
		return clockShift - clockJump
	}
	return clockShift + clockJump
}
`

// skewable builds the program with another package time: time.Now adds to the wall clock what the environment says. The
// monotonic clock, timers and Since are as they are. A namespace of Linux shifts no wall clock, and a
// static program loads no library that would.
func skewable(t *testing.T) (program string) {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	must(err)
	of := filepath.Join(strings.TrimSpace(string(goroot)), "src", "time")
	text, err := os.ReadFile(filepath.Join(of, "time.go"))
	must(err)
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(text), reads); n != 1 {
		t.Fatalf("time.go of this Go has %d times %q", n, reads)
	}
	now, shift, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "wallshift.go"), filepath.Join(dir, "overlay.json")
	must(os.WriteFile(now, []byte(strings.Replace(string(text), reads, reads+"\tsec += wallShift(mono)\n", 1)), 0o600))
	must(os.WriteFile(shift, []byte(wallShift), 0o600))
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(of, "time.go"): now, filepath.Join(of, "wallshift.go"): shift,
	}})
	must(err)
	must(os.WriteFile(overlay, replace, 0o600))
	program = filepath.Join(dir, "pinfold")
	build := exec.Command("go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", program, "./cmd/pinfold")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
