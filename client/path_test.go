package client

import (
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// testdata/paths.txt holds what PathUtils.validatePath of Apache ZooKeeper 3.8.0
// says: whether the path is that of a sequential create, the path in hexadecimal,
// and the message, of which the path that it quotes is left out.
func TestCheckPathInApachesWords(t *testing.T) {
	golden, err := os.ReadFile("testdata/paths.txt")
	if err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for line := range strings.Lines(string(golden)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		raw, err := hex.DecodeString(f[1])
		if err != nil || len(f) != 3 {
			t.Fatalf("line %q: %v", line, err)
		}
		path := string(raw)
		mode := zk.Persistent
		err = CheckPath(path)
		if f[0] == "1" {
			mode = zk.PersistentSequential
		}
		if f[0] == "1" || path != "" {
			err = checkCreate(path, mode, wire.OpCreate, 0)
		}
		got := ""
		if err != nil {
			got = err.Error()
			if quoted := "Invalid path string \"" + path; strings.HasPrefix(got, quoted) {
				_, got, _ = strings.Cut(got[len(quoted):], " ")
			}
			bad++
		} else {
			good++
		}
		if got != f[2] {
			t.Errorf("sequential %s, %q: %q, Apache says %q", f[0], path, got, f[2])
		}
	}
	if good < 50 || bad < 200 {
		t.Errorf("only %d paths are good and %d bad", good, bad)
	}
}

func TestCheckCreate(t *testing.T) {
	for _, x := range []struct {
		mode zk.CreateMode
		op   wire.OpCode
		ttl  time.Duration
		bad  string
	}{
		{zk.Persistent, wire.OpCreate, 0, ""},
		{zk.Container, wire.OpCreateContainer, 0, ""},
		{zk.PersistentWithTTL, wire.OpCreateTTL, time.Second, ""},
		{zk.PersistentWithTTL, wire.OpCreateTTL, time.Microsecond, "1 ms or more"},
		{zk.PersistentWithTTL, wire.OpCreate2, time.Second, "goes with a mode"},
		{zk.Ephemeral, wire.OpCreateTTL, time.Second, "goes with a mode"},
		{7, wire.OpCreate, 0, "does not exist"},
		{-1, wire.OpCreate, 0, "does not exist"},
	} {
		err := checkCreate("/a", x.mode, x.op, x.ttl)
		if (err == nil) != (x.bad == "") || err != nil && !strings.Contains(err.Error(), x.bad) {
			t.Errorf("mode %d by %v: %v, want %q", x.mode, x.op, err, x.bad)
		}
	}
}

func TestConnectStrings(t *testing.T) {
	for _, x := range []struct{ in, members, chroot, bad string }{
		{"a", "a:2181", "", ""},
		{"a:1, b:2 ,,[::1]:3,::1,[fe80::1]/x/y", "a:1 b:2 [::1]:3 [::1]:2181 [fe80::1]:2181", "/x/y", ""},
		{"a/", "a:2181", "", ""},
		{"/x", "", "/x", ""},
		{"a:0", "", "", `port "0" is not between`},
		{"a:65536", "", "", `port "65536"`},
		{"a:b", "", "", `port "b"`},
		{"a:1:2", "", "", "too many colons"},
		{"a/x/", "", "", "must not end with /"},
		{"a//x", "", "", "empty node name"},
	} {
		members, chroot, err := parseConnectString(x.in)
		switch {
		case x.bad != "":
			if err == nil || !strings.Contains(err.Error(), x.bad) {
				t.Errorf("%q: error %v, want %q", x.in, err, x.bad)
			}
		case err != nil || strings.Join(members, " ") != x.members || chroot != x.chroot:
			t.Errorf("%q: %q, %q, %v", x.in, members, chroot, err)
		}
	}
	if _, err := Dial(t.Context(), "/x"); err == nil || !strings.Contains(err.Error(), "names no server") {
		t.Errorf("dial of nobody: %v", err)
	}
}
