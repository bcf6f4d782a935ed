package node

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// forgetProgram takes out of the process's memory the pages of its own program file that it has used so
// far: code and constants, most of them of the start, or of the load that is over. They stay in the system's
// cache of files, and each comes back when it is next used. It returns how many bytes of addresses it has done
// that for, 0 if the system does not tell where the program is.
func forgetProgram() (bytes int) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return 0
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return 0
	}
	defer maps.Close() // read only, as pages
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return 0
	}
	defer pages.Close()
	for _, m := range programMappings(maps, exe) {
		if changed(pages, m) {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno == 0 {
			bytes += int(m.end - m.start)
		}
	}
	return bytes
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// programMappings returns the mappings of the file exe that are not writable in a text as of /proc/self/maps.
func programMappings(maps io.Reader, exe string) (list []mapping) {
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		addresses, rest, _ := strings.Cut(lines.Text(), " ")
		start, end, _ := strings.Cut(addresses, "-")
		if m := (mapping{address(start), address(end)}); m.start < m.end && strings.HasPrefix(rest, "r-") && strings.HasSuffix(rest, " "+exe) {
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

// Bits of an entry of /proc/self/pagemap, of 8 bytes.
const (
	pageOfFile  = 1 << 61 // or shared
	pageSwapped = 1 << 62
	pagePresent = 1 << 63
)

// changed reports whether a page of a mapping is not as in the file, as after a dynamic linker, or where a
// debugger has set a breakpoint: it would be lost. It is true as well if that cannot be read.
func changed(pagemap io.ReaderAt, m mapping) bool {
	size := uintptr(os.Getpagesize())
	entries := make([]byte, (m.end-m.start)/size*8)
	if _, err := pagemap.ReadAt(entries, int64(m.start/size*8)); err != nil {
		return true
	}
	for e := range slices.Chunk(entries, 8) {
		if bits := binary.NativeEndian.Uint64(e); bits&pageSwapped != 0 || bits&pagePresent != 0 && bits&pageOfFile == 0 {
			return true
		}
	}
	return false
}
