package server

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// apache is the address of a fresh standalone Apache ZooKeeper 3.9.3, with
// 4lw.commands.whitelist=*, tickTime=2000 and maxClientCnxns=0. With it
// TestWordsAreApaches asks that server and writes its answers to testdata/4lw.
var apache = flag.String("apache", "", "record testdata/4lw from the `server`")

// words are sent in this order.
var words = []string{
	"ruok", "srvr", "stat", "cons", "dump", "conf", "dirs", "isro", "hash", "wchs", "wchc", "wchp",
	"gtmk", "stmk\x00\x00\x00\x00\x00\x00\x12\x34", "gtmk", "envi", "mntr", "ruok\r\n", "ruokmntr",
	"crst", "cons", "srst", "srvr", "RUOK", "zzzz", "\xff\xf4\xff\xfd\x06", "orst",
}

// TestWordsAreApaches compares the answers to all words, on a server with two sessions,
// with recorded answers of Apache 3.9.3. Those of 3.8.0 are the same, without nine keys
// of mntr.
func TestWordsAreApaches(t *testing.T) {
	addr := *apache
	if addr == "" {
		addr = newTestServer(t, func(c *config.Config) { c.Client.Host, c.Client.Port = "127.0.0.1", 2181 }).listen()
	}
	for i, word := range words[:12] {
		golden(t, fmt.Sprintf("idle%02d%s.txt", i, word[:4]), packets(normalise(word, ask(t, dial(t, addr), word), nil)))
	}
	first, second := occupy(t, addr)
	sessions := []zk.SessionID{first.resp.SessionID, second.resp.SessionID}
	for i, word := range words {
		name := fmt.Sprintf("%02d%s.txt", i, regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(word[:4], ""))
		text := normalise(word, ask(t, dial(t, addr), word), sessions)
		if i < slices.Index(words, "srst") {
			text = packets(text)
		}
		golden(t, name, text)
	}
}

// occupy opens two sessions with ephemerals and watches.
func occupy(t *testing.T, addr string) (first, second *wireClient) {
	t.Helper()
	first = connect(t, dial(t, addr), 30000)
	first.create("/a", "0123456789", zk.Persistent)
	for i := range 260 {
		first.set("/a", fmt.Appendf(nil, "%010d", i))
	}
	first.create("/a/first", "", zk.Ephemeral)
	second = connect(t, dial(t, addr), 20000)
	second.create("/second", "", zk.Ephemeral)
	first.read(wire.OpGetData, "/a", true)
	first.read(wire.OpExists, "/missing", true)
	first.read(wire.OpGetChildren, "/a", true)
	first.read(wire.OpExists, "/second", true)
	second.read(wire.OpGetData, "/a", true)
	second.read(wire.OpGetChildren2, "/", false)
	second.set("/second", []byte("data"))
	first.read(wire.OpGetAllChildrenNumber, "/", false) // and the event before it
	if len(first.events) != 1 {
		t.Fatalf("events %v", first.events)
	}
	return first, second
}

// golden compares got with a file, or writes the file if got is Apache's answer.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", "4lw", name)
	if *apache != "" {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(name)[2:] == "mntr.txt" || filepath.Base(name)[2:] == "envi.txt" {
		got = known(got, want) // Pinfold may have more keys than Apache
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-Apache +here):\n%s", name, diff)
	}
}

// known returns the lines of which want has the key.
func known(got string, want []byte) string {
	var keep []string
	for line := range strings.Lines(got) {
		key := line[:strings.IndexAny(line, "\t=\n")+1]
		if bytes.HasPrefix(want, []byte(key)) || bytes.Contains(want, []byte("\n"+key)) {
			keep = append(keep, line)
		}
	}
	return strings.Join(keep, "")
}

var replacements = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d+\.\d+\.\d+[^,\n]*, built on (\d{4}-\d\d-\d\d \d\d:\d\d \w+|unknown)`), "VERSION"},
	{regexp.MustCompile(`/127\.0\.0\.1:\d+`), "/127.0.0.1:PORT"},
	{regexp.MustCompile(`min/avg/max: \d+/\d+\.\d{1,4}/\d+`), "min/avg/max: N/N.N/N"},
	{regexp.MustCompile(`(est|lresp|llat|minlat|avglat|maxlat)=\d+`), "$1=N"},
	{regexp.MustCompile(`expire at (\w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}):`), "expire at DATE:"},
	{regexp.MustCompile(`(size: |Size=)\d+`), "${1}N"},
	{regexp.MustCompile(`(clientPort|dataDir|dataLogDir)=.*(/version-2)?\n`), "$1=X$2\n"},
	{regexp.MustCompile(`(?m)^([0-9a-f]+): -?\d+$`), "$1: N"},
}

// packets replaces the numbers that depend on what the server was asked before the test.
func packets(text string) string {
	return regexp.MustCompile(`(?m)^(Received|Sent): \d+`).ReplaceAllString(text, "$1: N")
}

// normalise replaces what differs between two runs, and sorts lines that have no fixed
// order.
func normalise(word, text string, sessions []zk.SessionID) string {
	for i, id := range sessions {
		text = strings.ReplaceAll(text, fmt.Sprintf("0x%x", uint64(id)), fmt.Sprint("SID", i+1))
	}
	for _, r := range replacements {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	switch word[:4] {
	case "stat", "cons":
		text = sortRuns(text, " /")
	case "dump": // Apache shows buckets that have become empty
		text = regexp.MustCompile(`(?m)^0 expire at DATE:\n`).ReplaceAllString(text, "")
		text = regexp.MustCompile(`Sets \(\d+\)`).ReplaceAllString(text, "Sets (N)")
		text = sortRuns(text, "\t")
	case "wchc", "wchp":
		text = sortBlocks(text)
	case "mntr":
		text = shapes(text, "\t")
	case "envi":
		text = regexp.MustCompile(`(?m)=.*$`).ReplaceAllString(text, "=V")
	}
	return text
}

// sortRuns sorts neighbouring lines that begin with prefix.
func sortRuns(text, prefix string) string {
	lines := slices.Collect(strings.Lines(text))
	for i := 0; i < len(lines); i++ {
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], prefix) {
			end++
		}
		slices.Sort(lines[i:end])
		i = max(i, end-1)
	}
	return strings.Join(lines, "")
}

// sortBlocks sorts blocks, which are a heading and the indented lines below it, and the
// lines of each block.
func sortBlocks(text string) string {
	var blocks []string
	for line := range strings.Lines(sortRuns(text, "\t")) {
		if strings.HasPrefix(line, "\t") {
			blocks[len(blocks)-1] += line
		} else {
			blocks = append(blocks, line)
		}
	}
	slices.Sort(blocks[:len(blocks)-1]) // the last is the empty line
	return strings.Join(blocks, "")
}

// exact are the values of mntr that the test determines.
var exact = regexp.MustCompile(`^zk_(server_state|num_alive_connections|outstanding_requests|znode_count|watch_count|` +
	`ephemerals_count|approximate_data_size|global_sessions|local_sessions|connection_request_count|` +
	`cnt_updatelatency|cnt_snapshottime|(avg|min|max|cnt|sum)_node_\w+_watch_count|` +
	`(cnt|sum|min|max|avg)_\w+_write_per_namespace|cnt_\w+_read_per_namespace|auth_failed_count)\t`)

// shapes sorts lines and replaces numbers by their kind.
func shapes(text, sep string) string {
	lines := slices.Collect(strings.Lines(text))
	for i, line := range lines {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), sep)
		switch {
		case exact.MatchString(line):
			continue
		case regexp.MustCompile(`^-?\d+$`).MatchString(value):
			value = "INTEGER"
		case regexp.MustCompile(`^-?\d+\.\d+(E-?\d+)?$`).MatchString(value):
			value = "DECIMAL"
		}
		lines[i] = key + sep + value + "\n"
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestWhitelist(t *testing.T) {
	s := newTestServer(t, func(c *config.Config) { c.Commands.Allowed = []string{"srvr"} })
	for _, word := range words {
		word = word[:4]
		want := word + " is not executed because it is not in the whitelist.\n"
		switch word {
		case "RUOK", "zzzz", "\xff\xf4\xff\xfd", "orst":
			want = ""
		case "srvr":
			want = "Zookeeper version: "
		}
		got := ask(t, s.dial(), word)
		if word == "srvr" {
			got = got[:min(len(got), len(want))]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func TestWordsInPieces(t *testing.T) {
	s := newTestServer(t, nil)
	for _, network := range []struct {
		name string
		dial func() net.Conn
	}{{"socket", s.dial}, {"pipe", s.pipe}} {
		c := network.dial()
		mustWrite(t, c, "ru")
		if got := ask(t, c, "ok"); got != "imok" {
			t.Errorf("%s: ruok in two pieces: %q", network.name, got)
		}
		c = network.dial()
		mustWrite(t, c, "stmk\x00\x00\x00")
		mustWrite(t, c, "\x00\x00\x00\x01")
		if got := ask(t, c, "\x32"); got != "306" {
			t.Errorf("%s: stmk in three pieces: %q", network.name, got)
		}
	}
	c := s.dial()
	mustWrite(t, c, "stmk\x00")
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("stmk without a mask: %q, %v", got, err)
	}
	if got := ask(t, s.dial(), "gtmk"); got != "306" {
		t.Errorf("mask %s", got)
	}
}

func mustWrite(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// pieces is a connection that notes how much is written at a time.
type pieces struct {
	net.Conn
	most int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.most = max(p.most, len(b))
	return p.Conn.Write(b)
}

// A client that asks and does not read blocks no other client, makes the server keep
// one piece of the text, and is closed.
func TestUnreadOutputHoldsNothing(t *testing.T) {
	for _, word := range []string{"wchc", "wchp", "cons", "dump"} {
		synctest.Test(t, func(t *testing.T) {
			s := newTestServer(t, func(c *config.Config) { c.Client.MaxTotal = 0 })
			k := connect(t, s.pipe(), 30000)
			watchMany(s, k, 20_000)
			for range 2000 {
				s.pipe()
			}
			client, server := net.Pipe()
			counted := &pieces{Conn: server}
			s.accept(counted, nil)
			mustWrite(t, client, word)
			if _, err := io.ReadFull(client, make([]byte, 10)); err != nil { // and then no more
				t.Fatal(err)
			}
			synctest.Wait()
			k.create("/created", "", zk.Persistent)
			k.read(wire.OpGetData, "/created", true)
			k.set("/created", nil)
			if got := ask(t, s.pipe(), "wchs"); !strings.HasPrefix(got, "1 connections watching 20000 paths") {
				t.Errorf("%s: %q", word, got)
			}
			if got := s.connections(); got != 2002 {
				t.Errorf("%s: %d connections, one of them waiting", word, got)
			}
			time.Sleep(lastWords + time.Second)
			synctest.Wait()
			if got := s.connections(); got != 2001 {
				t.Errorf("%s: %d connections after the time for last words", word, got)
			}
			if counted.most > 2*pieceBytes {
				t.Errorf("%s: a piece of %d bytes", word, counted.most)
			}
			client.Close()
		})
	}
}

// watchMany registers data watches for k's connection.
func watchMany(s *testServer, k *wireClient, n int) {
	s.mu.Lock()
	id := s.mu.sessions[k.resp.SessionID].id
	s.mu.Unlock()
	s.replica.Watches(func(w *watch.Tables) {
		for i := range n {
			w.Add(id, fmt.Sprintf("/watched/%06d", i), watch.Data)
		}
	})
}

func TestManyWatches(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	const n = 50_000
	watchMany(s, k, n)
	for word, want := range map[string]int{"wchc": 1 + n + 1, "wchp": 2*n + 1} {
		client, server := net.Pipe()
		counted := &pieces{Conn: server}
		s.accept(counted, nil)
		text := ask(t, client, word)
		if lines := strings.Count(text, "\n"); lines != want {
			t.Errorf("%s: %d lines, want %d", word, lines, want)
		}
		if !strings.Contains(text, fmt.Sprintf("/watched/%06d\n", n-1)) || counted.most > 2*pieceBytes {
			t.Errorf("%s: the last watch is missing, or a piece has %d bytes", word, counted.most)
		}
	}
}

// A text keeps at most two pieces, and writes at most two at a time.
func TestTextIsBounded(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	watchMany(s, k, 50_000)
	client, server := net.Pipe()
	go io.Copy(io.Discard, client) // ends with the pipe
	defer client.Close()
	counted := &pieces{Conn: server}
	for name, answer := range map[string]func(*text){"wchc": (*text).wchc, "wchp": (*text).wchp} {
		x := &text{c: s.newConn(counted, netip.AddrPort{})}
		if answer(x); x.err != nil || cap(x.b) > 2*pieceBytes {
			t.Errorf("%s: %d bytes gathered, %v", name, cap(x.b), x.err)
		}
	}
	x := &text{c: s.newConn(counted, netip.AddrPort{}), b: make([]byte, 1<<20)}
	if x.send(); x.err != nil || counted.most > 2*pieceBytes {
		t.Errorf("%d bytes written at a time, %v", counted.most, x.err)
	}
}

func TestManyConnections(t *testing.T) {
	s := newTestServer(t, nil)
	const n = 1000
	for range n {
		s.pipe()
	}
	for word, want := range map[string]int{"cons": n + 2, "stat": n + 1 + 11, "dump": 0} {
		text := ask(t, s.dial(), word)
		lines := strings.Count(text, "\n")
		if word == "dump" {
			lines, want = strings.Count(text, "sessionId: 0x0\n"), n+1
		}
		if lines != want {
			t.Errorf("%s: %d lines, want %d", word, lines, want)
		}
	}
}

// The date of a bucket is when Apache would expire its sessions: the next multiple of
// the tick after the session's last request plus its timeout.
func TestDumpDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		connect(t, s.pipe(), 10000)
		got := ask(t, s.pipe(), "dump")
		at := time.Now().Add(12 * time.Second).Format(javaDate) // the bubble's clock begins at a tick
		if !strings.Contains(got, "Session Sets (1)/(1):\n1 expire at "+at+":\n\t0x1") {
			t.Errorf("%s: %s", at, got)
		}
	})
}

func TestStoppedReplica(t *testing.T) {
	s := newTestServer(t, nil)
	addr := s.listen()
	if err := s.rep.Close(); err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{
		"ruok": "imok", "isro": "null", "srvr": notServing, "mntr": notServing, "dump": notServing, "wchc": notServing,
	} {
		if got := ask(t, dial(t, addr), word); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestJavaAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:2181": "/127.0.0.1:2181", "[::1]:1": "/[0:0:0:0:0:0:0:1]:1",
		"[2001:db8::a:b]:65535": "/[2001:db8:0:0:0:0:a:b]:65535",
	} {
		if got := AppendAddr(nil, netip.MustParseAddrPort(addr)); string(got) != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

func TestDecimals(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.0", 1: "1.0", 1.0 / 3: "0.3333", 2.0 / 3: "0.6667", 62.9507: "62.9507", 0.00001: "0.0", 1e9: "1000000000.0",
	} {
		if got := Decimal(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

// The patterns by which monitoring tools and clients read the texts.
func TestMonitorsUnderstand(t *testing.T) {
	addr := newTestServer(t, nil).listen()
	for _, m := range []struct{ who, word, pattern string }{
		{"kazoo", "envi", `(?m)^zookeeper\.version=(\d+\.\d+\.\d+)`},
		{"go-zookeeper", "srvr", `^Zookeeper version: ([A-Za-z0-9\.\-]+), built on`},
		{"go-zookeeper", "srvr", `(?m)^Latency min/avg/max: (\d+)/([0-9.]+)/(\d+)$`},
		{"go-zookeeper", "srvr", `(?m)^Received: (\d+).*\n^Sent: (\d+).*\n^Connections: (\d+).*\n^Outstanding: (\d+)`},
		{"go-zookeeper", "srvr", `(?m)^Zxid: (0x[A-Za-z0-9]+).*\n^Mode: (\w+).*\n^Node count: (\d+)`},
		{"go-zookeeper", "cons", `(?m)^ /([0-9.:]+)\[(\d+)\]\(queued=(\d+),recved=(\d+),sent=(\d+)`},
		{"telegraf", "mntr", `(?m)^zk_version\s+(\d+\.\d+\.\d+)`},
		{"collectd, nagios", "mntr", `(?m)^zk_avg_latency\t\d+\.\d+$`},
		{"everybody", "mntr", `^(zk_[^\t\n]+\t[^\t\n]+\n)+$`},
	} {
		if text := ask(t, dial(t, addr), m.word); !regexp.MustCompile(m.pattern).MatchString(text) {
			t.Errorf("%s would not find %s in %s:\n%s", m.who, m.pattern, m.word, text)
		}
	}
}

func TestMask(t *testing.T) {
	s := newTestServer(t, nil)
	const mask = -2
	word := binary.BigEndian.AppendUint64([]byte("stmk"), uint64(1<<64-2))
	if got := ask(t, s.dial(), string(word)); got != fmt.Sprint(mask) {
		t.Errorf("stmk %d: %s", mask, got)
	}
}
