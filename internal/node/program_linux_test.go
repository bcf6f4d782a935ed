package node

import (
	"slices"
	"strings"
	"testing"
)

// Only what can be read from the program's file again is forgotten.
func TestProgramMappings(t *testing.T) {
	const smaps = `00400000-010d0000 r-xp 00000000 fe:00 9977956                            /opt/pinfold
Rss:               10240 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
010d0000-01e43000 r--p 00cd0000 fe:00 9977956                            /opt/pinfold
Anonymous:             0 kB
01e43000-01e53000 r--p 00cd0000 fe:00 9977956                            /opt/pinfold
Anonymous:             8 kB
01e53000-0239f000 rw-p 01a43000 fe:00 9977956                            /opt/pinfold
Anonymous:             0 kB
0239f000-02400000 r--p 00000000 fe:00 9977957                            /lib/opt/pinfold2
Anonymous:             0 kB
02400000-02500000 ---p 00000000 fe:00 9977956                            /opt/pinfold
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
7ffd0000-7ffe0000 r-xp 00000000 00:00 0                                  [vdso]
Anonymous:             0 kB
`
	want := []mapping{{0x400000, 0x10d0000}, {0x10d0000, 0x1e43000}}
	if got := programMappings(strings.NewReader(smaps), "/opt/pinfold"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// The program goes on after it has forgotten its pages.
func TestForgetProgram(t *testing.T) {
	if n := forgetProgram(); n == 0 {
		t.Skip("the system does not tell where the program is")
	}
	if got := programMappings(strings.NewReader("400000-500000 r-xp 0 0 0 /x\nAnonymous: 0 kB\n"), "/x"); len(got) != 1 {
		t.Errorf("%x", got)
	}
}
