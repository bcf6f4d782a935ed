package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// zxidsOf prints a file as JSON, and returns the zxids.
func zxidsOf(t *testing.T, p LogPrinter, name string) (zxids []string) {
	t.Helper()
	var out bytes.Buffer
	p.Out, p.JSON = &out, true
	if err := p.Print(name); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var j struct{ Zxid string }
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		zxids = append(zxids, j.Zxid)
	}
	return zxids
}

func TestFilter(t *testing.T) {
	at := func(day int) time.Time { return time.UnixMilli(1795389981908 + int64(day)*86_400_000) }
	name := fileOf(t, false)
	for _, tt := range []struct {
		name string
		f    Filter
		want string
	}{
		{"all", Filter{}, "0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0xa 0xb 0xc 0xd 0xe 0xf 0x10"},
		{"a path, also within a multi", Filter{Path: "/t"}, "0x5 0x6 0x7 0xe"},
		{"a path that a session's end deletes", Filter{Path: "/ü"}, "0x3 0xd"},
		{"the root", Filter{Path: "/"}, "0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0xa 0xb 0xd 0xe"},
		{"a subtree", Filter{Path: "/zookeeper"}, "0x9"},
		{"zxids", Filter{From: 3, To: 4}, "0x3 0x4"},
		{"time", Filter{Since: at(2), Before: at(4)}, "0x3 0x4"},
		{"another session", Filter{Session: 5}, ""},
		{"the session", Filter{Session: transactions()[0].Session, To: 1}, "0x1"},
	} {
		if got := strings.Join(zxidsOf(t, LogPrinter{Filter: tt.f}, name), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A transaction in JSON has what it has, and no more.
func TestJSON(t *testing.T) {
	var out bytes.Buffer
	if err := (&LogPrinter{Out: &out, JSON: true}).Print(fileOf(t, true)); !errors.Is(err, ErrDamaged) {
		t.Errorf("of a damaged file: %v", err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range map[int]string{
		0:  `{"zxid":"0x1","time":"2026-11-22T23:26:21.908Z","session":"0xff00000000000123","cxid":-2,"type":"createSession","timeout":30000,"digest":"1099511627776","file":"log.1","offset":16}`,
		2:  `"type":"create2","path":"/ü","base64":"4oIg//4g7aCAIPCfmA==","acl":["world:anyone:r"],"ephemeral":true,"parentCversion":2,`,
		4:  `"damage":"wrong checksum"`,
		7:  `"type":"setACL","path":"/t,\r\n","acl":["digest:a,b}c%d:cdrwa","world:anyone:r"],"version":1,`,
		11: `"type":"error","error":"no node",`,
		12: `"type":"closeSession","paths":["/ü","/x,y"],`,
		13: `"type":"multi","ops":[{"type":"create","path":"/a,b%c}d","data":"line\nbreak",`,
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s\nwant %s", i+1, lines[i], want)
		}
	}
}

func TestSnapshotJSON(t *testing.T) {
	s, err := ReadSnapshot(written+"snapshot.32", 0)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.PrintJSON(&out, Filter{Path: "/two/mine"}); err != nil {
		t.Fatal(err)
	}
	const want = `{"path":"/two/mine","data":"e","acl":["world:anyone:cdrwa"],"czxid":"0x20","mzxid":"0x20","pzxid":"0x20",` +
		`"ctime":"2026-11-20T23:02:11.088Z","mtime":"2026-11-20T23:02:11.088Z","dataVersion":0,"cversion":0,"aclVersion":0,"ephemeralOwner":"0x10002f1e7b80000"}` + "\n"
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	if err := s.PrintJSON(&out, Filter{Path: "/nothing"}); err == nil {
		t.Error("a znode that does not exist was printed")
	}
	if err := s.PrintSummary(&out, "/nothing", 0); err == nil {
		t.Error("a znode that does not exist was summarised")
	}
}

// TestSnapshotFilters selects znodes of a snapshot in both forms: each filter alone, and what it
// must print. The znodes are counted by the lines that only they have.
func TestSnapshotFilters(t *testing.T) {
	s, err := ReadSnapshot(written+"snapshot.32", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := func(seconds string) time.Time {
		at, err := time.Parse(time.RFC3339, "2026-11-20T23:02:"+seconds+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, tt := range []struct {
		name   string
		filter Filter
		want   string // the paths

		sessions int
	}{
		{"session", Filter{Session: 0x10002f1e7b80000}, "/one/mine /three/mine /two/mine", 1},
		{"another session", Filter{Session: 1}, "", 0},
		{"zxids", Filter{From: 0x1e, To: 0x20}, "/two/mine /two/s-0000000000", 2},
		{"from, below a path", Filter{Path: "/three", From: 0x32}, "/three/mine /three/other-0000000005", 2},
		{"since", Filter{Path: "/two", Since: at("11.102")}, "/two/container /two/container/kept /two/ttl", 2},
		{"before", Filter{Path: "/two", Before: at("11.085")}, "/two/acls", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var lines, text bytes.Buffer
			if err := errors.Join(s.PrintJSON(&lines, tt.filter), s.PrintApache(&text, false, tt.filter)); err != nil {
				t.Fatal(err)
			}
			var inJSON []string
			for _, line := range regexp.MustCompile(`(?m)^\{"path":"([^"]*)"`).FindAllStringSubmatch(lines.String(), -1) {
				inJSON = append(inJSON, line[1])
			}
			var inText []string
			for _, line := range regexp.MustCompile(`(?m)^(/.*)\n  cZxid`).FindAllStringSubmatch(text.String(), -1) {
				inText = append(inText, line[1])
			}
			if got := strings.Join(inJSON, " "); got != tt.want || !slices.Equal(inJSON, inText) {
				t.Errorf("JSON has %q, the text %q; want %q", inJSON, inText, tt.want)
			}
			sessions := regexp.MustCompile(`(?m)^0x[0-9a-f]+, \d+, \d+$`).FindAllString(text.String(), -1)
			if len(sessions) != tt.sessions {
				t.Errorf("the sessions %q, want %d", sessions, tt.sessions)
			}
		})
	}
	if err := s.PrintApache(&bytes.Buffer{}, false, Filter{Path: "/nothing"}); err == nil {
		t.Error("a znode that does not exist was printed")
	}
}

func TestCompare(t *testing.T) {
	read := func(name string) *Snapshot {
		s, err := ReadSnapshot(written+name, 0)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var out bytes.Buffer
	if err := Compare(&out, read("snapshot.32"), read("snapshot.32")); err != nil || out.Len() > 0 {
		t.Errorf("with itself: %v\n%s", err, &out)
	}
	if err := Compare(&out, read("snapshot.20"), read("snapshot.32")); !errors.Is(err, ErrDiffer) {
		t.Errorf("%v", err)
	}
	for _, want := range []string{"~ / pzxid cversion\n", "+ /three\n", "- /two/s-0000000002\n", "~ /two data mzxid pzxid mtime dataVersion cversion\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), " /one") {
		t.Errorf("/one does not differ\n%s", &out)
	}
}

// TestComparisonAsks asks what Apache's tool does not know: the root, and an input that ends.
func TestComparisonAsks(t *testing.T) {
	var out bytes.Buffer
	c := ApacheComparison{Out: &out, In: strings.NewReader("/\n")}
	if err := c.Run(written+"snapshot.20", written+"snapshot.32"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Analysis for node /\nFiltered node /one of ") || strings.Contains(out.String(), "All layers compared") {
		t.Errorf("%s", &out)
	}
}

// No tool overwrites a file, or leaves one that is not what was asked for.
func TestFilesAreWrittenWhole(t *testing.T) {
	only := func(name string, want ...string) {
		t.Helper()
		files, err := os.ReadDir(filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, want) {
			t.Errorf("%q are there, want %q", names, want)
		}
	}
	name := fileOf(t, true)
	recovery := func(answers string) error {
		return (&Recovery{Out: &bytes.Buffer{}, In: strings.NewReader(answers)}).Run(name)
	}
	for _, answers := range []string{"a\n", "", "y\n", "what\n"} {
		if err := recovery(answers); !errors.Is(err, ErrAborted) {
			t.Errorf("%q: %v", answers, err)
		}
		only(name, "log.1")
	}
	if err := recovery("y\ny\n"); err != nil {
		t.Error(err)
	}
	if err := recovery("y\ny\n"); err == nil {
		t.Error("a file was overwritten")
	}
	only(name, "log.1", "log.1.fixed")
	if got := zxidsOf(t, LogPrinter{}, name+".fixed"); len(got) != len(transactions()) {
		t.Errorf("%d transactions were recovered", len(got))
	}
	for _, z := range []zk.Zxid{5, 0x11, 0x100000001} {
		if err := Chop(&bytes.Buffer{}, name, name+".chopped", z, 0); err == nil {
			t.Errorf("chopped at %v", z)
		}
		only(name, "log.1", "log.1.fixed")
	}
	if err := Chop(&bytes.Buffer{}, name+".fixed", name+".chopped", 5, 0); err != nil {
		t.Error(err)
	}
	if got := zxidsOf(t, LogPrinter{}, name+".chopped"); len(got) != 5 {
		t.Errorf("%q after a cut at 5", got)
	}
}
