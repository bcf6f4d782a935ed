package hostile

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// The names of namedMetrics. shortName is the length of the longest name that metrics show; there are more such names than a
// server keeps metrics of.
const (
	longNamed  = 40
	keptLong   = 4 // of them, ephemerals with quotas and watches that stay
	shortNamed = 600
	shortName  = 256
)

// names are the paths of n top-level znodes with names of size bytes, or one less.
func names(n, size int) (paths []string) {
	for i := range n {
		paths = append(paths, "/"+long(size-i%2, i))
	}
	return paths
}

func (x *scene) longPaths() []string  { return names(max(2*keptLong, x.n(longNamed)), megabyte) }
func (x *scene) shortPaths() []string { return names(max(100, x.n(shortNamed)), shortName) }

// namedMetricsPrepared has znodes with the longest names come first: the number of names that have metrics is bounded. Most
// are deleted again, which does not end their metrics. The session of the others lasts for attackerTimeout.
func namedMetricsPrepared(x *scene) {
	s := x.mustSession(x.leader)
	paths := x.longPaths()
	for _, path := range paths {
		x.do(s, client.Create(path, nil, zk.Ephemeral), client.Get(path))
	}
	for _, path := range paths[keptLong:] {
		x.do(s, client.Delete(path, -1))
	}
	short := x.shortPaths()
	for _, path := range append(paths[:keptLong:keptLong], short[:len(short)/2]...) {
		quota := "/zookeeper/quota" + path
		x.do(s, client.Create(quota, nil, zk.Persistent), client.Create(quota+"/zookeeper_limits", []byte("count=5,bytes=5"), zk.Persistent),
			client.Create(quota+"/zookeeper_stats", []byte("count=1,bytes=0"), zk.Persistent))
	}
}

// namedMetrics has znodes with long names come and go at the top of the tree, where each name has metrics of its own,
// while others ask for all texts that have names or paths in them: some read the answers, some do not.
func namedMetrics(x *scene) {
	end := time.Now().Add(max(4*time.Second, time.Duration(x.scale*float64(10*time.Second))))
	goOn := func() bool { return x.lasts() && time.Now().Before(end) }
	var all sync.WaitGroup
	for i, m := range x.e.Members {
		all.Go(func() { x.watchLongNames(m) })
		all.Go(func() { x.comeAndGo(i, goOn) })
	}
	var answers, longest atomic.Int64
	for i := range max(3, x.n(12)) {
		all.Go(func() {
			for j := i; goOn(); j++ {
				list := questions(x.e.Members[j%len(x.e.Members)])
				if n := x.answered(list[j/len(x.e.Members)%len(list)]); n > 0 {
					answers.Add(1)
					raise(&longest, n)
				}
			}
		})
	}
	all.Go(func() { x.askAndLeave(goOn) })
	all.Wait()
	x.note("%d answers read, the longest of %d KB", answers.Load(), longest.Load()>>10)
}

// raise makes v at least n.
func raise(v *atomic.Int64, n int64) {
	for old := v.Load(); n > old && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}

// watchLongNames leaves watches on the long names that stay.
func (x *scene) watchLongNames(m *cluster.Member) {
	s := x.session(m)
	if s == nil {
		return
	}
	x.drain(s.Conn())
	for _, path := range x.longPaths()[:keptLong] {
		x.post(s, watchOf(path))
	}
}

// comeAndGo creates, reads, watches and deletes a member's part of the short names, again and again. One member also has a
// long name come and go.
func (x *scene) comeAndGo(member int, goOn func() bool) {
	m := x.e.Members[member]
	maker, watcher := x.session(m), x.session(m)
	if maker == nil || watcher == nil {
		return
	}
	x.drain(watcher.Conn())
	long, short := x.longPaths()[keptLong:], x.shortPaths()
	short = short[member*len(short)/len(x.e.Members) : (member+1)*len(short)/len(x.e.Members)]
	for round := 0; goOn(); round++ {
		for batch := range slices.Chunk(short, 50) {
			var creates, deletes []wire.MultiOp
			var reads, watches []client.Request
			for i, path := range batch {
				creates, deletes = append(creates, client.CreateOp(path, nil, zk.Ephemeral)), append(deletes, client.DeleteOp(path, -1))
				if reads = append(reads, client.Get(path)); i%10 == 0 {
					watches = append(watches, watchOf(path))
				}
			}
			_, err := maker.Do(append([]client.Request{client.Multi(creates...)}, reads...)...)
			if err != nil || !x.post(watcher, watches...) {
				return
			}
			if _, err := maker.Do(client.Multi(deletes...)); err != nil || !goOn() {
				return
			}
			x.wait(50 * time.Millisecond)
		}
		if path := long[round%len(long)]; member == 0 {
			if _, err := maker.Do(client.Create(path, nil, zk.Ephemeral), client.Get(path), client.Delete(path, -1)); err != nil {
				return
			}
		}
	}
}

// A question is what a stranger sends to a port, and is answered until the server closes the connection.
type question struct{ addr, text string }

// questions are those whose answers have names or paths of znodes, and those about connections.
func questions(m *cluster.Member) (list []question) {
	for _, word := range []string{"mntr", "wchp", "mntr", "wchc", "mntr", "dump", "mntr", "cons"} {
		list = append(list, question{m.Client, word})
	}
	if m.Metrics != "" {
		list = append(list, question{m.Metrics, "GET /metrics HTTP/1.0\r\n\r\n"}, question{m.Metrics, "GET /metrics HTTP/1.0\r\n\r\n"})
	}
	return list
}

// ask sends a question; nil if it is refused.
func (x *scene) ask(q question) net.Conn {
	c := x.dial(q.addr)
	if c != nil {
		_, _ = c.Write([]byte(q.text)) // the server may have closed it
	}
	return c
}

// answered reads the answer to a question, while the attack lasts, and returns its length.
func (x *scene) answered(q question) int64 {
	c := x.ask(q)
	if c == nil {
		x.wait(10 * time.Millisecond)
		return 0
	}
	defer c.Close()
	if end, ok := x.ctx.Deadline(); ok && c.SetReadDeadline(end) != nil {
		return 0
	}
	n, _ := io.Copy(io.Discard, c) // the server may close it early
	return n
}

// askAndLeave asks on many connections, reads none of the answers, and begins again.
func (x *scene) askAndLeave(goOn func() bool) {
	for goOn() {
		conns := make([]net.Conn, x.n(200))
		x.each(len(conns), func(i int) {
			list := questions(x.e.Members[i%len(x.e.Members)])
			conns[i] = x.ask(list[i/len(x.e.Members)%len(list)])
		})
		for until := time.Now().Add(3 * time.Second); goOn() && time.Now().Before(until); {
			x.wait(50 * time.Millisecond)
		}
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // the server may have closed it
			}
		}
	}
}
