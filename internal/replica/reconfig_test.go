package replica

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// configReader reads memberships from transactions of type reconfig, in the form of
// znodeReader.
type configReader struct{ znodeReader }

func (configReader) OfEntry(e zab.Entry) *zab.Membership {
	tx, err := txn.Decode(e.Data)
	if err != nil || tx.Header.Type != wire.OpReconfig {
		return nil
	}
	return configReader{}.OfText(tx.Data)
}

// A leader judges a change of the membership in this order: another one is not committed,
// also one of the same batch; another version; what the change says; no quorum of the new
// voters follows. A refused change leaves no trace, nor does one that an earlier role has lost.
func TestALeaderJudgesReconfigurations(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) {
		if o.Ensemble == nil {
			return
		}
		o.Ensemble.Reader = configReader{}
		o.Ensemble.Members = configReader{}.OfText([]byte("0 1v 2v 3v"))
		o.ConfigText = o.Ensemble.Members.Text()
		o.Prep.ReconfigEnabled = true
		var err error
		if o.Auth, err = auth.New(auth.Config{SkipACL: true}); err != nil {
			t.Fatal(err)
		}
		o.Reconfigure = func(_ *zab.Membership, req *wire.ReconfigRequest, version zk.Zxid) (*zab.Membership, zk.Code) {
			to := configReader{}.OfText(fmt.Appendf(nil, "%d %s", int64(version), req.JoiningServers))
			if to == nil {
				return nil, zk.ErrBadArguments
			}
			return to, zk.OK
		}
	}, func(g *group) {
		m := g.leader()
		s := g.session(m, 100_000)
		ask := func(changes ...wire.ReconfigRequest) []zk.Code {
			before := len(m.note.answered())
			var reqs []Request
			for i := range changes {
				reqs = append(reqs, m.request(s, wire.OpReconfig, changes[i].Append(nil)))
			}
			m.rep.Submit(reqs)
			g.until("all are answered", func() bool { return len(m.note.answered()) == before+len(changes) })
			return m.note.answered()[before:]
		}
		expect := func(what string, got []zk.Code, want ...zk.Code) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		same := wire.ReconfigRequest{JoiningServers: "1v 2v 3v", CurConfigID: -1}
		synctest.Wait()
		m.rep.order.reconfig = zk.MakeZxid(0, 7) // one that was lost with an earlier role
		expect("another version of a bad change", ask(wire.ReconfigRequest{JoiningServers: "x", CurConfigID: 7}), zk.ErrBadVersion)
		expect("a bad change", ask(wire.ReconfigRequest{JoiningServers: "x", CurConfigID: -1}), zk.ErrBadArguments)
		expect("no quorum", ask(wire.ReconfigRequest{JoiningServers: "1v 7v 8v", CurConfigID: 0}), zk.ErrNewConfigNoQuorum)
		expect("two at once", ask(same, same), zk.OK, zk.ErrReconfigInProgress)
		expect("the first version", ask(wire.ReconfigRequest{JoiningServers: "1v 2v 3v", CurConfigID: 0}), zk.ErrBadVersion)
		expect("two, of which the first is refused", ask(wire.ReconfigRequest{JoiningServers: "x", CurConfigID: -1}, same), zk.ErrBadArguments, zk.OK)
		g.agree()
	})
}

// answered returns the codes of all replies.
func (n *notes) answered() []zk.Code {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.codes)
}
