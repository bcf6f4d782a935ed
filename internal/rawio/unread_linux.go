package rawio

import (
	"syscall"
	"unsafe"
)

// Unread returns how many bytes of input a socket holds that were not read.
func Unread(fd uintptr) (int, error) {
	var n int32
	if _, _, errno := syscall.RawSyscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
