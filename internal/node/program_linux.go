package node

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetProgram takes out of the process's memory the pages of its own program file that it has used so
// far: code and constants, two thirds of them of the start alone. They stay in the system's cache of files, and
// each comes back when it is next used. It returns how many bytes of addresses it has called the system for, 0 if
// the system does not tell where the program is.
func forgetProgram() (bytes uintptr) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0
	}
	defer f.Close() // read only
	for _, m := range programMappings(f, exe) {
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno == 0 {
			bytes += m.end - m.start
		}
	}
	return bytes
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// programMappings returns the mappings of the file exe in a text as of /proc/self/smaps that can be
// read from the file again at any time: not writable, and without a page that was changed before it
// became so, as a dynamic linker does.
func programMappings(smaps io.Reader, exe string) (list []mapping) {
	var m mapping // a zero value: not one of the program's
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), " ")
		if start, end, ok := strings.Cut(name, "-"); ok {
			m = mapping{}
			if mode, _, _ := strings.Cut(rest, " "); strings.HasPrefix(mode, "r-") && strings.HasSuffix(rest, " "+exe) {
				m = mapping{address(start), address(end)}
			}
		} else if name == "Anonymous:" && strings.TrimSpace(rest) == "0 kB" && m.start < m.end {
			list = append(list, m)
		}
	}
	return list
}

// address parses a hexadecimal address; 0 if it is none.
func address(s string) uintptr {
	n, _ := strconv.ParseUint(s, 16, strconv.IntSize)
	return uintptr(n)
}
