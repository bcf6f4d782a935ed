package history

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// TestPurgeAsApache compares what is left of a directory with what Apache's PurgeTxnLog leaves, which is recorded, or with
// -apache asked now: of one directory, and of two.
func TestPurgeAsApache(t *testing.T) {
	for _, tt := range []struct {
		count int
		want  []string // what PurgeTxnLog of 3.9.3 leaves
	}{
		{3, []string{"log.1", "log.14", "log.22", "log.34", "snapshot.12", "snapshot.20", "snapshot.32"}},
		{4, []string{"log.1", "log.14", "log.22", "log.34", "snapshot.0", "snapshot.12", "snapshot.20", "snapshot.32"}},
		{9, []string{"log.1", "log.14", "log.22", "log.34", "snapshot.0", "snapshot.12", "snapshot.20", "snapshot.32"}},
	} {
		if *apache {
			logs, snaps := historyDirs(t, true)
			purgeByApache(t, logs, snaps, tt.count)
			if got := filesIn(t, logs, snaps); !slices.Equal(got, tt.want) {
				t.Errorf("-n %d: Apache leaves %v", tt.count, got)
			}
		}
		for _, two := range []bool{false, true} {
			logs, snaps := historyDirs(t, two)
			var out bytes.Buffer
			if err := Purge(&out, snaps, logs, tt.count); err != nil {
				t.Fatal(err)
			}
			if got := filesIn(t, logs, snaps); !slices.Equal(got, tt.want) {
				t.Errorf("-n %d: left are %v, by Apache's %v", tt.count, got, tt.want)
			}
			if want := map[int]string{3: "removed snapshot.0\n"}[tt.count]; out.String() != want {
				t.Errorf("-n %d: %q, want %q", tt.count, out.String(), want)
			}
			if err := (&Verification{Out: &out}).Verify(snaps, logs); err != nil {
				t.Errorf("-n %d: what is left is not whole: %v\n%s", tt.count, err, out.String())
			}
		}
	}
	logs, snaps := historyDirs(t, false)
	if err := Purge(&bytes.Buffer{}, snaps, logs, 2); err == nil {
		t.Error("two snapshots suffice")
	}
}

// historyDirs copies the directory that an Apache server has written, to one data directory or to two.
func historyDirs(t *testing.T, two bool) (logs, snaps string) {
	t.Helper()
	logs = t.TempDir()
	if snaps = logs; two {
		snaps = t.TempDir()
	}
	files, err := os.ReadDir(written)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		kind, _, _ := bytes.Cut([]byte(f.Name()), []byte("."))
		to := map[string]string{"log": logs, "snapshot": snaps}[string(kind)]
		if to == "" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(written, f.Name()))
		if err == nil {
			err = os.MkdirAll(filepath.Join(to, "version-2"), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, "version-2", f.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return logs, snaps
}

// filesIn returns the names of the files in the data directories.
func filesIn(t *testing.T, dirs ...string) (names []string) {
	t.Helper()
	for _, dir := range slices.Compact(slices.Clone(dirs)) {
		files, err := os.ReadDir(filepath.Join(dir, "version-2"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name())
		}
	}
	slices.Sort(names)
	return names
}

func purgeByApache(t *testing.T, logs, snaps string, count int) {
	t.Helper()
	cmd := exec.Command("../../scripts/apache-server", logs, snaps, "-n", strconv.Itoa(count))
	cmd.Env = append(os.Environ(), "CLASS=org.apache.zookeeper.server.PurgeTxnLog", "RELEASE=3.9")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
