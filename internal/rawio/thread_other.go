//go:build !(linux && (amd64 || arm64) && !race)

package rawio

import "time"

// Thread does not exist on this system, nor with the race detector, which cannot follow
// it: Start returns nil.
type Thread struct{}

// Quick is the longest time that a healthy disk needs.
const Quick = 2 * time.Millisecond

// Start returns nil.
func Start() *Thread { return nil }

// Begin is never called.
func (*Thread) Begin(uintptr, []byte, int64, uintptr, []byte) {}

// Await is never called.
func (*Thread) Await(bool) (bool, error) { return true, nil }

// Stop is never called.
func (*Thread) Stop() {}
