package load

import (
	"errors"
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

// fill creates the znodes that are not there yet, by a session at each member.
func (w *Writers) fill() error {
	defer company(client.New, w.cfg.Addrs)()
	replies, err := w.ask(0, client.Create(writersRoot, nil, zk.Persistent), client.Get(writersPath(w.cfg.Znodes-1)))
	if err != nil || replies[1].Code == zk.OK {
		return err
	}
	n := len(w.cfg.Addrs)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = w.create(i, i*w.cfg.Znodes/n, (i+1)*w.cfg.Znodes/n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ask has requests answered by a member, in a session of their own.
func (w *Writers) ask(at int, reqs ...client.Request) ([]client.Reply, error) {
	s := client.New(writersTimeout, setupPatience)
	if err := s.Connect(w.cfg.Addrs[at]); err != nil {
		return nil, err
	}
	replies, err := s.Do(reqs...)
	if err != nil {
		return nil, err
	}
	_, err = s.Close()
	return replies, err
}

// create creates the znodes with the numbers from first until end, at a member.
func (w *Writers) create(at, first, end int) error {
	s := client.New(writersTimeout, setupPatience)
	if err := s.Connect(w.cfg.Addrs[at]); err != nil {
		return err
	}
	for first < end {
		var reqs []client.Request
		for ; first < end && len(reqs) < fillBatch; first++ {
			reqs = append(reqs, client.Create(writersPath(first), make([]byte, w.cfg.Bytes), zk.Persistent))
		}
		replies, err := s.Do(reqs...)
		if err != nil {
			return err
		}
		for _, r := range replies {
			if r.Code != zk.OK && r.Code != zk.ErrNodeExists {
				return fmt.Errorf("load: fill: %w", r.Code)
			}
		}
	}
	_, err := s.Close()
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
