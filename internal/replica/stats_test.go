package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

func TestLag(t *testing.T) {
	for _, c := range []struct {
		last, acked zk.Zxid
		want        int64
	}{
		{0, 0, 0}, {0x1_0000_0005, 0x1_0000_0005, 0}, {0x1_0000_0009, 0x1_0000_0005, 4},
		{0x2_0000_0003, 0x1_0000_0005, 3}, {0x1_0000_0005, 0x2_0000_0000, 0},
	} {
		if got := lag(c.last, c.acked); got != c.want {
			t.Errorf("from %v to %v: %d, want %d", c.acked, c.last, got, c.want)
		}
	}
}
