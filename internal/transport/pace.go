package transport

import (
	"context"
	"time"
)

// strangerBytesPerSecond is the pace at which this server reads the long notifications of servers that are not in the
// configuration. Their length is that of the configuration in them, which takes several times as long
// to be read as its bytes do to arrive. A server that joins sends a few kilobytes.
const strangerBytesPerSecond = 1 << 20

// pace has those that call wait take turns: the one whose turn it is waits for as long as its bytes
// take at a rate. Its zero value cannot be used.
type pace struct{ turn chan struct{} }

func newPace() pace { return pace{make(chan struct{}, 1)} }

// wait waits for the caller's turn and then for as long as size bytes take. It ends early when gone is closed, or ctx ends.
func (p pace) wait(ctx context.Context, size int, gone <-chan struct{}) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-gone:
		return
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(time.Duration(size) * time.Second / strangerBytesPerSecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-ctx.Done():
	}
}
