//go:build !linux

package node

// KeepMonitorAwake does nothing on this system.
func KeepMonitorAwake() (stop func()) { return func() {} }
