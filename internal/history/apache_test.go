package history

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	apache = flag.Bool("apache", false, "compare with the tools of Apache ZooKeeper 3.9 themselves (scripts/apache-release 3.9)")
	record = flag.Bool("record", false, "with -apache: keep their output in testdata/apache")
)

// written is a directory that an Apache server has written.
const written = "../../test/datadir/testdata/apache-3.9/version-2/"

// compressed is one with compressed snapshots.
const compressed = "../storage/testdata/apache/"

// tools are calls of Apache's tools, and the same of ours. The output is equal byte by
// byte, once what normal takes out of it is the same in both: the order of znodes and
// sessions, which is that of a hash table in Apache's, and the time.
var tools = []struct {
	name, class string
	args        []string // a file FILE is one that ours gets
	ours        func(out *bytes.Buffer, file string) error
	normal      func(t *testing.T, text string) string
}{
	{"log", "persistence.TxnLogToolkit", []string{written + "log.14"}, dump(written + "log.14"), asIs},
	{"log-multi", "persistence.TxnLogToolkit", []string{"-d", written + "log.1"}, dump(written + "log.1"), asIs},
	{"log-all-types", "persistence.TxnLogToolkit", []string{"FILE"}, nil, asIs},
	{"log-damaged", "persistence.TxnLogToolkit", []string{"DAMAGED"}, nil, asIs},
	{"log-recover", "persistence.TxnLogToolkit", []string{"-r", "-y", "DAMAGED"}, recovered(true, false, ""), asIs},
	{"log-recover-verbose", "persistence.TxnLogToolkit", []string{"-r", "-y", "-v", "DAMAGED"}, recovered(true, true, ""), asIs},
	{"log-recover-asking", "persistence.TxnLogToolkit", []string{"-r", "DAMAGED"}, recovered(false, false, "x\nno\nYes\n"), asIs},
	{"log-chop", "persistence.TxnLogToolkit", []string{"-c", "-z", "0xe", "FILE"}, func(out *bytes.Buffer, file string) error {
		return Chop(out, file, file+".chopped14", 0xe, 0)
	}, asIs},
	{"snapshot", "SnapshotFormatter", []string{written + "snapshot.32"}, formatted(written+"snapshot.32", false), sortBlocks},
	{"snapshot-data", "SnapshotFormatter", []string{"-d", written + "snapshot.20"}, formatted(written+"snapshot.20", true), sortBlocks},
	{"snapshot-gz", "SnapshotFormatter", []string{compressed + "snapshot.9.gz"}, formatted(compressed+"snapshot.9.gz", false), sortBlocks},
	{"snapshot-snappy", "SnapshotFormatter", []string{compressed + "snapshot.1b.snappy"}, formatted(compressed+"snapshot.1b.snappy", false), sortBlocks},
	{"snapshot-json", "SnapshotFormatter", []string{"-json", written + "snapshot.32"}, onSnapshot(written+"snapshot.32", func(s *Snapshot, out *bytes.Buffer) error {
		return s.PrintApacheJSON(out, time.Now())
	}), sortSizes},
	{"summary", "SnapshotRecursiveSummary", []string{written + "snapshot.32", "/", "0"}, summarised(written+"snapshot.32", "/", 0), sortSummary},
	{"summary-depth", "SnapshotRecursiveSummary", []string{written + "snapshot.32", "/", "1"}, summarised(written+"snapshot.32", "/", 1), sortSummary},
	{"summary-subtree", "SnapshotRecursiveSummary", []string{written + "snapshot.32", "/two", "0"}, summarised(written+"snapshot.32", "/two", 0), sortSummary},
	{"compare", "SnapshotComparer", []string{"-l", written + "snapshot.20", "-r", written + "snapshot.32", "-b", "2", "-n", "1"}, compared(2, 1, false), withoutSeconds},
	{"compare-debug", "SnapshotComparer", []string{"-d", "-l", written + "snapshot.20", "-r", written + "snapshot.32", "-b", "8", "-n", "3"}, compared(8, 3, true), withoutSeconds},
	{"compare-interactive", "SnapshotComparer", []string{"-i", "-l", written + "snapshot.20", "-r", written + "snapshot.32", "-b", "2", "-n", "1"}, func(out *bytes.Buffer, _ string) error {
		return (&ApacheComparison{Out: out, Bytes: 2, Znodes: 1, In: strings.NewReader(questions)}).Run(written+"snapshot.20", written+"snapshot.32")
	}, withoutSeconds},
}

// questions are what TestAsApachesTools asks of the comparison with -i. They end with all layers.
const questions = "\n2\n/two\nfoo\n9\n-1\n/nope\n/one/ttl\n/three\n1\n\n\n\n\n"

func asIs(_ *testing.T, text string) string { return text }

func dump(file string) func(out *bytes.Buffer, _ string) error {
	return func(out *bytes.Buffer, _ string) error { return (&LogPrinter{Out: out}).Print(file) }
}

func recovered(yes, verbose bool, answers string) func(out *bytes.Buffer, file string) error {
	return func(out *bytes.Buffer, file string) error {
		return (&Recovery{Out: out, In: strings.NewReader(answers), Yes: yes, Verbose: verbose}).Run(file)
	}
}

func onSnapshot(file string, f func(s *Snapshot, out *bytes.Buffer) error) func(out *bytes.Buffer, _ string) error {
	return func(out *bytes.Buffer, _ string) error {
		s, err := ReadSnapshot(file, 0)
		if err != nil {
			return err
		}
		return f(s, out)
	}
}

func formatted(file string, data bool) func(out *bytes.Buffer, _ string) error {
	return onSnapshot(file, func(s *Snapshot, out *bytes.Buffer) error { return s.PrintApache(out, data, Filter{}) })
}

func summarised(file, path string, depth int) func(out *bytes.Buffer, _ string) error {
	return onSnapshot(file, func(s *Snapshot, out *bytes.Buffer) error { return s.PrintSummary(out, path, depth) })
}

func compared(bytesMore, znodesMore int64, debug bool) func(out *bytes.Buffer, _ string) error {
	return func(out *bytes.Buffer, _ string) error {
		return (&ApacheComparison{Out: out, Bytes: bytesMore, Znodes: znodesMore, Debug: debug}).Run(written+"snapshot.20", written+"snapshot.32")
	}
}

// sortBlocks sorts the znodes of a snapshot, and its sessions.
func sortBlocks(_ *testing.T, text string) string {
	blocks := strings.Split(text, "----\n")
	if n := len(blocks); n > 3 {
		slices.Sort(blocks[1 : n-2])
		lines := strings.SplitAfter(blocks[n-2], "\n")
		slices.Sort(lines[1:])
		blocks[n-2] = strings.Join(lines, "")
	}
	return strings.Join(blocks, "----\n")
}

// sortSummary sorts the znodes of a summary, which have three lines each.
func sortSummary(_ *testing.T, text string) string {
	lines := strings.SplitAfter(text, "\n")
	var znodes []string
	for ; len(lines) >= 3; lines = lines[3:] {
		znodes = append(znodes, strings.Join(lines[:3], ""))
	}
	slices.Sort(znodes)
	return strings.Join(append(znodes, lines...), "")
}

func withoutSeconds(_ *testing.T, text string) string {
	return regexp.MustCompile(`in [\d.E-]+ seconds`).ReplaceAllString(text, "in S seconds")
}

// sortSizes sorts the children in the JSON for ncdu, and takes out what depends on the order
// and on the time.
func sortSizes(t *testing.T, text string) string {
	var all []any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	delete(all[2].(map[string]any), "timestamp")
	sortSubtree(all[3])
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sortSubtree(node any) string {
	list, ok := node.([]any)
	if !ok {
		m := node.(map[string]any)
		delete(m, "ino")
		return m["name"].(string)
	}
	name := sortSubtree(list[0])
	for _, child := range list[1:] {
		sortSubtree(child)
	}
	slices.SortFunc(list[1:], func(a, b any) int { return strings.Compare(sortSubtree(a), sortSubtree(b)) })
	return name
}

// transactions are one of each type, with what is printed in an unusual way.
func transactions() []txn.Txn {
	acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "a,b}c%d"}}, {Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	ops := []txn.Op{
		{Type: wire.OpCreateSession, TimeoutMillis: 30000},
		{Type: wire.OpCreate, Path: "/a,b%c}d", Data: []byte("line\nbreak"), ACL: acl, ParentCversion: 1},
		{Type: wire.OpCreate2, Path: "/ü", Data: []byte("\xe2\x82 \xff\xfe \xed\xa0\x80 \xf0\x9f\x98"), ACL: acl[1:], Ephemeral: true, ParentCversion: 2},
		{Type: wire.OpCreateContainer, Path: "/c", Data: nil, ACL: acl[1:], ParentCversion: 3},
		{Type: wire.OpCreateTTL, Path: "/t", Data: []byte{}, ACL: acl[1:], ParentCversion: 4, TTL: 1 << 33},
		{Type: wire.OpSetData, Path: "/t", Data: nil, Version: 1},
		{Type: wire.OpSetData, Path: "/t", Data: []byte("x,y"), Version: 2},
		{Type: wire.OpSetACL, Path: "/t,\r\n", ACL: acl, Version: 1},
		{Type: wire.OpReconfig, Path: "/zookeeper/config", Data: []byte("server.1=a:1:2\nversion=1"), Version: -1},
		{Type: wire.OpDelete, Path: "/t}"},
		{Type: wire.OpDeleteContainer, Path: "/c"},
		{Type: wire.OpError, Err: zk.ErrNoNode},
		{Type: wire.OpCloseSession, Paths: []string{"/ü", "/x,y"}, PathsListed: true},
	}
	var list []txn.Txn
	add := func(t txn.Txn) {
		t.Session, t.Cxid, t.Time = -1<<56|0x123, int32(len(list)-2), 1795389981908+int64(len(list))*86_400_000
		t.Zxid = zk.Zxid(len(list) + 1)
		list = append(list, t)
	}
	for _, op := range ops {
		add(txn.Txn{Header: txn.Header{Type: op.Type}, Op: op, HasDigest: op.Type != wire.OpError, Digest: 1 << 40})
	}
	multi := func(ops ...txn.Op) {
		add(txn.Txn{Header: txn.Header{Type: wire.OpMulti}, Op: txn.Op{Type: wire.OpMulti}, Multi: ops})
	}
	multi(ops[1], ops[5], ops[9], txn.Op{Type: wire.OpCheck, Path: "/a", Version: 7})
	multi()
	multi(ops[11])
	return list
}

// fileOf writes the log of transactions; with damage, one bit of two of them is wrong.
func fileOf(t testing.TB, damaged bool) string {
	b := storage.AppendLogHeader(nil, 0)
	for i, tx := range transactions() {
		payload := tx.Append(nil)
		entry := storage.AppendEntry(nil, payload)
		if damaged && (i == 1 || i == 4) {
			entry[12+32+5] ^= 1 // in the path
		}
		b = append(b, entry...)
	}
	name := filepath.Join(t.TempDir(), "log.1")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestAsApachesTools compares our output with that of Apache's tools, which is recorded, or
// with -apache made now.
func TestAsApachesTools(t *testing.T) {
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			file, theirs := "", ""
			if i := slices.IndexFunc(tool.args, func(a string) bool { return a == "FILE" || a == "DAMAGED" }); i >= 0 {
				damaged := tool.args[i] == "DAMAGED"
				file, theirs = fileOf(t, damaged), fileOf(t, damaged)
				tool.args = slices.Clone(tool.args)
				tool.args[i] = theirs
			}
			if tool.ours == nil {
				tool.ours = dump(file)
			}
			var out bytes.Buffer
			if err := tool.ours(&out, file); err != nil && !strings.Contains(err.Error(), ErrDamaged.Error()) {
				t.Fatal(err)
			}
			ours := out.String()
			if file != "" {
				ours = strings.ReplaceAll(ours, file, "FILE")
			}
			got := tool.normal(t, ours)
			want := tool.normal(t, expected(t, tool.name, tool.class, tool.args, theirs))
			if got != want {
				t.Error(firstDifference(got, want))
			}
			if *apache && theirs != "" {
				sameFiles(t, filepath.Dir(file), filepath.Dir(theirs))
			}
		})
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, Apache's %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, Apache's are %d", len(g), len(w))
}

// expected is the output of Apache's tool.
func expected(t *testing.T, name, class string, args []string, file string) string {
	t.Helper()
	kept := filepath.Join("testdata", "apache", name+".txt")
	if !*apache {
		b, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	cmd := exec.Command("../../scripts/apache-server", args...)
	cmd.Env = append(os.Environ(), "CLASS=org.apache.zookeeper.server."+class, "RELEASE=3.9", "JVMFLAGS=-Dfile.encoding=UTF-8 -Duser.timezone=UTC -Duser.language=en -Duser.country=US")
	cmd.Stdin = strings.NewReader("x\nno\nYes\n")
	if slices.Contains(args, "-i") {
		cmd.Stdin = strings.NewReader(questions)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	text := string(out)
	if file != "" {
		text = strings.ReplaceAll(text, file, "FILE")
	}
	if *record {
		if err := os.WriteFile(kept, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// sameFiles compares the files that the tools have written. Apache's have zeros at their
// ends.
func sameFiles(t *testing.T, ours, theirs string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(theirs, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(ours, filepath.Base(name)))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(bytes.TrimRight(got, "\x00"), bytes.TrimRight(want, "\x00")) {
			t.Errorf("%s has other bytes than Apache's", filepath.Base(name))
		}
	}
}
