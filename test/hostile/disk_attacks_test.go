package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// fewDescriptors limits the descriptors of every member, takes all of them by idle
// connections, and writes so much that files are begun.
func fewDescriptors(x *scene) {
	const descriptors = 256
	for _, pid := range x.pids() {
		if out, err := exec.Command("prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--nofile=%d", descriptors)).CombinedOutput(); err != nil {
			x.fault("prlimit: %v: %s", err, out)
			return
		}
	}
	writers := x.sessions(2 * len(x.e.Members))
	x.each(400*len(x.e.Members), func(i int) { x.dial(x.e.Members[i%len(x.e.Members)].Client) })
	x.each(len(writers), func(i int) {
		x.drain(writers[i].Conn())
		x.forTime(6*time.Second, 10*time.Millisecond, func(int) {
			x.post(writers[i], repeat(50, client.Set("/zookeeper", nil, 12345))...)
		})
	})
}

// Creates that must survive what is done to the log.
const acknowledged = 126

func createAcknowledged(x *scene) {
	s := x.mustSession(x.leader)
	for i := range acknowledged {
		x.do(s, client.Create(fmt.Sprintf("/acknowledged-%d", i), nil, zk.Persistent))
	}
}

// shortLog cuts the newest log to a few bytes while the server is down. It must not be
// taken for one without transactions.
func shortLog(x *scene) {
	m := x.leader
	for _, size := range []int64{0, 5, 10} {
		createAcknowledgedAnew(x)
		m.Kill()
		names := x.logs(m)
		name := names[len(names)-1]
		saved, err := os.ReadFile(name)
		x.must(err)
		x.must(os.Truncate(name, size))
		if x.startsWithout(name) {
			return
		}
		x.must(os.WriteFile(name, saved, 0o644))
		ctx, cancel := context.WithTimeout(x.t.Context(), patience)
		x.must(x.e.Start(ctx))
		cancel()
	}
	x.note("refused")
}

func createAcknowledgedAnew(x *scene) {
	s := x.mustSession(x.leader)
	for i := range acknowledged {
		_, err := s.Do(client.Create(fmt.Sprintf("/acknowledged-%d", i), nil, zk.Persistent)) // they may be there
		x.must(err)
	}
	s.Drop()
}

// startsWithout starts the server with a log that is damaged and reports whether it
// serves; then all acknowledged creates must be there.
func (x *scene) startsWithout(name string) bool {
	x.must(x.leader.Start())
	ctx, cancel := context.WithTimeout(x.t.Context(), 20*time.Second)
	defer cancel()
	if _, err := x.leader.WaitServing(ctx); err != nil {
		x.leader.Kill()
		return false
	}
	if lost := x.lost(); lost > 0 {
		x.fault("%d of %d acknowledged creates are gone", lost, acknowledged)
	}
	return true
}

// lost counts the acknowledged creates that are gone.
func (x *scene) lost() (n int) {
	s := x.mustSession(x.leader)
	for i := range acknowledged {
		r, err := s.Do(client.Get(fmt.Sprintf("/acknowledged-%d", i)))
		x.must(err)
		if r[0].Code != zk.OK {
			n++
		}
	}
	s.Drop()
	return n
}

// removedLog removes the newest log under a running server, and kills that after more
// writes.
func removedLog(x *scene) {
	names := x.logs(x.leader)
	x.must(os.Remove(names[len(names)-1]))
	createAcknowledgedAnew(x)
	s := x.mustSession(x.leader)
	for range 20 {
		x.do(s, repeat(50, client.Set("/acknowledged-0", make([]byte, 1000), -1))...)
	}
	s.Drop()
	x.leader.Kill()
	if !x.startsWithout(names[len(names)-1]) {
		x.fault("the server does not start: %s", x.leader.Tail())
		return
	}
	x.note("nothing was lost")
}
