//go:build linux

package bench

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// memberEnv makes the test's binary a member of an ensemble instead.
const memberEnv = "PINFOLD_BENCH_TEST_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(memberEnv) != "" {
		if err := runMember(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// fakeSystem is an ensemble whose members keep nothing: each answers as Floor
// does, and the one with the lowest number that runs says that it leads.
func fakeSystem() System {
	return System{Name: "fake", Command: []string{"env", memberEnv + "=1", os.Args[0]}}
}

// runMember serves as a zoo.cfg has it.
func runMember(cfg string) error {
	b, err := os.ReadFile(cfg)
	if err != nil {
		return err
	}
	secure := settingOf(string(b), "secureClientPort")
	port, err := strconv.Atoi(cmp.Or(secure, settingOf(string(b), "clientPort")))
	if err != nil {
		return err
	}
	myid, err := os.ReadFile(filepath.Join(settingOf(string(b), "dataDir"), "myid"))
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(myid)))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", localhost(port))
	if err != nil {
		return err
	}
	if secure != "" {
		if ln, err = encrypted(ln, settingOf(string(b), "ssl.keyStore.location"), settingOf(string(b), "ssl.trustStore.location")); err != nil {
			return err
		}
	}
	return Floor{Size: valueBytes}.Serve(context.Background(), wordListener{ln, func() string {
		for other := 1; other < id; other++ {
			if c, err := net.Dial("tcp", localhost(port-id+other)); err == nil {
				c.Close()
				return "follower"
			}
		}
		return "leader"
	}})
}

// encrypted has TLS on a listener, with the files that a zoo.cfg names. Clients need a certificate.
func encrypted(ln net.Listener, store, trust string) (net.Listener, error) {
	own, err := tls.LoadX509KeyPair(store, store)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(trust)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	c.ClientCAs.AppendCertsFromPEM(text)
	return tls.NewListener(ln, c), nil
}

func settingOf(cfg, name string) string {
	value, _ := field(cfg, name+"=")
	return value
}

// A wordListener answers connections that begin with srvr itself.
type wordListener struct {
	net.Listener
	mode func() string
}

func (l wordListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			c.Close() // only asks whether there is somebody
			continue
		}
		if string(head) != "srvr" {
			return &readConn{c, io.MultiReader(bytes.NewReader(head), c)}, nil
		}
		fmt.Fprintf(c, "Zookeeper version: fake-1, of today\nMode: %s\n", l.mode())
		c.Close()
	}
}

type readConn struct {
	net.Conn
	r io.Reader
}

func (c *readConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// freePorts returns the first of n ports that nobody uses, below those that the
// system gives to connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
next:
	for range 100 {
		port := 20000 + rand.IntN(10000)
		for i := range n {
			ln, err := net.Listen("tcp", localhost(port+i))
			if err != nil {
				continue next
			}
			ln.Close()
		}
		return port
	}
	t.Fatal("no free ports")
	return 0
}

// The record has every event, in order, with the members that were meant, and
// every sample.
func TestFailover(t *testing.T) {
	for _, test := range []struct {
		members int
		events  string // mark, member and * if it leads
	}{
		// When 1 is back it leads again; followers are 2, 3, …
		{3, "1:2 2:3 3:1* 4:1*"},
		{5, "1:2 2:3 3:1* 4a:2 4b:4 5:1*"},
	} {
		f := &Failover{
			Systems: []System{fakeSystem()}, Members: test.members, Connections: 6, Outstanding: 3, ReadRatio: 0.5,
			Size: valueBytes, Keys: 10, Step: 60 * time.Millisecond, Sample: 20 * time.Millisecond, Dir: t.TempDir(),
			Port: freePorts(t, test.members),
		}
		found, err := f.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		line := found.Systems[0]
		var got []string
		last := 0.0
		for _, ev := range line.Events {
			text := fmt.Sprintf("%s:%d", ev.Mark, ev.Member)
			if ev.Leads {
				text += "*"
			}
			got = append(got, text)
			if ev.Killed < last || ev.Started < ev.Killed+0.06 || ev.Back < ev.Started || ev.Gap < 0 {
				t.Errorf("event %+v after %v s", ev, last)
			}
			last = ev.Killed
		}
		if strings.Join(got, " ") != test.events {
			t.Errorf("%d members: events %q, want %q", test.members, strings.Join(got, " "), test.events)
		}
		if n := float64(len(line.Reads)) * found.Sample; n < last || len(line.Writes) != len(line.Reads) {
			t.Errorf("%d and %d samples, the last event at %v s", len(line.Reads), len(line.Writes), last)
		}
		if slices.Max(line.Reads) == 0 || slices.Max(line.Writes) == 0 || line.Version != "fake-1, of today" {
			t.Errorf("nothing was read, or nothing written, or version %q", line.Version)
		}
		if left, err := os.ReadDir(f.Dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestFailoverPage(t *testing.T) {
	found := &Failovers{
		Sample: 0.1, Params: map[string]any{"members": 3},
		Systems: []Timeline{
			{System: "old", Version: "1", Events: []Event{{Mark: "1", Leads: true, Started: 2, Back: 5, Gap: 510}}},
			{System: "new", Version: "2", Events: []Event{{Mark: "1", Leads: true, Started: 2, Back: 2.5, Gap: 42}}},
		},
	}
	name := filepath.Join(t.TempDir(), "page.md")
	if err := found.WriteMarkdown(name, "x/y.svg"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"](x/y.svg)", "| | | old: no write for | back in sync after | new: no write for | back in sync after |",
		"| 1 | the leader | 510 ms | 3.00 s | 42.0 ms | 0.50 s |", "samples of 100 ms", "members 3",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page has no %q:\n%s", want, b)
		}
	}
}

func TestFailoverRefuses(t *testing.T) {
	for _, f := range []Failover{
		{},
		{Systems: []System{fakeSystem()}, Members: 2, Connections: 1, Outstanding: 1, Keys: 1, Step: time.Second, Sample: time.Second},
	} {
		if _, err := f.Run(t.Context()); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}

// All rows of an ensemble are measured, of every system.
func TestCompareEnsembles(t *testing.T) {
	a, b := fakeSystem(), fakeSystem()
	a.Name, b.Name = "one", "two"
	c := &Compare{
		Systems: []System{a, b}, Members: 3, Pairs: 1, Dir: t.TempDir(), Port: freePorts(t, 3),
		Duration: 50 * time.Millisecond, Znodes: 1, Sessions: 1, Kills: 2, Away: 100, AwayRate: 500,
		Settle: 50 * time.Millisecond,
	}
	found, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k := range c.Systems {
		for _, m := range ensembleMetrics() {
			if got, ok := found.over(k, m.key); !ok || got < 0 {
				t.Errorf("%s: %s is %v (measured: %v)", c.Systems[k].Name, m.key, got, ok)
			}
		}
	}
	if found.Version[1] != "fake-1, of today" || found.Members != 3 {
		t.Errorf("versions %q, %d members", found.Version, found.Members)
	}
}

// With TLS the servers are asked, loaded and reconnected to by TLS alone, and have other bars.
func TestCompareEncrypted(t *testing.T) {
	e := newEncryption(t)
	s := fakeSystem()
	s.TLS = e
	c := &Compare{
		Systems: []System{s}, Members: 3, Pairs: 1, Dir: t.TempDir(), Port: freePorts(t, 3), Rows: []string{"writes", "failover"},
		Duration: 50 * time.Millisecond, Znodes: 1, Sessions: 1, Kills: 1, Away: 100, AwayRate: 500, Settle: 50 * time.Millisecond,
	}
	found, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(t.TempDir(), "page.md")
	if err := found.WriteMarkdown(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## An ensemble of 3, TLS on every connection\n", "| writes, 30 × 100 | ", "| gap in writes", "- fake: fake-1"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, m := range metricsOf(3, 1, true) {
		if (m.bar != "") != (m.key == "writes/s") {
			t.Errorf("%s has the bar %q", m.key, m.bar)
		}
	}
}

func TestCompareRefusesEnsemblesThatCannotLoseAMember(t *testing.T) {
	c := &Compare{Systems: []System{fakeSystem()}, Members: 2, Pairs: 1, Znodes: 1, Sessions: 1, Kills: 1, Away: 1,
		AwayRate: 1}
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "3 members") {
		t.Errorf("error %v", err)
	}
}

// A member that ends by itself is named, with the place of its log.
func TestEnsembleMemberEnds(t *testing.T) {
	_, err := startEnsemble(t.Context(), System{Name: "x", Command: []string{"false"}}, t.TempDir(), freePorts(t, 3), 3)
	if err == nil || !strings.Contains(err.Error(), "process ended") || !strings.Contains(err.Error(), "log") {
		t.Errorf("error %v", err)
	}
}

// A worst case is the worst of all visits, not their median.
func TestWorstCase(t *testing.T) {
	c := &Comparison{Systems: []string{"x"}, Members: 3, Visits: [][]values{{
		{"failover/gap": 1, "failover/max": 3}, {"failover/gap": 2, "failover/max": 99}, {"failover/gap": 3, "failover/max": 4},
	}}}
	if gap, _ := c.over(0, "failover/gap"); gap != 2 {
		t.Errorf("median %v, want 2", gap)
	}
	if worst, _ := c.over(0, "failover/max"); worst != 99 {
		t.Errorf("worst %v, want 99", worst)
	}
}

// A session that loses its connection goes on at another server, with its id
// and password and the zxid that it has seen; one that is unknown there becomes
// a new one. What was under way is counted as lost.
func TestRevival(t *testing.T) {
	for _, known := range []bool{true, false} {
		first := newReviveServer(t, 7, func(r wire.ConnectRequest) bool { return r.SessionID == 0 })
		second := newReviveServer(t, 8, func(r wire.ConnectRequest) bool { return known || r.SessionID == 0 })
		m := Mix{Options: Options{Servers: []string{first.addr, second.addr}}, Connections: 1, Outstanding: 5,
			Size: 64, Keys: 1}
		tr := &track{every: time.Second}
		r, err := m.begin(t.Context(), path{prefix: "/k", numbered: true}, tr)
		if err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return r.total() > 10 })
		first.end()
		before := r.total()
		await(t, func() bool { return r.total() > before+10 })
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if n := r.loops[0].tally.lost; n == 0 || n > 5 {
			t.Errorf("known %v: %d requests are lost, want 1 to 5", known, n)
		}
		got := second.requests()
		want := wire.ConnectRequest{SessionID: 7, LastZxidSeen: 5}
		if g := got[0]; g.SessionID != want.SessionID || g.LastZxidSeen != want.LastZxidSeen || g.Password[0] != 7 {
			t.Errorf("known %v: the second server was asked for %+v", known, g)
		}
		if known != (len(got) == 1) || !known && got[1].SessionID != 0 {
			t.Errorf("known %v: the second server was asked %d times: %+v", known, len(got), got)
		}
	}
}

// When the load ends, nobody waits for sessions that find no server.
func TestRevivalEndsWithTheRun(t *testing.T) {
	s := newReviveServer(t, 7, func(r wire.ConnectRequest) bool { return true })
	m := Mix{Options: Options{Servers: []string{s.addr}}, Connections: 3, Outstanding: 1, Size: 64, Keys: 1}
	r, err := m.begin(t.Context(), path{prefix: "/k", numbered: true}, &track{every: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return r.total() > 10 })
	s.end()
	before := r.total()
	if err := r.stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	// An answer of each session may be in its socket still, and one more be read
	// and not counted yet.
	if r.total() > before+2*3 {
		t.Errorf("%d answers from a server that is gone", r.total()-before)
	}
}

// await waits for what other goroutines do.
func await(t *testing.T, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatal("it does not happen")
		case <-again.C:
		}
	}
}

// A reviveServer grants sessions to whom accept says, and refuses others.
type reviveServer struct {
	addr string
	end  func() // closes the listener and all connections
	seen chan wire.ConnectRequest
}

// requests returns what was asked of it. After end of the load.
func (s *reviveServer) requests() (list []wire.ConnectRequest) {
	for {
		select {
		case r := <-s.seen:
			list = append(list, r)
		default:
			return list
		}
	}
}

func newReviveServer(t *testing.T, id zk.SessionID, accept func(wire.ConnectRequest) bool) *reviveServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &reviveServer{addr: ln.Addr().String(), seen: make(chan wire.ConnectRequest, 100)}
	f := fake{
		answer: func(_ io.Writer, head wire.RequestHeader, _ []byte) []byte {
			if head.Op == wire.OpSetData {
				return replyFrame(head.Xid, zk.OK, statBytes)
			}
			return replyFrame(head.Xid, zk.OK, 0)
		},
		connect: func(r wire.ConnectRequest) wire.ConnectResponse {
			r.Password = slices.Clone(r.Password)
			s.seen <- r
			if !accept(r) {
				return wire.ConnectResponse{Password: make([]byte, wire.PasswordLen)}
			}
			password := make([]byte, wire.PasswordLen)
			password[0] = byte(id)
			return wire.ConnectResponse{TimeoutMillis: 30000, SessionID: id, Password: password}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.serve(ctx, ln) // ends without an error
	}()
	s.end = func() {
		ln.Close() // before the connections: nobody comes back
		cancel()
		<-done
	}
	t.Cleanup(s.end)
	return s
}
