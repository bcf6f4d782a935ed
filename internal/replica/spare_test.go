package replica

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// After a long multi memory is made for the next one, without the applier, which takes it. An idle server gives it back.
func TestMemoryForTheNextLongMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var populated atomic.Int64
		m, _ := mustBoot(t, vfs.NewMem(), func(o *Options) { o.Tree.Populate = func(b []byte) { populated.Add(int64(len(b))) } })
		op, body := createSession(30000)
		m.await(t, m.request(0, op, body))
		id := m.note.newSession()
		for round := range 4 {
			var b []byte
			for i := range 3000 {
				o := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: fmt.Sprintf("/%d-%d", round, i), ACL: zk.OpenACLUnsafe()}}
				b = o.Append(b)
			}
			before := m.rep.tip.spare.Load()
			populated.Store(0)
			m.await(t, m.request(id, wire.OpMulti, wire.AppendMultiEnd(b)))
			if made := populated.Load(); round > 0 && (before == nil || made > 0) {
				t.Errorf("round %d: %d bytes were made for it, %v before", round, made, before)
			}
			if m.rep.tip.spare.Load() == before && before != nil {
				t.Errorf("round %d: the memory was not taken", round)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if m.rep.tip.spare.Load() == nil {
				t.Errorf("round %d: no memory was made for the next one", round)
			}
		}
		if m.rep.ReleaseSpare(); m.rep.tip.spare.Load() != nil {
			t.Error("an idle server keeps the memory")
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
	})
}
