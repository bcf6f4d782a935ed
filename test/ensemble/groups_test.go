package ensemble

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The script that migrates an ensemble counts quorums by groups and weights as servers do.
func TestMigrationCountsGroups(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	script := filepath.Join(root, "scripts/migrate-ensemble")
	const run = `set -euo pipefail
		declare -A weight=(); groups=()
		eval "$(sed -n '/^read_groups()/,/^}/p; /^groups_without()/,/^}/p' "$1")"
		read_groups "$2"
		if groups_without "$3"; then echo goes on; else echo stops; fi`
	for _, tt := range []struct{ name, config, without, want string }{
		{"three groups of three", "group.1=1:2:3\ngroup.2=4:5:6\ngroup.3=7:8:9\n", "4", "goes on\n"},
		{"three groups of one", " group.1 = 1\ngroup.2=2\ngroup.3=3\n", "2", "goes on\n"},
		{"two groups, of which one would be lost", "group.1=1:2:3\ngroup.2=4:5\n", "4", "stops\n"},
		{"two groups, of which none is lost", "group.1=1:2:3\ngroup.2=4:5\n", "1", "goes on\n"},
		{"all weight at one", "group.1=1:2:3\nweight.1=1\nweight.2=0\nweight.3=0\n", "1", "stops\n"},
		{"without weight", "group.1=1:2:3\nweight.1=1\nweight.2=0\nweight.3=0\n", "2", "goes on\n"},
		{"a group without weight does not count", "group.1=1:2:3\ngroup.2=4\nweight.4=0\n", "4", "goes on\n"},
		{"weights within a group", "group.1=1:2:3\nweight.1=3\n", "1", "stops\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "zoo.cfg")
			if err := os.WriteFile(config, []byte(tt.config), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), bash, "-c", run, "bash", script, config, tt.without).CombinedOutput()
			if err != nil || string(out) != tt.want {
				t.Errorf("%v, %q, want %q", err, out, tt.want)
			}
		})
	}
}
