package hostile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// How long the parts of a scene last.
const (
	calm        = 1500 * time.Millisecond // innocent clients alone, for comparison
	settle      = 3 * time.Second         // between the end of the attack and the last look
	patience    = 90 * time.Second        // for what must happen
	longest     = 60 * time.Second        // of an attack at full scale
	dialTimeout = 10 * time.Second
)

// The sessions of attackers have the longest timeout that servers grant with a tick of
// 2 s, as they do not ping.
const attackerTimeout = 40 * time.Second

// A system is the program that is attacked.
type system struct {
	Name     string // as in the table
	Kind     cluster.Kind
	Programs cluster.Programs
	Judged   bool // its failures are failures of the test
}

// A scene is one attack on one system.
type scene struct {
	t       *testing.T
	ctx     context.Context // ends when the attack has lasted long enough
	e       *cluster.Ensemble
	attack  *attack
	system  system
	members int
	scale   float64

	leader   *cluster.Member // or the server that is alone
	follower *cluster.Member // the same if it is alone

	authority certs.Identity // of all certificates, with attack.tls
	tokens    [][]byte       // first tokens of logins, with attack.kerberos

	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	conns  []net.Conn      // closed when the attack ends
	owner  *client.Session // of what the attack has prepared, if it needs one
	stored int64           // bytes of data that mntr does not count
	notes  []string        // what the attack has measured itself
	faults []string        // what the attack has found wrong
}

// play runs an attack on a system and returns what came of it.
func play(t *testing.T, a *attack, s system, members int, scale float64, seed uint64) *result {
	t.Helper()
	x := &scene{t: t, attack: a, system: s, members: members, scale: scale, rng: rand.New(rand.NewPCG(seed, 0))}
	x.start()
	r := &result{Attack: a.name, System: s.Name, Members: members, Scale: scale}
	x.ctx = t.Context()
	if a.prepare != nil {
		a.prepare(x)
		x.closeConns()
	}
	if a.offline {
		a.run(x)
		x.closeConns()
	} else {
		x.besiege(r)
	}
	if a.after != nil {
		a.after(x)
		x.closeConns()
	}
	x.finish(r)
	return r
}

// start starts the servers.
func (x *scene) start() {
	x.t.Helper()
	dir, err := os.MkdirTemp("", "hostile-")
	x.must(err)
	specs := make([]cluster.Spec, x.members)
	for i := range specs {
		specs[i].Kind = x.system.Kind
	}
	lines := x.attack.lines
	if x.attack.secret {
		name := filepath.Join(dir, "secret")
		x.must(os.WriteFile(name, []byte("a secret of this ensemble's own"), 0o600))
		lines = append(slices.Clone(lines), "sessionSecretFile="+name)
	}
	if x.attack.limits != "" {
		name := filepath.Join(dir, "limits")
		x.must(os.WriteFile(name, []byte(x.attack.limits), 0o600))
		lines = append(slices.Clone(lines), "limitsFile="+name)
	}
	if x.attack.tls {
		lines = append(slices.Clone(lines), x.tlsLines()...)
	}
	programs := x.system.Programs
	if x.attack.kerberos {
		programs.JVMFlags += x.kerberosFlags(dir)
	}
	if x.attack.logins {
		lines = append(slices.Clone(lines), loginLines()...)
		programs.JVMFlags += x.loginFlags(dir)
	}
	x.e, err = cluster.New(cluster.Options{Dir: dir, Specs: specs, Programs: programs, Lines: lines, Metrics: x.system.Judged})
	x.must(err)
	x.t.Cleanup(func() {
		x.e.Close()
		if x.t.Failed() && *keep {
			x.t.Logf("kept: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			x.t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	x.must(x.e.Start(ctx))
	x.roles(ctx)
}

// roles finds out who leads.
func (x *scene) roles(ctx context.Context) {
	x.t.Helper()
	x.leader, x.follower = x.e.Members[0], x.e.Members[0]
	if x.members == 1 {
		return
	}
	var err error
	x.leader, err = x.e.WaitLeader(ctx, func(*cluster.Member) bool { return true })
	x.must(err)
	for _, m := range x.e.Members {
		if m != x.leader {
			x.follower = m
		}
	}
}

// besiege runs the attack beside innocent clients.
func (x *scene) besiege(r *result) {
	x.t.Helper()
	var innocents []*innocentProcess
	for i := range x.e.Members {
		p, err := startInnocent(x.e.Clients(), i)
		x.must(err)
		innocents = append(innocents, p)
	}
	quiet := time.Now()
	x.wait(calm)
	x.resetStats()
	looked, pids := x.elections(x.judged), x.pids()
	paused := x.elections(x.paused)
	for _, pid := range pids {
		m, err := memoryOf(pid)
		x.must(err)
		r.Before = max(r.Before, m.now)
		x.must(resetPeak(pid))
	}
	first := readClock(x.pids(), innocents)
	began := time.Now()
	limit := max(4*time.Second, x.attack.least, min(*most, time.Duration(float64(longest)*x.scale)))
	var cancel context.CancelFunc
	x.ctx, cancel = context.WithTimeout(x.t.Context(), limit)
	x.attack.run(x)
	cancel()
	x.ctx = x.t.Context()
	x.closeConns()
	end := time.Now()
	r.Processors = readClock(x.pids(), innocents).since(first)
	x.wait(settle)
	done := time.Now()
	for i, pid := range x.pids() {
		m, err := memoryOf(pid)
		if err != nil {
			continue // it has ended, which finish tells
		}
		r.After, r.Peak = max(r.After, m.now), max(r.Peak, m.peak)
		if pids[i] != pid && !x.attack.restarts && !x.renewed(x.e.Members[i]) {
			r.Ended++
		}
	}
	r.Roles = max(0, x.elections(x.judged)-looked)
	if x.attack.pauses {
		x.note("the paused follower began %d elections", x.elections(x.paused)-paused)
	}
	r.Data = x.data()
	x.holds(r)
	for i, p := range innocents {
		w, err := p.finish()
		if err != nil {
			r.Lost++
			r.Wrong = append(r.Wrong, err.Error())
			continue
		}
		if r.hear(w); x.judged(x.e.Members[i]) {
			r.measure(w, quiet, began, end, done)
		}
	}
}

// paused reports whether the attack pauses the member again and again.
func (x *scene) paused(m *cluster.Member) bool { return x.attack.pauses && m == x.follower }

// renewed reports whether the attack restarts the member.
func (x *scene) renewed(m *cluster.Member) bool { return x.attack.renews && m == x.follower }

// judged reports whether the member may not lose its role, nor let its clients wait.
func (x *scene) judged(m *cluster.Member) bool { return !x.paused(m) && !x.renewed(m) }

// pids are those of the members that run.
func (x *scene) pids() (list []int) {
	for _, m := range x.e.Members {
		list = append(list, m.PID())
	}
	return list
}

// elections is how often those of the members have begun to look for a leader.
func (x *scene) elections(those func(*cluster.Member) bool) (n int) {
	for _, m := range x.e.Members {
		if those(m) {
			n += int(x.metric(m, "looking_count"))
		}
	}
	return n
}

// data is how many bytes the tree has: names and data, a record for each znode, and what
// the attack has put there otherwise.
func (x *scene) data() int64 {
	const record = 150
	return x.stored + x.metric(x.leader, "approximate_data_size") + record*x.metric(x.leader, "znode_count")
}

// metric asks a member for one of its metrics; 0 if it has none, or no answer.
func (x *scene) metric(m *cluster.Member, key string) int64 {
	text, err := cluster.Ask(m.Client, "mntr", dialTimeout)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(text, "zk_"+key+"\t")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(line, 10, 64) // no number: there is no such metric
	return n
}

// resetStats has the members forget what they have measured so far.
func (x *scene) resetStats() {
	for _, m := range x.e.Members {
		_, err := cluster.Ask(m.Client, "srst", dialTimeout)
		x.must(err)
	}
}

// holds enters for how long the members have held their tree's lock since resetStats. A
// member that gives no answer has no share in it.
func (x *scene) holds(r *result) {
	if !x.system.Judged {
		return
	}
	client := http.Client{Timeout: dialTimeout}
	for _, m := range x.e.Members {
		res, err := client.Get("http://" + m.Metrics + "/metrics")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			r.ReadHolds.add(string(text), "pinfold_tree_read_lock_seconds")
			r.WriteHolds.add(string(text), "pinfold_tree_write_lock_seconds")
		}
	}
}

// finish enters what the servers and the attack say in the end.
func (x *scene) finish(r *result) {
	for _, m := range x.e.Members {
		if !m.Running() && !x.attack.offline {
			r.Ended++
			r.Wrong = append(r.Wrong, fmt.Sprintf("the process of member %v has ended:\n%s", m, m.Tail()))
		}
	}
	if x.system.Judged {
		r.Wrong = append(r.Wrong, x.e.Complaints()...)
	}
	r.Wrong = append(r.Wrong, x.faults...)
	r.Notes = x.notes
}

// must fails the test at once: what is not the attack has gone wrong.
func (x *scene) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// note enters what the attack has measured.
func (x *scene) note(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// fault enters what no attack may achieve.
func (x *scene) fault(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// source is a source of chance for one goroutine.
func (x *scene) source() *rand.Rand {
	x.mu.Lock()
	defer x.mu.Unlock()
	return rand.New(rand.NewPCG(x.rng.Uint64(), 0))
}

// n scales a count of the attack, to at least 1.
func (x *scene) n(full int) int { return max(1, int(float64(full)*x.scale)) }

// wait lets time pass, or the attack end.
func (x *scene) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-x.ctx.Done():
	}
}

// hold lets the attack last for d at full scale, and for two seconds at least.
func (x *scene) hold(d time.Duration) { x.wait(max(2*time.Second, time.Duration(float64(d)*x.scale))) }

// lasts reports whether the attack shall go on.
func (x *scene) lasts() bool { return x.ctx.Err() == nil }

// parallel is how many goroutines each uses.
const parallel = 32

// each calls f for 0 to n-1, from some goroutines, while the attack lasts.
func (x *scene) each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, parallel) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := 0; i < n && x.lasts(); i++ {
		next <- i
	}
	close(next)
	wg.Wait()
}

// dial connects to a port. Without a connection the result is nil: to be refused is no
// fault.
func (x *scene) dial(addr string) net.Conn {
	c, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil
	}
	x.keep(c)
	return c
}

// attackerBuffer is how many bytes an attacker's system keeps of what it has not read. The
// attackers run beside the servers, and all connections of a machine share its memory for
// TCP.
const attackerBuffer = 64 << 10

// keep has the connection closed when the attack ends, without waiting for what is not
// sent yet.
func (x *scene) keep(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(attackerBuffer) // fails only if closed
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conns = append(x.conns, c)
}

func (x *scene) closeConns() {
	x.mu.Lock()
	conns := x.conns
	x.conns = nil
	x.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // the server may have closed it
	}
}

// session begins a session with a member; nil if it is refused.
func (x *scene) session(m *cluster.Member) *client.Session {
	s := client.New(attackerTimeout, patience)
	if err := s.Connect(m.Client); err != nil {
		return nil
	}
	x.keep(s.Conn())
	return s
}

// mustSession begins a session that the attack is nothing without.
func (x *scene) mustSession(m *cluster.Member) *client.Session {
	x.t.Helper()
	s := x.session(m)
	if s == nil {
		x.must(fmt.Errorf("hostile: member %v accepts no session", m))
	}
	return s
}

// sessions begins so many sessions, spread over the members.
func (x *scene) sessions(n int) []*client.Session {
	var mu sync.Mutex
	var list []*client.Session
	x.each(n, func(i int) {
		if s := x.session(x.e.Members[i%len(x.e.Members)]); s != nil {
			mu.Lock()
			list = append(list, s)
			mu.Unlock()
		}
	})
	return list
}

// do sends requests and demands that all succeed: it prepares the attack.
func (x *scene) do(s *client.Session, reqs ...client.Request) {
	x.t.Helper()
	replies, err := s.Do(reqs...)
	x.must(err)
	for i, r := range replies {
		code := r.Code
		if code == zk.OK && reqs[i].Op == opMulti {
			code, err = r.MultiCode()
			x.must(err)
		}
		if code != zk.OK {
			x.must(fmt.Errorf("hostile: request %d of %d: %w", i, len(reqs), code))
		}
	}
}

// post sends requests of which no reply is read, and reports whether the connection
// took them.
func (x *scene) post(s *client.Session, reqs ...client.Request) bool {
	return s != nil && s.Connected() && s.Post(reqs...) == nil
}

// drain reads and drops what comes, until the connection ends.
func (x *scene) drain(c net.Conn) {
	go func() {
		buf := make([]byte, 256<<10)
		for {
			if _, err := c.Read(buf); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return
			} else if err != nil {
				_ = c.SetReadDeadline(time.Time{}) // fails only if closed, as the next read will
			}
		}
	}()
}

// printed is how many bytes the members have written to their logs.
func (x *scene) printed() (n int) {
	for _, m := range x.e.Members {
		text, err := m.Output()
		x.must(err)
		n += len(text)
	}
	return n
}

// logs are a member's log files, oldest first.
func (x *scene) logs(m *cluster.Member) []string {
	names, err := filepath.Glob(filepath.Join(m.DataDir, "version-2", "log.*"))
	x.must(err)
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names
}
