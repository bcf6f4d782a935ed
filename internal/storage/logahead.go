package storage

import (
	"errors"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// LogAhead is a LogReader that works in a goroutine of its own, ahead of who takes
// the transactions: it checks what the log has while the snapshot before it is
// loaded. It is owned by one goroutine.
type LogAhead struct {
	r     *LogReader // the goroutine's, until it has told an error
	ready chan logBatch
	spare chan logBatch
	stop  chan struct{} // closed by Close
	batch logBatch
	taken int // transactions of batch
}

// logBatch is a run of transactions, and the error that came after them.
type logBatch struct {
	payloads []byte
	ends     []int // of each transaction, in payloads
	err      error
}

const (
	logBatchBytes = 256 << 10
	batchesAhead  = 16
)

// ReadLogAhead is ReadLog, with a goroutine that reads beside the caller until the
// end of the log or Close. When it is as far ahead as it may be it reads the rest
// once and throws it away: then that is in the page cache, which the log was
// written past.
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

// prefetch reads what is left of the log, until Close. Errors it leaves to the
// reader.
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
		_ = f.Close() // nothing was written
	}
}

// errClosed is the error of a log reader that was closed.
var errClosed = errors.New("storage: the log reader is closed")

// Next is LogReader.Next.
func (a *LogAhead) Next() ([]byte, error) {
	for a.taken == len(a.batch.ends) {
		if a.batch.err != nil {
			return nil, a.batch.err
		}
		select {
		case a.spare <- a.batch:
		default:
		}
		a.batch, a.taken = <-a.ready, 0
	}
	begin := 0
	if a.taken > 0 {
		begin = a.batch.ends[a.taken-1]
	}
	end := a.batch.ends[a.taken]
	a.taken++
	return a.batch.payloads[begin:end:end], nil
}

// Tail is LogReader.Tail.
func (a *LogAhead) Tail() Tail { return a.r.Tail() }

// Gaps is LogReader.Gaps.
func (a *LogAhead) Gaps() (count int, first Gap) { return a.r.Gaps() }

// Close ends the goroutine and releases the file. It is called once.
func (a *LogAhead) Close() error {
	close(a.stop)
	for range a.ready {
	}
	return a.r.Close()
}
