package transport

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Servers that are not in the configuration send long notifications at one pace together: as many bytes in a second
// as strangerBytesPerSecond. Members' notifications and short ones do not wait for them, and a link that
// ends while its notification waits holds nothing up.
func TestStrangersSendLongNotificationsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		n := m.start(t, 2, 3)
		long := frameOf(strings.Repeat("x", strangerBytesPerSecond/4))
		const strangers, each = 8, 10
		links := make([]net.Conn, strangers)
		for i := range links {
			links[i] = m.connect(t, electionAddr(2))
			go func() {
				if _, err := links[i].Write(helloV1Of(int64(77 + i))); err != nil {
					return
				}
				for range each {
					if _, err := links[i].Write(long); err != nil {
						return
					}
				}
			}()
		}
		heard := func() (count int) {
			for i := range links {
				count += len(n.heard(int64(77 + i)))
			}
			return count
		}
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if got := heard(); got != 8 {
			t.Errorf("%d long notifications of strangers were heard in 2 s, and not 8", got)
		}
		member := m.connect(t, electionAddr(2))
		say(t, member, helloV1Of(3), long)
		short := m.connect(t, electionAddr(2))
		say(t, short, helloV1Of(99), frameOf("short"))
		synctest.Wait()
		if got := len(n.heard(3)); got != 1 {
			t.Errorf("%d notifications of a member were heard", got)
		}
		if got := n.heard(99); len(got) != 1 {
			t.Errorf("%q of a stranger were heard", got)
		}
		for _, nc := range links[1:] {
			nc.Close()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if got := len(n.heard(77)); got < 5 {
			t.Errorf("%d notifications of the stranger that is left were heard in 3 s", got)
		}
	})
}
