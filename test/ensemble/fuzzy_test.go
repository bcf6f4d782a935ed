package ensemble

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// fuzzySnapshots is how many snapshots of each member are tried, and fuzzyTxns how many transactions, at least, of the
// log after each, unless the snapshot has effects of more.
const (
	fuzzySnapshots = 150
	fuzzyTxns      = 2000
)

// TestFuzzySnapshots has members write a snapshot every 100 to 200 transactions, while clients write znodes of every
// kind, and sessions with many ephemerals end. Every snapshot must lead, with the log after it, to the digests that the
// log names.
func TestFuzzySnapshots(t *testing.T) {
	for _, members := range mixtures(t, "apache,pinfold,pinfold", "apache-3.9,apache,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(superuser(), "snapCount=200", "preAllocSize=1024", "extendedTypesEnabled=true", "maxSessionTimeout=60000")})
			r.super = true
			r.prepareKinds(r.e.Members[0])
			kinds := r.writeKinds("fuzzy")
			ends := r.endSessions()
			r.must(r.e.Until(r.within(patience), func() bool {
				return !slices.ContainsFunc(r.e.Members, func(m *cluster.Member) bool { return len(r.zxidsOf(m, "snapshot.")) < fuzzySnapshots })
			}))
			leader, err := r.e.Leader()
			r.must(err)
			status, err := leader.Status()
			r.must(err)
			enough := status.Zxid + 2*fuzzyTxns // the last snapshots have a log after them
			r.must(r.e.Until(r.within(patience), func() bool {
				return !slices.ContainsFunc(r.e.Members, func(m *cluster.Member) bool {
					status, err := m.Status()
					return err != nil || status.Zxid < enough
				})
			}))
			r.must(ends())
			kinds.end()
			for _, m := range r.e.Members {
				m.Kill()
			}
			for _, m := range r.e.Members {
				r.trySnapshots(m)
			}
		})
	}
}

// endSessions has a client of each member open sessions, give each up to 60 ephemerals, and close them. The caller stops that.
func (r *rig) endSessions() (stop func() error) {
	ended := make(chan struct{})
	failed := make(chan error, len(r.e.Members))
	for _, m := range r.e.Members {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-ended:
					failed <- nil
					return
				default:
				}
				if err := endSession(m, 1+n*7%60); err != nil {
					failed <- fmt.Errorf("session %d at member %v: %w", n, m, err)
					return
				}
			}
		}()
	}
	end := sync.OnceFunc(func() { close(ended) })
	r.t.Cleanup(end)
	return func() (err error) {
		end()
		for range r.e.Members {
			if e := <-failed; e != nil {
				err = e
			}
		}
		return err
	}
}

// endSession opens a session, which creates ephemerals, and closes it.
func endSession(m *cluster.Member, ephemerals int) error {
	s := client.New(kindTimeout, patience)
	defer s.Drop()
	if err := s.Connect(m.Client); err != nil {
		return err
	}
	var requests []client.Request
	for i := range ephemerals {
		requests = append(requests, createAs(wire.OpCreate, fmt.Sprintf("%s/of-%d-%d", kindRoot, m.ID, i), zk.Ephemeral, -1, zk.OpenACLUnsafe()))
	}
	if err := (&kindWriter{s: s}).do(requests...); err != nil {
		return err
	}
	_, err := s.Close()
	return err
}

// zxidsOf returns the zxids in the names of a member's files, in order.
func (r *rig) zxidsOf(m *cluster.Member, prefix string) (zxids []zk.Zxid) {
	r.t.Helper()
	files, err := os.ReadDir(filepath.Join(m.DataDir, "version-2"))
	r.must(err)
	for _, f := range files {
		if hex, ok := strings.CutPrefix(f.Name(), prefix); ok {
			if z, err := strconv.ParseInt(hex, 16, 64); err == nil { // no temporary file
				zxids = append(zxids, zk.Zxid(z))
			}
		}
	}
	slices.Sort(zxids)
	return zxids
}

// trySnapshots verifies, for each of a member's snapshots, a directory that has only this one and the log after it.
func (r *rig) trySnapshots(m *cluster.Member) {
	r.t.Helper()
	tried := 0
	for _, s := range r.zxidsOf(m, "snapshot.") {
		if tried == fuzzySnapshots {
			break
		}
		if s.Epoch() == 0 { // of the empty tree
			continue
		}
		upto := s + fuzzyTxns
		for ; !r.compares(m, s, upto); upto += fuzzyTxns { // its digest is of a later transaction
			if upto > s+100*fuzzyTxns {
				r.t.Fatalf("member %v, snapshot.%x: no digest is compared up to %v", m, int64(s), upto)
			}
		}
		tried++
	}
	r.t.Logf("member %v: %d snapshots lead to what the log says", m, tried)
}

// compares verifies a snapshot with the log after it, up to the end of the file that has a zxid, and reports whether a
// digest was compared.
func (r *rig) compares(m *cluster.Member, s, upto zk.Zxid) bool {
	r.t.Helper()
	dir := filepath.Join(m.Dir, "from-"+fmt.Sprintf("%x", int64(s)))
	r.must(os.MkdirAll(filepath.Join(dir, "version-2"), 0o755))
	names := []string{fmt.Sprintf("snapshot.%x", int64(s))}
	logs := r.zxidsOf(m, "log.")
	for i, first := range logs {
		if first <= upto && (i+1 == len(logs) || logs[i+1] > s+1) {
			names = append(names, fmt.Sprintf("log.%x", int64(first)))
		}
	}
	for _, name := range names {
		r.must(os.Link(filepath.Join(m.DataDir, "version-2", name), filepath.Join(dir, "version-2", name)))
	}
	out := r.tool("data", "verify", dir)
	found := digestsCompared.FindStringSubmatch(out)
	if !strings.Contains(out, "all is well") || found == nil {
		r.t.Fatalf("%s: %s", dir, out)
	}
	r.must(os.RemoveAll(dir))
	return found[1] != "0"
}

var digestsCompared = regexp.MustCompile(`(?m)^state .* ([0-9]+) digests compared$`)
