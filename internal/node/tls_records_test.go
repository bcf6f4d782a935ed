package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A large reply comes in records of 16 KiB, from the first one on: small ones would cost the server and the client a seal,
// and a system call, for each 1.4 KB.
func TestLargeRepliesComeInFullRecords(t *testing.T) {
	s := startSecured(t, nil)
	var received recording
	c, err := client.Dial(t.Context(), s.SecureAddr().String(), client.TLS(s.config(true)),
		client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			received.Conn = nc
			return &received, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const size = 160 << 10
	if _, err := c.Create(t.Context(), "/large", make([]byte, size), zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	before := len(received.records())
	if _, _, err := c.Get(t.Context(), "/large"); err != nil {
		t.Fatal(err)
	}
	const full = 16 << 10
	if got := received.records()[before:]; len(got) > size/full+2 { // one more for header and Stat, and one for a ping
		t.Errorf("records of %v bytes", got)
	}
}

// recording is a connection that keeps what it receives.
type recording struct {
	net.Conn
	mu  sync.Mutex
	all bytes.Buffer
}

func (r *recording) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Write(p[:n])
	return n, err
}

// records returns the lengths of the records that have come.
func (r *recording) records() (lengths []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const header = 5
	for b := r.all.Bytes(); len(b) >= header; {
		n := int(binary.BigEndian.Uint16(b[3:]))
		lengths = append(lengths, n)
		b = b[min(header+n, len(b)):]
	}
	return lengths
}
