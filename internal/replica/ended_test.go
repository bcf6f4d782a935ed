package replica

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// leaver is a connection that notes that it must leave.
type leaver struct {
	*notes
	left int
}

func (l *leaver) Leave(string) { l.left++ }

// A session that is ended over a connection that it has moved away from does not
// leave the new connection with a session that is over.
func TestEndOverAnOldConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		op, body := createSession(4000)
		m.rep.Submit([]Request{m.request(0x77, op, body)})
		synctest.Wait()
		moved := &leaver{notes: &notes{}}
		m.rep.Resume(0x77, session.Owner(2), 4000, moved)
		synctest.Wait()
		if !slices.Equal(moved.resumed, []bool{true}) {
			t.Fatalf("the session moves: %v", moved.resumed)
		}
		m.rep.Submit([]Request{m.request(0x77, wire.OpCloseSession, nil)})
		synctest.Wait()
		if moved.left != 1 {
			t.Errorf("the new connection was told to leave %d times", moved.left)
		}
	})
}
