package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Of peers that are refused again and again one a second is worth a line, which
// says how many were not.
func TestRefusalsAreFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		m.rep.log = slog.New(slog.NewTextHandler(&out, nil))
		refuse := func(n int) {
			for range n {
				m.rep.order.logEvent(&zab.Event{Kind: zab.EventRefused, Peer: 7, Reason: "of another ensemble"})
			}
		}
		refuse(5)
		pass(refusalPeriod)
		refuse(2)
		text := out.String()
		if n := strings.Count(text, "refused"); n != 2 || !strings.Contains(text, "omitted=4") {
			t.Errorf("%d lines:\n%s", n, text)
		}
	})
}
