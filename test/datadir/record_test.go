package datadir

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
)

var (
	record = flag.String("record", "", "write testdata/apache-`RELEASE` anew: 3.4 or 3.9, after scripts/apache-release")
	port   = flag.Int("port", 32760, "the port of the server that -record starts")
)

// keptZeros is how much of the zeros behind a log's end is kept.
const keptZeros = 40

// TestRecord writes a directory of testdata anew: what a real server leaves that
// is killed with two sessions open, and what it served until then.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("nothing is recorded without -record")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	addr := fmt.Sprintf("127.0.0.1:%d", *port)
	kill := startApache(t, ctx, dir, *record)
	modern := *record != "3.4"

	stays := dial(t, addr, alice(), client.SessionTimeout(20*time.Second))
	other := dial(t, addr, client.SessionTimeout(10*time.Second))
	w := &writer{t, stays}
	w.quota("/one")
	for _, top := range []string{"/one", "/two", "/three"} {
		w.fill(top, other, modern)
		if modern {
			malformed(t, addr) // logged under the zxid of the transaction before
		}
	}
	tree := dump(t, stays)
	served := fmt.Sprintf("session %#x\nzxid %v\n", uint64(stays.SessionID()), stays.LastZxid()) + tree
	kill()

	to := filepath.Join("testdata", "apache-"+*record)
	w.must(os.RemoveAll(to))
	w.must(os.MkdirAll(filepath.Join(to, "version-2"), 0o755))
	w.must(os.WriteFile(filepath.Join(to, "served.txt"), []byte(served), 0o644))
	names, err := filepath.Glob(filepath.Join(dir, "data", "version-2", "*"))
	w.must(err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		w.must(err)
		if strings.HasPrefix(filepath.Base(name), "log.") {
			b = b[:min(len(b), len(bytes.TrimRight(b, "\x00"))+keptZeros)]
		}
		w.must(os.WriteFile(filepath.Join(to, "version-2", filepath.Base(name)), b, 0o644))
	}
}

// startApache starts a release on its own in dir, and returns what kills it.
func startApache(t *testing.T, ctx context.Context, dir, release string) (kill func()) {
	t.Helper()
	cfg := filepath.Join(dir, "zoo.cfg")
	lines := []string{
		"tickTime=1000", "dataDir=" + filepath.Join(dir, "data"), fmt.Sprintf("clientPort=%d", *port), "clientPortAddress=127.0.0.1",
		"snapCount=24", "preAllocSize=64", "extendedTypesEnabled=true", "admin.enableServer=false",
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "apache-server"), cfg)
	cmd.Env = append(os.Environ(), "RELEASE="+release, "JVMFLAGS=-Xmx256m -Dznode.container.checkIntervalMs=3600000")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is dead already, unless the test has failed
		_ = cmd.Wait()
	})
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it tells of the signal
	}
}
