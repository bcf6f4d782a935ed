package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
	"github.com/pinfold-zk/pinfold/zk"
)

// What an innocent client does. The session lasts as long as the servers of the tests
// grant at least.
const (
	innocentTimeout = 4 * time.Second
	readEvery       = 10 * time.Millisecond
	writeEvery      = 50 * time.Millisecond
	innocentDial    = 30 * time.Second
)

// A sample is an operation that succeeded: when, in nanoseconds of the wall clock, and
// how long it took.
type sample struct {
	At   int64
	Took time.Duration
}

// A witness is what an innocent client reports in the end.
type witness struct {
	Session   zk.SessionID
	Reads     []sample
	Writes    []sample
	Ticks     []sample // of no operation: their gaps are the machine's own
	Suspended int      // connections lost
	Lost      string   // why the session counts as lost, "" if it is kept
	Wrong     []string // answers that were not right
}

// innocentMain is the process of an innocent client. It has an ephemeral znode, into
// which it writes a number that grows. It prints "ready", goes on until its input ends,
// and prints its witness as JSON.
func innocentMain(addrs []string, home int, in io.Reader, out io.Writer) error {
	w := &innocent{path: fmt.Sprintf("/innocent-%d", home), stop: make(chan struct{})}
	if err := w.begin(addrs, home); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	_, _ = io.Copy(io.Discard, in) // the input ends with the attack, or with the parent
	close(w.stop)
	w.judge()
	_ = w.c.Close() // the session may be over
	w.wg.Wait()
	return json.NewEncoder(out).Encode(&w.witness)
}

// innocent is the state of innocentMain.
type innocent struct {
	path   string
	c      *client.Client
	stop   chan struct{}
	wg     sync.WaitGroup
	asked  atomic.Int64 // the last number that was sent
	acked  atomic.Int64 // the last that was acknowledged
	mu     sync.Mutex   // guards the lists of witness
	ending atomic.Bool
	witness
}

func (w *innocent) begin(addrs []string, home int) error {
	ctx, cancel := context.WithTimeout(context.Background(), innocentDial)
	defer cancel()
	var err error
	if w.c, err = client.Dial(ctx, "", client.SessionTimeout(innocentTimeout), client.Hosts(cluster.InTurn(addrs, home))); err != nil {
		return fmt.Errorf("hostile: innocent client: %w", err)
	}
	if _, err = w.c.Create(ctx, w.path, []byte("0"), zk.Ephemeral, nil); err != nil {
		return fmt.Errorf("hostile: innocent client: %w", err)
	}
	w.Session = w.c.SessionID()
	states, _ := w.c.States()
	w.wg.Go(func() {
		for s := range states {
			if s == client.Suspended && !w.ending.Load() {
				w.Suspended++
			}
		}
	})
	w.repeat(readEvery, &w.Reads, w.read)
	w.repeat(writeEvery, &w.Writes, w.write)
	w.repeat(readEvery, &w.Ticks, func(context.Context) error { return nil })
	return nil
}

// repeat runs an operation every so often until the end, and enters those that succeed.
func (w *innocent) repeat(every time.Duration, list *[]sample, operation func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	w.wg.Go(func() { <-w.stop; cancel() })
	w.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			began := time.Now()
			err := operation(ctx)
			if now := time.Now(); err == nil {
				w.mu.Lock()
				*list = append(*list, sample{now.UnixNano(), now.Sub(began)})
				w.mu.Unlock()
			} else if errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, client.ErrClosed) {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
}

func (w *innocent) write(ctx context.Context) error {
	n := w.asked.Add(1)
	_, err := w.c.Set(ctx, w.path, strconv.AppendInt(nil, n, 10), -1)
	if err == nil {
		w.acked.Store(n)
	}
	return w.told("set", err)
}

func (w *innocent) read(ctx context.Context) error {
	least := w.acked.Load()
	data, _, err := w.c.Get(ctx, w.path)
	if err != nil {
		return w.told("get", err)
	}
	most := w.asked.Load()
	if n, err := strconv.ParseInt(string(data), 10, 64); err != nil || n < least || n > most {
		w.wrong("get returned %q, want a number from %d to %d", data, least, most)
	}
	return nil
}

// told enters an error that no attack excuses, and returns err.
func (w *innocent) told(what string, err error) error {
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.lose("%s: the ephemeral znode is gone", what)
	case errors.Is(err, zk.ErrSessionExpired):
		w.lose("%s: %v", what, err)
	case err == nil, errors.Is(err, zk.ErrConnectionLoss), errors.Is(err, context.Canceled), errors.Is(err, client.ErrClosed):
	default:
		w.wrong("%s: %v", what, err)
	}
	return err
}

func (w *innocent) lose(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Lost == "" {
		w.Lost = fmt.Sprintf(format, args...)
	}
}

// maxWrong bounds what a witness tells of wrong answers.
const maxWrong = 10

func (w *innocent) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.Wrong) < maxWrong {
		w.Wrong = append(w.Wrong, fmt.Sprintf(format, args...))
	}
}

// judge looks whether the ephemeral is there and still the session's.
func (w *innocent) judge() {
	w.ending.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), innocentDial)
	defer cancel()
	stat, exists, err := w.c.Exists(ctx, w.path)
	switch {
	case err != nil:
		w.lose("in the end: %v", err)
	case !exists:
		w.lose("in the end the ephemeral znode is gone")
	case zk.SessionID(stat.EphemeralOwner) != w.Session:
		w.lose("in the end the ephemeral znode is another session's")
	}
}

// An innocentProcess is the parent's side of innocentMain.
type innocentProcess struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

// startInnocent starts an innocent client at the member with the index home, and waits
// until it has its session.
func startInnocent(addrs []string, home int) (*innocentProcess, error) {
	p := &innocentProcess{cmd: exec.Command(os.Args[0], "-innocent", strings.Join(addrs, ","), "-home", strconv.Itoa(home))}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := p.out.ReadString('\n'); line != "ready\n" {
		_ = p.cmd.Process.Kill()
		return nil, fmt.Errorf("hostile: the innocent client says %q: %w", line, errors.Join(err, p.cmd.Wait()))
	}
	return p, nil
}

// finish ends the client and returns what it has seen.
func (p *innocentProcess) finish() (*witness, error) {
	_ = p.in.Close() // an error means that it has ended, which Wait tells
	var w witness
	err := json.NewDecoder(p.out).Decode(&w)
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		return nil, fmt.Errorf("hostile: innocent client: %w", err)
	}
	return &w, nil
}

// gap is the longest time within [from, to] without a sample, and when it began.
func gap(list []sample, from, to time.Time) (longest, at time.Duration) {
	longest, began := load.LongestGap(times(list), time.Duration(from.UnixNano()), time.Duration(to.UnixNano()))
	return longest, began - time.Duration(from.UnixNano())
}

func times(list []sample) (at []time.Duration) {
	for _, s := range list {
		at = append(at, time.Duration(s.At))
	}
	return at
}

// p99 is the 99th percentile of what the operations took that ended within [from, to].
func p99(list []sample, from, to time.Time) time.Duration {
	var took []time.Duration
	for _, s := range list {
		if s.At >= from.UnixNano() && s.At <= to.UnixNano() {
			took = append(took, s.Took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)-1)*99/100]
}

// noticeable is the least gap that counts as an interruption of the service.
const noticeable = time.Second

// back is how long after end the last interruption of the service ended that lasted
// until end or began later; 0 if there is none.
func back(list []sample, end, done time.Time) time.Duration {
	at := times(list)
	slices.Sort(at)
	last, worst := time.Duration(0), time.Duration(0)
	stop, until := time.Duration(end.UnixNano()), time.Duration(done.UnixNano())
	at = slices.DeleteFunc(at, func(a time.Duration) bool { return a > until })
	for _, a := range append(at, until) {
		if last > 0 && a > stop && a-last >= noticeable {
			worst = a - stop
		}
		last = a
	}
	return worst
}

func TestBackAndGap(t *testing.T) {
	origin := time.Unix(1000, 0)
	at := func(ms ...int) (list []sample) {
		for _, n := range ms {
			list = append(list, sample{origin.Add(time.Duration(n) * time.Millisecond).UnixNano(), time.Duration(n)})
		}
		return list
	}
	end, done := origin.Add(2*time.Second), origin.Add(4*time.Second)
	for _, c := range []struct {
		list      []sample
		back, gap time.Duration
	}{
		{at(1, 400, 800, 1200, 1600, 1999, 2400, 2800, 3200, 3600, 3999), 0, 401},
		{at(1, 400, 1300, 2300, 2700, 3100, 3500, 3900), 300, 1000}, // lasted beyond the end
		{at(1, 1500, 1900, 2300, 3400, 3900, 5900), 1400, 1499},     // once more later
		{at(1), 2000, 2000 + 1999},                                  // never back
	} {
		if got := back(c.list, end, done); got != c.back*time.Millisecond {
			t.Errorf("%v: back after %v, want %d ms", times(c.list), got, c.back)
		}
		if got, _ := gap(c.list, origin, done); got < c.gap*time.Millisecond || got > (c.gap+2)*time.Millisecond {
			t.Errorf("%v: gap %v, want %d ms", times(c.list), got, c.gap)
		}
	}
	if got := p99(at(1, 2, 3, 4), origin, done); got != 3 {
		t.Errorf("p99 %v", got)
	}
}
