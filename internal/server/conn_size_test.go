package server

import (
	"testing"
	"unsafe"
)

// Each client costs a conn, also while it is idle. It has 896 bytes, a size of Go's allocator; the next one is 1,024.
// The allocator takes 8 of them for a header, as for each object with pointers of more than 512 bytes.
func TestSizeOfAConnection(t *testing.T) {
	const class, header = 896, 8
	if n := unsafe.Sizeof(conn{}); n > class-header {
		t.Errorf("a conn has %d bytes, more than %d: each connection costs 128 bytes more. What few connections need belongs "+
			"behind a pointer, as handshake and login; what a single turn needs belongs to its run", n, class-header)
	}
}
