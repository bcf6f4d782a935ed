//go:build !linux

package node

// KeepMonitorAwake does nothing on this system.
func KeepMonitorAwake(func(again bool) (began bool), <-chan struct{}) (stop func()) { return func() {} }
