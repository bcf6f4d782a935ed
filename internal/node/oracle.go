package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// oracle asks the oracle of an ensemble of two voters whether this server may go on without the
// other one: the first byte of a file, which is '1' if it may (zab/oracle.go).
type oracle struct {
	file    string // oraclePath
	period  time.Duration
	tell    func(permits bool)
	log     *slog.Logger
	permits bool
	failed  string // the last failure to read the file; "": it was read
}

// followOracle starts to ask the oracle again and again, if there is one. The returned function ends
// that. It does not wait for a file system that hangs.
func (n *Node) followOracle(ctx context.Context) (stop func()) {
	q := &n.o.Config.Quorum
	if q.OraclePath == "" || !q.Distributed() {
		return func() {}
	}
	// Twice a tick: a permission counts for two ticks.
	o := &oracle{file: q.OraclePath, period: n.o.Config.Session.Tick / 2, tell: n.replica.ConsultOracle, log: n.log}
	ctx, stop = context.WithCancel(ctx)
	go o.follow(ctx)
	return stop
}

// follow asks the oracle until ctx ends.
func (o *oracle) follow(ctx context.Context) {
	ticker := time.NewTicker(o.period)
	defer ticker.Stop()
	for {
		permits := o.ask()
		if ctx.Err() != nil {
			return
		}
		o.tell(permits)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ask returns what the oracle says now, and logs what is new. A file that cannot be read permits
// nothing.
func (o *oracle) ask() (permits bool) {
	first, err := firstByte(o.file)
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != o.failed && failed != "" {
		o.log.Warn("the oracle cannot be asked, so it permits nothing", "file", o.file, "err", err)
	}
	permits = err == nil && first == '1'
	switch {
	case permits && !o.permits:
		o.log.Warn("the oracle permits this server to go on without the other voter", "file", o.file)
	case !permits && o.permits:
		o.log.Info("the oracle does not permit this server any more to go on without the other voter", "file", o.file)
	}
	o.failed, o.permits = failed, permits
	return permits
}

// firstByte returns the first byte of a regular file, 0 if it is empty. Another kind of file could
// have its reader wait.
func firstByte(name string) (byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", name)
	}
	text, err := readFile(name, 0)
	if err != nil || len(text) == 0 {
		return 0, err
	}
	return text[0], nil
}
