package node

import (
	"context"
	"sync"
	"time"
)

// filesPeriod is the time between two reads of the files that a running server reads again.
const filesPeriod = 2 * time.Second

// followFiles starts to read the file of limits and the files with passwords again and again, if
// there are any. The returned function ends that, and waits for the end.
func (n *Node) followFiles(ctx context.Context) (stop func()) {
	if n.limits == nil && len(n.passwords.files) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(n.period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				n.refreshFiles()
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

func (n *Node) refreshFiles() {
	if n.limits != nil {
		n.limits.refresh(n.server)
	}
	n.passwords.refresh()
}
