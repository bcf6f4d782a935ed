//go:build !linux

package node

// KeepMonitorAwake does nothing on this system.
func KeepMonitorAwake(func(again bool)) (stop func()) { return func() {} }
