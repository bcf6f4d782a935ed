//go:build linux && !((amd64 || arm64) && !race)

package rawio

import "syscall"

// Commit writes all of p to a file at off, and syncs the file (fdatasync), by ordinary system
// calls: the race detector cannot follow others.
func Commit(fd uintptr, p []byte, off int64, _ bool) error {
	for len(p) > 0 {
		n, err := syscall.Pwrite(int(fd), p, off)
		switch {
		case err == syscall.EINTR:
			n = 0
		case err != nil:
			return err
		case n == 0:
			return syscall.EIO
		}
		p, off = p[n:], off+int64(n)
	}
	for {
		if err := syscall.Fdatasync(int(fd)); err != syscall.EINTR {
			return err
		}
	}
}

// CommitAside is Commit.
func CommitAside(fd uintptr, p []byte, off int64) error { return Commit(fd, p, off, false) }
