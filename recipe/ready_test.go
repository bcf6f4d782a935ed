package recipe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// readyOf is a configuration that takes several small transactions.
func readyOf(c AsyncClient) *ReadyConfig {
	r := NewReadyConfig(c, "/app/ready-config", ReadyOptions{})
	r.batchOps = 2
	return r
}

// shape is how many values a configuration has.
type shape int

// generation is a configuration whose values all say the same number. The even
// ones have a name less.
func (h shape) generation(number int) map[string][]byte {
	values := map[string][]byte{}
	for i := range int(h) - 1 + number%2 {
		values["key-"+strconv.Itoa(i)] = []byte(strconv.Itoa(number))
	}
	return values
}

// number is the generation of a configuration, or an error if it is none.
func (h shape) number(v ReadyValues) (int, error) {
	number, err := strconv.Atoi(string(v.Values["key-0"]))
	want := h.generation(number)
	if err != nil || maps.EqualFunc(v.Values, want, slices.Equal) {
		return number, err
	}
	maps.DeleteFunc(v.Values, func(name string, data []byte) bool { return slices.Equal(data, want[name]) })
	return number, fmt.Errorf("half-written: %d are %d, but %.999q", len(want), number, v.Values)
}

func TestReadyWithLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		size := shape(5)
		a, b := readyOf(s.Client(t)), readyOf(s.Client(t))
		w := &seen{end: make(chan error, 1)}
		reader := readyOf(s.Client(t))
		go func() {
			w.end <- reader.Watch(ctx, func(v ReadyValues) {
				number, err := size.number(v)
				if err != nil {
					t.Error(err)
				}
				w.add(strconv.Itoa(number))
			})
		}()
		settle()
		var last zk.Zxid
		for number, c := range []*ReadyConfig{a, b, a} {
			must(t, c.Set(ctx, size.generation(number), zk.Zxid(10+number)))
			v, err := b.Get(ctx)
			must(t, err)
			got, err := size.number(v)
			if err != nil || got != number || v.Zxid <= last {
				t.Errorf("generation %d is %d, zxid %v after %v: %v", number, got, v.Zxid, last, err)
			}
			last = v.Zxid
			settle()
		}
		wantErr(t, b.Set(ctx, size.generation(9), 11), ErrStale)
		settle()
		if want := []string{"0", "1", "2"}; !slices.Equal(w.list, want) {
			t.Errorf("the watcher saw %q", w.list)
		}
	})
}

// However far a writer has come when it dies, readers have the whole configuration
// of before, or none until another writer has set it.
func TestReadyWriterDies(t *testing.T) {
	size := shape(5)
	for skip := 0; ; skip++ {
		lost := 0
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			must(t, readyOf(s.Client(t)).Set(ctx, size.generation(1), 0))
			s.LoseAnswer(wire.OpMulti, skip)
			dies := s.Client(t)
			err := readyOf(&mortal{dies, s, dies.SessionID()}).Set(ctx, size.generation(2), 0)
			lost = s.Lost()
			if lost == 0 {
				must(t, err)
				return
			}
			wantErr(t, err, zk.ErrSessionExpired)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			v, err := readyOf(s.Client(t)).Get(short)
			if err == nil {
				_, err = size.number(v)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after answer %d: %v", skip, err)
			}
			must(t, readyOf(s.Client(t)).Set(ctx, size.generation(3), 0))
			v, err = readyOf(s.Client(t)).Get(ctx)
			must(t, err)
			if number, err := size.number(v); err != nil || number != 3 {
				t.Errorf("the next one is %d, %v", number, err)
			}
		})
		if t.Failed() || lost == 0 {
			if skip < 4 {
				t.Errorf("the writer died only %d times", skip)
			}
			return
		}
	}
}

// mortal is a Client whose session ends when it looks at what a lost answer has
// done.
type mortal struct {
	AsyncClient
	s  *inproc.Server
	id zk.SessionID
}

func (m *mortal) Sync(ctx context.Context, path string) error {
	if m.s.Lost() > 0 {
		m.s.Expire(m.id)
	}
	return m.AsyncClient.Sync(ctx, path)
}

// Of two writers at once one wins; readers see whole configurations, in an order
// that never goes back, while connections break and the server restarts.
func TestReadyWritersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		const writers, readers, rounds = 3, 3, 15
		size := shape(25)
		var group, reading sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range writers {
			w := readyOf(s.Client(t))
			group.Go(func() {
				for round := range rounds {
					err := w.Set(ctx, size.generation(100*i+round), 0)
					if err != nil && !errors.Is(err, ErrSuperseded) {
						t.Errorf("writer %d: %v", i, err)
					}
					if err == nil {
						mu.Lock()
						won++
						mu.Unlock()
						time.Sleep(300 * time.Millisecond)
					}
				}
			})
		}
		reads := 0
		for range readers {
			r := readyOf(s.Client(t))
			reading.Go(func() {
				var last zk.Zxid
				for ctx.Err() == nil {
					v, err := r.Get(ctx)
					if err != nil {
						wantCancelled(t, err)
						return
					}
					if _, err := size.number(v); err != nil || v.Zxid < last {
						t.Errorf("%v after %v: %v", v.Zxid, last, err)
					}
					last = v.Zxid
					mu.Lock()
					reads++
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		for i := range 8 {
			time.Sleep(200 * time.Millisecond)
			if i == 5 {
				s.Restart()
			} else {
				s.LoseAnswer(wire.OpMulti, i)
			}
			time.Sleep(200 * time.Millisecond)
			s.Cut()
		}
		group.Wait()
		cancel()
		reading.Wait()
		if won < rounds || reads < rounds {
			t.Errorf("%d configurations were set, %d read", won, reads)
		}
	})
}

func wantCancelled(t *testing.T, err error) {
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A reader that has begun before the writer does not use what it reads in between.
func TestReadyChangedWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		size := shape(20)
		w := readyOf(s.Client(t))
		must(t, w.Set(ctx, size.generation(1), 0))
		r := &interrupted{AsyncClient: s.Client(t), before: func() { must(t, w.Set(ctx, size.generation(2), 0)) }}
		v, err := readyOf(r).Get(ctx)
		must(t, err)
		if number, err := size.number(v); err != nil || number != 2 {
			t.Errorf("read %d, %v", number, err)
		}
	})
}

// interrupted is a Client during whose tenth read something else happens.
type interrupted struct {
	AsyncClient
	before func()
	reads  int
}

func (c *interrupted) GetAsync(ctx context.Context, path string, done func(data []byte, stat zk.Stat, err error)) {
	if c.reads++; c.reads == 10 {
		c.before()
	}
	c.AsyncClient.GetAsync(ctx, path, done)
}

func TestReadyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		c := s.Client(t)
		r := readyOf(c)
		for _, name := range []string{"", "a/b"} {
			if err := r.Set(ctx, map[string][]byte{name: nil}, 0); err == nil {
				t.Errorf("the name %q was taken", name)
			}
		}
		wantErr(t, r.Set(ctx, map[string][]byte{"large": make([]byte, 2<<20)}, 0), zk.ErrBadArguments)
		end := make(chan error, 1)
		go func() {
			_, err := r.Get(ctx)
			end <- err
		}()
		settle()
		cancel()
		wantErr(t, <-end, context.Canceled)
		ctx = context.Background()
		must(t, r.Set(ctx, nil, 0))
		if v, err := r.Get(ctx); err != nil || len(v.Values) > 0 || v.Zxid == 0 {
			t.Errorf("an empty configuration: %+v, %v", v, err)
		}
		_, err := c.Set(ctx, "/app/ready-config/writer", []byte("nonsense"), -1)
		must(t, err)
		if err := r.Set(ctx, nil, 0); err == nil {
			t.Error("a writer that says nonsense was taken")
		}
	})
}

// The paper's example: 5,000 znodes, 2 milliseconds each way. One after the other
// they would take 20 seconds; pipelined they take less than one.
func TestReadyFiveThousandInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		dial := client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := s.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return farAway(nc, 2*time.Millisecond), nil
		})
		size := shape(5000)
		w := NewReadyConfig(s.Client(t, dial), "/config", ReadyOptions{})
		r := NewReadyConfig(s.Client(t, dial), "/config", ReadyOptions{})
		for number := range 2 {
			start := time.Now()
			must(t, w.Set(ctx, size.generation(number), 0))
			set := time.Since(start)
			v, err := r.Get(ctx)
			must(t, err)
			if got, err := size.number(v); err != nil || got != number {
				t.Errorf("read %d, %v", got, err)
			}
			if read := time.Since(start) - set; set > time.Second/2 || read > time.Second/2 || set < 4*time.Millisecond {
				t.Errorf("set in %v, read in %v", set, read)
			}
		}
	})
}

// delayed is a connection whose bytes come later.
type delayed struct {
	net.Conn
	delay    time.Duration
	up, down chan late
	rest     []byte
	gone     chan struct{}
	once     sync.Once
}

type late struct {
	at   time.Time
	data []byte
}

func farAway(nc net.Conn, delay time.Duration) net.Conn {
	d := &delayed{Conn: nc, delay: delay, up: make(chan late, 1<<16), down: make(chan late, 1<<16), gone: make(chan struct{})}
	go func() {
		for {
			select {
			case l := <-d.up:
				<-time.After(time.Until(l.at))
				if _, err := nc.Write(l.data); err != nil {
					return
				}
			case <-d.gone:
				return
			}
		}
	}()
	go func() {
		defer close(d.down)
		for {
			b := make([]byte, 32<<10)
			n, err := nc.Read(b)
			if err != nil {
				return
			}
			d.down <- late{time.Now().Add(delay), b[:n]}
		}
	}()
	return d
}

func (d *delayed) Write(b []byte) (int, error) {
	select {
	case d.up <- late{time.Now().Add(d.delay), slices.Clone(b)}:
		return len(b), nil
	case <-d.gone:
		return 0, net.ErrClosed
	}
}

func (d *delayed) Read(b []byte) (int, error) {
	if len(d.rest) == 0 {
		l, ok := <-d.down
		if !ok {
			return 0, net.ErrClosed
		}
		<-time.After(time.Until(l.at))
		d.rest = l.data
	}
	n := copy(b, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

func (d *delayed) Close() error {
	d.once.Do(func() { close(d.gone) })
	return d.Conn.Close()
}

// unheard is a Client whose requests behind its first list of children are lost with
// the connection, and during whose second sync after that something else happens.
type unheard struct {
	AsyncClient
	lose  func()
	then  func()
	once  sync.Once
	lost  bool
	syncs int
}

func (u *unheard) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	names, stat, err := u.AsyncClient.Children(ctx, path)
	u.once.Do(func() {
		u.lost = true
		u.lose()
	})
	return names, stat, err
}

func (u *unheard) Sync(ctx context.Context, path string) error {
	if u.lost {
		if u.syncs++; u.syncs == 2 {
			u.then()
		}
	}
	return u.AsyncClient.Sync(ctx, path)
}

// Who looks for what a lost answer said, while another begins to set the
// configuration, is told of that, and not that its session is over.
func TestReadyIsSupersededWhileItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		var shut atomic.Bool
		c := s.Client(t, client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.Dial(ctx, network, addr)
			return deafServer{conn, &shut}, err
		}))
		other := NewReadyConfig(s.Client(t), "/config", ReadyOptions{})
		u := &unheard{AsyncClient: c}
		u.lose = func() {
			shut.Store(true)
			time.AfterFunc(time.Second, func() {
				shut.Store(false)
				s.Cut()
			})
		}
		u.then = func() { must(t, other.Set(ctx, map[string][]byte{"a": []byte("theirs")}, 0)) }
		r := NewReadyConfig(u, "/config", ReadyOptions{})
		wantErr(t, r.Set(ctx, map[string][]byte{"a": nil}, 0), ErrSuperseded)
	})
}
