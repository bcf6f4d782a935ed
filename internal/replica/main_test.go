package replica

import (
	"os"
	"runtime/debug"
	"testing"
)

// The tests open thousands of logs, each with buffers that are garbage soon: collecting
// them at the usual pace would take half of the time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
