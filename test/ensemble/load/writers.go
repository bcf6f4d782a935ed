package load

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// WritersConfig says how plain writers write: every client sends Batch sets at a
// time, Pause after it was answered the last.
type WritersConfig struct {
	Addrs   []string
	Clients int
	Batch   int
	Pause   time.Duration
	Znodes  int // that are written, each by one client
	Bytes   int // of data
}

// Writers are clients that only write, and note when each write was acknowledged.
// When a connection breaks they go to the next member at once. It is for
// measuring; nothing is checked.
type Writers struct {
	cfg    WritersConfig
	origin time.Time
	stop   chan struct{}
	wg     sync.WaitGroup
	acked  atomic.Int64

	mu   sync.Mutex
	acks []time.Duration // since origin, of batches
	err  error           // that no fault explains
}

const (
	writersRoot     = "/writers"
	writersTimeout  = 30 * time.Second
	writersPatience = 2 * time.Second
	writersRetry    = 2 * time.Millisecond
	fillBatch       = 200
)

// StartWriters makes the znodes and starts the clients.
func StartWriters(cfg WritersConfig) (*Writers, error) {
	w := &Writers{cfg: cfg, origin: time.Now(), stop: make(chan struct{})}
	if err := w.fill(); err != nil {
		return nil, err
	}
	for i := range cfg.Clients {
		w.wg.Go(func() { w.write(i) })
	}
	return w, nil
}

func writersPath(i int) string { return fmt.Sprintf("%s/%06d", writersRoot, i) }

// fill creates the znodes that are not there yet.
func (w *Writers) fill() error {
	defer company(client.New, w.cfg.Addrs)()
	s := client.New(writersTimeout, setupPatience)
	if err := s.Connect(w.cfg.Addrs[0]); err != nil {
		return err
	}
	replies, err := s.Do(client.Get(writersPath(w.cfg.Znodes - 1)))
	if err != nil {
		return err
	}
	if replies[0].Code == zk.OK {
		_, err := s.Close()
		return err
	}
	reqs := []client.Request{client.Create(writersRoot, nil, zk.Persistent)}
	for i := 0; i <= w.cfg.Znodes; i++ {
		if i == w.cfg.Znodes || len(reqs) == fillBatch {
			if replies, err = s.Do(reqs...); err != nil {
				return err
			}
			for _, r := range replies {
				if r.Code != zk.OK && r.Code != zk.ErrNodeExists {
					return fmt.Errorf("load: fill: %w", r.Code)
				}
			}
			reqs = nil
		}
		if i < w.cfg.Znodes {
			reqs = append(reqs, client.Create(writersPath(i), make([]byte, w.cfg.Bytes), zk.Persistent))
		}
	}
	_, err = s.Close()
	return err
}

// write is one client.
func (w *Writers) write(number int) {
	s := client.New(writersTimeout, writersPatience)
	at, next := number, number
	data := make([]byte, w.cfg.Bytes)
	for {
		select {
		case <-w.stop:
			if s.Connected() {
				_, err := s.Close()
				w.fail(err)
			}
			return
		default:
		}
		if !s.Connected() {
			at++
			if err := s.Connect(w.cfg.Addrs[at%len(w.cfg.Addrs)]); err != nil {
				<-time.After(writersRetry)
				continue
			}
		}
		var reqs []client.Request
		for range w.cfg.Batch {
			reqs = append(reqs, client.Set(writersPath(next%w.cfg.Znodes), data, -1))
			next += w.cfg.Clients
		}
		replies, _ := s.Do(reqs...) // an error closes the connection
		w.note(replies)
		if w.cfg.Pause > 0 {
			<-time.After(w.cfg.Pause)
		}
	}
}

// note enters acknowledged writes.
func (w *Writers) note(replies []client.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range replies {
		if r.Code == zk.OK {
			w.acked.Add(1)
			w.acks = append(w.acks, r.At.Sub(w.origin))
		}
	}
}

func (w *Writers) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
}

// Acked is how many writes have been acknowledged.
func (w *Writers) Acked() int64 { return w.acked.Load() }

// Stop ends the clients and their sessions.
func (w *Writers) Stop() error {
	close(w.stop)
	w.wg.Wait()
	return w.err
}

// LongestGap is the longest time within [from, to] in which no write was
// acknowledged, and when it began.
func (w *Writers) LongestGap(from, to time.Time) (gap time.Duration, began time.Time) {
	w.mu.Lock()
	acks := slices.Clone(w.acks)
	w.mu.Unlock()
	g, at := LongestGap(acks, from.Sub(w.origin), to.Sub(w.origin))
	return g, w.origin.Add(at)
}

// LongestGap returns the longest part of [from, to] without an ack, and when it
// begins. It sorts acks.
func LongestGap(acks []time.Duration, from, to time.Duration) (gap, began time.Duration) {
	slices.Sort(acks)
	last := from
	for _, a := range append(acks, to) {
		if a < from || a > to {
			continue
		}
		if a-last > gap {
			gap, began = a-last, last
		}
		last = a
	}
	return gap, began
}
