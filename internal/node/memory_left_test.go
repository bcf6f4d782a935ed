package node

import (
	"math"
	"testing"
)

func TestMemoryLeft(t *testing.T) {
	const kb = 1 << 10
	meminfo := "MemTotal:       16000 kB\nMemFree:         100 kB\nMemAvailable:    5000 kB\nHugePages_Total:  0\n"
	if got, want := leftOfMachine(meminfo), int64(4000*kb); got != want {
		t.Errorf("of the machine %d bytes are left, want %d", got, want)
	}
	if got := leftOfMachine("nothing"); got != math.MaxInt64 {
		t.Errorf("of an unknown machine %d bytes are left", got)
	}
	for _, c := range []struct {
		most, current, stat string
		left                int64
	}{
		{"max\n", "5000\n", "", math.MaxInt64},
		{"", "", "", math.MaxInt64},
		{"16000\n", "5000\n", "anon 1\ninactive_file 1000\nactive_file 2000\n", 11000},
		{"16000\n", "15500\n", "anon 1\n", -500},
	} {
		if got := leftOfGroup(c.most, c.current, c.stat); got != c.left {
			t.Errorf("of a group of %q with %q, %q, %d bytes are left, want %d", c.most, c.current, c.stat, got, c.left)
		}
	}
	for text, want := range map[string]string{
		"0::/system.slice/pinfold.service\n": "/system.slice/pinfold.service", "0::/\n": "/", "": "/",
		"3:memory:/old\n0::/../sibling\n": "/sibling",
	} {
		if got := groupOf(text); got != want {
			t.Errorf("%q is the group %q, want %q", text, got, want)
		}
	}
	if got := memoryLeft(); got <= 0 {
		t.Errorf("here %d bytes are left", got)
	}
}
