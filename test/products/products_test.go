package products

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

var pinfold = flag.String("pinfold", "", "the binary of the servers")

// patience is for everything that has to happen. A failover is awaited for two leases of
// thirty seconds.
const patience = 3 * time.Minute

// site is an ensemble, and a directory that all users may enter.
type site struct {
	*cluster.Ensemble
	t   *testing.T
	ctx context.Context // ends with patience
	dir string
}

// start starts three servers, and waits until they serve. The test runs beside others.
func start(t *testing.T) *site {
	t.Helper()
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &site{t: t, ctx: ctx, dir: t.TempDir()}
	must(t, os.Chmod(filepath.Dir(s.dir), 0o755)) // servers of other users are below it
	specs, err := cluster.ParseSpecs("pinfold,pinfold,pinfold")
	must(t, err)
	s.Ensemble, err = cluster.New(cluster.Options{Dir: t.TempDir(), Specs: specs, Programs: cluster.Programs{Pinfold: *pinfold}})
	must(t, err)
	t.Cleanup(s.Close)
	must(t, s.Start(ctx))
	must(t, s.WaitServing(ctx))
	return s
}

// fail kills the ensemble's leader, waits until another leads, and starts the first one again.
func (s *site) fail() error {
	old, err := s.Leader()
	if err != nil {
		return err
	}
	old.Kill()
	if _, err := s.WaitLeader(s.ctx, func(m *cluster.Member) bool { return m != old }); err != nil {
		return err
	}
	if err := old.Start(); err != nil {
		return err
	}
	_, err = old.WaitServing(s.ctx)
	return err
}

// until waits until done; the test fails if it takes longer than patience.
func (s *site) until(what string, done func() error) {
	s.t.Helper()
	var last error
	if err := s.Until(s.ctx, func() bool { last = done(); return last == nil }); err != nil {
		s.t.Fatalf("%s: %v", what, last)
	}
}

// ports returns n ports that are free.
func (s *site) ports(n int) []int {
	s.t.Helper()
	all := make([]int, n)
	for i := range all {
		var err error
		all[i], err = s.FreePort()
		must(s.t, err)
	}
	return all
}

// file writes a file of dir and returns its name. Everybody may read it.
func (s *site) file(name, content string) string {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	must(s.t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(s.t, os.WriteFile(name, []byte(content), 0o644))
	return name
}

// logOnFailure shows the end of a program's output if the test fails.
func (s *site) logOnFailure(out string) {
	s.t.Cleanup(func() {
		if !s.t.Failed() {
			return
		}
		content, err := os.ReadFile(out)
		if err != nil {
			s.t.Log(err)
			return
		}
		lines := strings.Split(string(content), "\n")
		s.t.Logf("%s:\n%s", out, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
