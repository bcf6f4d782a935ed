package node

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// Only what cannot be written is forgotten, of the program alone.
func TestProgramMappings(t *testing.T) {
	const maps = `00400000-010d0000 r-xp 00000000 fe:00 9977956                            /opt/pinfold
010d0000-01e43000 r--p 00cd0000 fe:00 9977956                            /opt/pinfold
01e43000-0239f000 rw-p 01a43000 fe:00 9977956                            /opt/pinfold
0239f000-02400000 r--p 00000000 fe:00 9977957                            /lib/opt/pinfold
02400000-02500000 ---p 00000000 fe:00 9977956                            /opt/pinfold
02500000-02500000 r--p 00000000 fe:00 9977956                            /opt/pinfold
x-y r--p 00000000 fe:00 9977956                                          /opt/pinfold
c000000000-c004000000 rw-p 00000000 00:00 0 
7ffd0000-7ffe0000 r-xp 00000000 00:00 0                                  [vdso]
`
	want := []mapping{{0x400000, 0x10d0000}, {0x10d0000, 0x1e43000}}
	if got := programMappings(strings.NewReader(maps), "/opt/pinfold"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// A mapping with a page that is not as in the file is kept.
func TestChangedPages(t *testing.T) {
	size := uintptr(os.Getpagesize())
	for _, c := range []struct {
		pages []uint64
		want  bool
	}{
		{[]uint64{0, pagePresent | pageOfFile, 0}, false},
		{[]uint64{pagePresent | pageOfFile, pagePresent, 0}, true},
		{[]uint64{0, 0, pageSwapped}, true},
		{[]uint64{0, 0}, true}, // cannot be read
	} {
		pagemap := new(bytes.Buffer)
		for _, p := range append([]uint64{pagePresent}, c.pages...) { // the first is before the mapping
			_ = binary.Write(pagemap, binary.NativeEndian, p) // into memory
		}
		if got := changed(bytes.NewReader(pagemap.Bytes()), mapping{size, 4 * size}); got != c.want {
			t.Errorf("%x: %v", c.pages, got)
		}
	}
	if !changed(io.NewSectionReader(nil, 0, 0), mapping{size, 2 * size}) {
		t.Error("what cannot be read is taken for unchanged")
	}
}

// The program goes on after it has forgotten its pages, which is true of this one.
func TestForgetProgram(t *testing.T) {
	if forgetProgram() == 0 {
		t.Skip("the system does not tell where the program is")
	}
	if forgetProgram() == 0 {
		t.Error("nothing is forgotten a second time")
	}
}
