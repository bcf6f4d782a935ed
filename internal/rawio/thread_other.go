//go:build !(linux && (amd64 || arm64) && !race)

package rawio

// Thread does not exist on this system, nor with the race detector, which cannot follow
// it: Start returns nil.
type Thread struct{}

// Start returns nil.
func Start(func()) *Thread { return nil }

// Begin is never called.
func (*Thread) Begin(uintptr, []byte, int64, uintptr, []byte) {}

// Await is never called.
func (*Thread) Await(bool) (bool, error) { return true, nil }

// Stop is never called.
func (*Thread) Stop() {}
