package storage

import (
	"errors"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// LogAhead is a LogReader that reads in a goroutine of its own, ahead of the caller, so
// that the log is checked while the snapshot before it is loaded. One goroutine owns
// it.
type LogAhead struct {
	r        *LogReader // owned by the reading goroutine until it has reported an error
	ready    chan logBatch
	spare    chan logBatch
	stop     chan struct{} // closed by Close
	batch    logBatch
	returned int // transactions of batch that Next has returned
}

// logBatch is a run of transactions, and the error that followed them.
type logBatch struct {
	payloads []byte
	ends     []int // end of each transaction, in payloads
	err      error
}

const (
	logBatchBytes = 256 << 10
	batchesAhead  = 16
)

// ReadLogAhead is ReadLog with a goroutine that reads until the end of the log or
// Close. When the goroutine is as far ahead as it may be, it reads the rest of the log
// once and discards it: this loads the page cache, which direct writes of the log do
// not fill.
func (d *Dir) ReadLogAhead(after zk.Zxid) (*LogAhead, error) {
	r, err := d.ReadLog(after)
	if err != nil {
		return nil, err
	}
	a := &LogAhead{
		r: r, ready: make(chan logBatch, batchesAhead), spare: make(chan logBatch, batchesAhead),
		stop: make(chan struct{}),
	}
	go a.read()
	return a, nil
}

func (a *LogAhead) read() {
	defer close(a.ready)
	for prefetched := false; ; {
		b := a.next()
		select {
		case a.ready <- b:
		default:
			if !prefetched {
				prefetched = true
				a.prefetch()
			}
			select {
			case a.ready <- b:
			case <-a.stop:
				return
			}
		}
		if b.err != nil {
			return
		}
	}
}

// next reads a batch.
func (a *LogAhead) next() (b logBatch) {
	select {
	case b = <-a.spare:
	default:
	}
	b.payloads, b.ends = b.payloads[:0], b.ends[:0]
	for len(b.payloads) < logBatchBytes && b.err == nil {
		var p []byte
		if p, b.err = a.r.Next(); b.err == nil {
			b.payloads = append(b.payloads, p...)
			b.ends = append(b.ends, len(b.payloads))
		}
	}
	return b
}

// prefetch reads the rest of the log, until Close. It ignores errors; the reader meets
// them again.
func (a *LogAhead) prefetch() {
	names := []string{a.r.name}
	for _, l := range a.r.files {
		names = append(names, path.Join(a.r.dir, l.name))
	}
	buf := make([]byte, 1<<20)
	for _, name := range names {
		f, err := a.r.fs.Open(name)
		if err != nil {
			return
		}
		for err == nil {
			select {
			case <-a.stop:
				err = errClosed
			default:
				_, err = f.Read(buf)
			}
		}
		_ = f.Close() // the file was only read
	}
}

// errClosed is the error of a log reader that was closed.
var errClosed = errors.New("storage: the log reader is closed")

// Next is LogReader.Next.
func (a *LogAhead) Next() ([]byte, error) {
	for a.returned == len(a.batch.ends) {
		if a.batch.err != nil {
			return nil, a.batch.err
		}
		select {
		case a.spare <- a.batch:
		default:
		}
		a.batch, a.returned = <-a.ready, 0
	}
	begin := 0
	if a.returned > 0 {
		begin = a.batch.ends[a.returned-1]
	}
	end := a.batch.ends[a.returned]
	a.returned++
	return a.batch.payloads[begin:end:end], nil
}

// Tail is LogReader.Tail.
func (a *LogAhead) Tail() Tail { return a.r.Tail() }

// Gaps is LogReader.Gaps.
func (a *LogAhead) Gaps() (count int, first Gap) { return a.r.Gaps() }

// Close stops the goroutine and releases the file. The caller calls it once.
func (a *LogAhead) Close() error {
	close(a.stop)
	for range a.ready {
	}
	return a.r.Close()
}
