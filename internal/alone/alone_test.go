package alone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// server writes the configuration of a server of an ensemble, with more lines, and the memberships that it
// knows.
func server(t *testing.T, more string, known ...string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "version-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "dataDir=" + dir + "/data\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n" + more
	for name, content := range map[string]string{"data/myid": "1\n", "data/version-2/acceptedEpoch": "5", "data/version-2/currentEpoch": "4", "zoo.cfg": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cfg, _, err := config.Load(filepath.Join(dir, "zoo.cfg"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(known) == 0 {
		return cfg
	}
	d, err := storage.Open(vfs.OS{}, options.Storage(cfg))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var m []*zab.Membership
	for _, text := range known {
		m = append(m, options.Reader{}.OfText([]byte(text)))
	}
	o, err := options.Replica(cfg)
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = d
	if err := replica.WriteMemberships(&o, &zab.Memberships{Committed: m[0], Seen: m[len(m)-1]}); err != nil {
		t.Fatal(err)
	}
	return cfg
}

const (
	dynamic = "reconfigEnabled=true\nstandaloneEnabled=false\n"
	three   = "server.1=a:1:2:participant;3\nserver.2=b:1:2:participant;3\nserver.3=c:1:2:participant;3\n"
	two     = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3\n"
)

// The checks refuse what is not needed, or not safe. What is shown is what is written.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name, more, answers string
		known               []string
		lost                []int64
		want                string // "": it is not refused
	}{
		{name: "the majority is lost", more: dynamic + three, lost: []int64{2, 3}},
		{name: "one is lost", more: dynamic + three, lost: []int64{3}, want: "are a majority"},
		{name: "none is lost", more: dynamic + three, want: "are a majority"},
		{name: "one answers its peers", more: dynamic + three, lost: []int64{2, 3}, answers: "c:2", want: "server 3, which is said to be lost, answers at c:2"},
		{name: "one answers clients", more: dynamic + three, lost: []int64{2, 3}, answers: "b:3", want: "server 2, which is said to be lost, answers at b:3"},
		{name: "it is lost itself", more: dynamic + three, lost: []int64{1, 2}, want: "is the one that is to stay"},
		{name: "a stranger is lost", more: dynamic + three, lost: []int64{2, 3, 4}, want: "server 4, which is said to be lost, is no member"},
		{name: "it would be standalone", more: "reconfigEnabled=true\n" + three, lost: []int64{2, 3}, want: "standaloneEnabled is true"},
		{name: "a change is pending that needs the lost one", more: dynamic + three, lost: []int64{2}, known: []string{
			strings.ReplaceAll(three, ";3", ";0.0.0.0:3") + "version=0", two + "version=400000007",
		}},
		{name: "a change is pending that does not", more: dynamic + three, lost: []int64{3}, known: []string{
			strings.ReplaceAll(three, ";3", ";0.0.0.0:3") + "version=0", two + "version=400000007",
		}, want: "are a majority"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := server(t, c.more, c.known...)
			s, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			p, err := s.Plan(t.Context(), c.lost, func(_ context.Context, a string) bool { return a == c.answers })
			if err != nil {
				t.Fatal(err)
			}
			var reasons []string
			for _, check := range p.Checks {
				if check.Result == "refused" {
					reasons = append(reasons, check.Text)
				}
			}
			if got := fmt.Sprint(reasons); c.want == "" && len(reasons) > 0 || !strings.Contains(got, c.want) {
				t.Fatalf("refused: %s, want %q", got, c.want)
			}
			err = p.Run(t.Context(), plan.Options{Yes: true}, &plan.Printer{Out: t.Output()}, nil)
			if (c.want != "") != errors.Is(err, plan.ErrRefused) {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				isAlone(t, cfg)
			}
		})
	}
}

// isAlone demands that the server knows of itself only, in a configuration that is committed.
func isAlone(t *testing.T, cfg *config.Config) {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const want = "server.1=a:1:2:participant;0.0.0.0:3\nversion=600000000"
	if got := string(s.now.Committed.Text()); got != want || s.now.Seen != s.now.Committed || s.now.Unsure {
		t.Errorf("it knows of\n%s\nwant\n%s", got, want)
	}
}

// A server that others must not touch is not opened.
func TestOpenRefuses(t *testing.T) {
	for more, want := range map[string]string{
		"clientPort=3\n": "standalone",
		three:            "reconfigEnabled is not true",
	} {
		if _, err := Open(server(t, more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", more, err, want)
		}
	}
	cfg := server(t, dynamic+three)
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Open(cfg); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("a second time: %v", err)
	}
	healing := server(t, dynamic+three)
	if err := os.WriteFile(filepath.Join(healing.Data.Dir, "version-2", "healing"), []byte("epoch-kept a bad sector\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(healing); err == nil || !strings.Contains(err.Error(), "a bad sector") {
		t.Errorf("damaged: %v", err)
	}
}
