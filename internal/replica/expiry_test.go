package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// TestNoSessionEndsBehindALongTurn: a server that was busy for longer than a session's
// timeout waits for signs of life before it ends the session; one that stays silent ends.
func TestNoSessionEndsBehindALongTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		op, body := createSession(4000)
		m.await(t, m.request(0, op, body))
		id := m.note.newSession()
		m.note.hear(m.rep.Now())
		alive := func() (yes bool) {
			m.rep.View(func(v View) { yes = v.HasSession(id) })
			return yes
		}
		m.rep.DumpSessions(func(SessionDump) { time.Sleep(10 * time.Second) }) // a turn of Order
		time.Sleep(10*time.Second + 300*time.Millisecond)
		m.note.hear(m.rep.Now())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !alive() {
			t.Error("the session was ended before its client could be heard")
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if alive() {
			t.Error("a session whose client is silent goes on")
		}
		if err := m.halt(); err != nil {
			t.Error(err)
		}
	})
}
