package ensemble

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/test/auditlog"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// oursAlone reports whether a line of an audit log is one that Apache 3.8.0 and 3.9.3 do not
// write: of TTL znodes, as since 3.9.4, and of a create with an unknown mode.
func oursAlone(line string) bool {
	return strings.Contains(line, "_with_ttl\t") || strings.Contains(line, "\tznode=/a/mode\t")
}

// TestAudit has a client make every kind of change at Apache 3.8.0 and 3.9.3 and at Pinfold, and
// stops them: the lines of the audit logs are the same.
func TestAudit(t *testing.T) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	kinds := []cluster.Kind{cluster.Apache, cluster.Apache39, cluster.Pinfold}
	progs := programs(t, []cluster.Spec{{Kind: cluster.Apache}}, smallJVM+" "+auditlog.Property)
	logs := make([][]string, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() { logs[i] = auditedBy(t, progs, kind) })
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	ours := logs[2]
	if n := len(ours); n < 26 {
		t.Fatalf("only %d lines: %q", n, ours)
	}
	ours = slices.DeleteFunc(ours, oursAlone)
	for i, log := range logs[:2] {
		if diff := cmp.Diff(log, ours); diff != "" {
			t.Errorf("(-%s +Pinfold):\n%s", kinds[i], diff)
		}
	}
}

// auditedBy returns the audit log of a server that was started, changed and stopped.
func auditedBy(t *testing.T, progs cluster.Programs, kind cluster.Kind) []string {
	e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: []cluster.Spec{{Kind: kind}}, Programs: progs, Lines: auditlog.Settings})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer e.Close()
	r, m := &rig{t: t, e: e}, e.Members[0]
	if err := e.Start(r.within(patience)); err != nil {
		t.Error(err)
		return nil
	}
	nc, err := net.Dial("tcp", m.Client)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	if err := auditlog.Scenario(nc); err != nil {
		t.Errorf("%s: %v", kind, err)
	}
	if err := m.Stop(); err != nil {
		t.Logf("%s: %v", kind, err) // a JVM ends with a status of its own
	}
	printed, err := m.Output()
	if err != nil {
		t.Error(err)
	}
	return auditlog.Lines(printed)
}
