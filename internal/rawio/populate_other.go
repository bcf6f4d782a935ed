//go:build !linux

package rawio

import "unsafe"

// populate can do nothing here.
func populate(unsafe.Pointer, uintptr) bool { return false }
