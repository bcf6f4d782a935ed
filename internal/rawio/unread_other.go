//go:build !linux

package rawio

import "syscall"

// Unread is syscall.ENOTSUP: the system is not asked.
func Unread(uintptr) (int, error) { return 0, syscall.ENOTSUP }
