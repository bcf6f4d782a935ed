package rawio

import (
	"bytes"
	"testing"
)

// Populate changes nothing, whatever the slice begins and ends with.
func TestPopulate(t *testing.T) {
	b := bytes.Repeat([]byte{7}, 1<<20)
	for _, part := range [][]byte{b, b[:0], nil, b[1:], b[4095:4097], b[5:100], b[1 : 1<<19], b[len(b)-1:]} {
		Populate(part)
	}
	if !bytes.Equal(b, bytes.Repeat([]byte{7}, 1<<20)) {
		t.Error("the content has changed")
	}
}
