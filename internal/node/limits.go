package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/server"
)

// limitsPeriod is the time between two reads of the file of limits.
const limitsPeriod = 2 * time.Second

// limitsFile is the file of limits of a server that runs. The server uses the last
// content that could be read and is correct.
type limitsFile struct {
	name   string
	period time.Duration // between two reads
	log    *slog.Logger
	text   []byte // that was read last, whether it is correct or not
	failed string // the last failure to read the file; "": it was read
}

// openLimits reads the limits that the configuration names. It returns nil if it names
// none.
func (n *Node) openLimits() (*ratelimit.File, error) {
	name := n.o.Config.Client.LimitsFile
	if name == "" {
		return nil, nil
	}
	f := &limitsFile{name: name, period: limitsPeriod, log: n.log}
	limits, _, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("server: limitsFile: %w", err)
	}
	n.limits = f
	return limits, nil
}

// read reads the file. changed is false if it has the content of the last call.
func (f *limitsFile) read() (limits *ratelimit.File, changed bool, err error) {
	text, err := readFile(f.name, ratelimit.MaxFileBytes)
	if err != nil {
		return nil, false, err
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return nil, false, nil
	}
	f.text = append([]byte{}, text...) // never nil
	if limits, err = ratelimit.Parse(text); err != nil {
		return nil, true, fmt.Errorf("%s: %w", f.name, err)
	}
	return limits, true, nil
}

// followLimits starts to read the file of limits again and again, if there is one. The
// returned function ends that, and waits for the end.
func (n *Node) followLimits(ctx context.Context) (stop func()) {
	if n.limits == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	n.limits.follow(ctx, &wg, n.server)
	return func() {
		cancel()
		wg.Wait()
	}
}

// follow gives s the limits of each new content of the file until ctx ends.
func (f *limitsFile) follow(ctx context.Context, wg *sync.WaitGroup, s *server.Server) {
	wg.Go(func() {
		ticker := time.NewTicker(f.period)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				f.refresh(s)
			}
		}
	})
}

// refresh reads the file, and gives s its limits if they have changed. A file that cannot
// be read, or is wrong, is reported once, and the earlier limits remain.
func (f *limitsFile) refresh(s *server.Server) {
	limits, changed, err := f.read()
	switch {
	case err != nil && (changed || err.Error() != f.failed):
		f.failed = err.Error()
		f.log.Error("the new limits are not used, the earlier ones remain: correct the file", "file", f.name, "err", err)
	case err == nil && changed:
		f.log.Info("the limits of sessions and identities have changed", "file", f.name)
		s.SetLimits(limits)
	}
	if err == nil {
		f.failed = ""
	}
}
