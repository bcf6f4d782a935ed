//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// listen serves connections with serve until the test ends.
func listen(t *testing.T, serve func(ctx context.Context, ln net.Listener) error) Options {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return Options{
		Servers: []string{ln.Addr().String()}, Pids: []int{os.Getpid()}, Loops: 2,
		Duration: 60 * time.Millisecond, Warmup: 20 * time.Millisecond,
	}
}

// A fake is a server with one goroutine per connection whose replies a test
// decides: answer returns whole frames to send back.
type fake struct {
	answer  func(w io.Writer, head wire.RequestHeader, body []byte) []byte
	connect func(wire.ConnectRequest) wire.ConnectResponse // or nil: all are welcome
}

func (f fake) serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		c, err := ln.Accept()
		if err != nil {
			return nil
		}
		wg.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			var request, response []byte
			for {
				if request, err = readFrameFrom(c, request); err != nil {
					return
				}
				if response == nil {
					r := wire.ConnectResponse{TimeoutMillis: 30000, SessionID: 1,
						Password: make([]byte, wire.PasswordLen)}
					if f.connect != nil {
						d := jute.NewDecoder(request)
						var asked wire.ConnectRequest
						asked.Decode(&d)
						r = f.connect(asked)
					}
					response = r.Append(make([]byte, 4))
					jute.PutInt(response, int32(len(response)-4))
				} else {
					d := jute.NewDecoder(request)
					var head wire.RequestHeader
					head.Decode(&d)
					response = f.answer(c, head, d.Rest())
				}
				if _, err := c.Write(response); err != nil {
					return
				}
			}
		})
	}
}

func TestMix(t *testing.T) {
	o := listen(t, Floor{Size: 300}.Serve)
	for _, test := range []struct {
		name string
		mix  Mix
		ops  []string
	}{
		{"reads", Mix{Connections: 3, Outstanding: 50, ReadRatio: 1, Size: 300, Keys: 20}, []string{"read"}},
		{"writes", Mix{Connections: 3, Outstanding: 1, ReadRatio: 0, Size: 300, Keys: 20}, []string{"write"}},
		{"both", Mix{Connections: 2, Outstanding: 9, ReadRatio: .5, Size: 300, Keys: 20}, []string{"read", "write"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.mix.Options = o
			r, err := test.mix.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Ops) != len(test.ops) {
				t.Fatalf("measured %+v, want %v", r.Ops, test.ops)
			}
			for _, op := range test.ops {
				if got := r.Op(op); got.Count == 0 || got.P50 <= 0 || got.Max < got.P999 {
					t.Errorf("%s: %+v", op, got)
				}
			}
			if r.Servers[0].RSSBytes == 0 || r.Interrupted || r.ErrorCount() != 0 {
				t.Errorf("servers %+v, interrupted %v, %d errors",
					r.Servers, r.Interrupted, r.ErrorCount())
			}
		})
	}
}

// Replies that are larger than the socket's and the loop's buffers, with
// requests of the same size going the other way; and small ones. With TLS, too.
func TestValues(t *testing.T) {
	for _, on := range []listening{listen, listenTLS} {
		for _, size := range []int{0, 300, 700 << 10} {
			testValues(t, on(t, Floor{Size: size}.Serve), size)
		}
	}
}

func testValues(t *testing.T, o Options, size int) {
	value := fixedValue(size)
	set := znodes{parents: []string{"/p"}, count: 60}
	for _, plan := range []eachPlan{
		{kind: kindRead, request: func(p path) (frame, int) {
			return readFrame(wire.OpGetData, p, false), 4 + size + statBytes
		}},
		{kind: kindWrite, request: func(p path) (frame, int) {
			return setDataFrame(p, value), statBytes
		}},
	} {
		plan.connections, plan.outstanding = 2, 20
		r, err := set.each(t.Context(), o, plan)
		if err != nil {
			t.Fatal(err)
		}
		if r.PerCount != 60 {
			t.Errorf("%d bytes: %d × %v answered, want 60", size, r.PerCount, plan.kind)
		}
	}
}

// An open loop sends at its rate, whatever the server could do.
func TestOpenLoop(t *testing.T) {
	m := Mix{Options: listen(t, Floor{Size: 10}.Serve), Connections: 4, Outstanding: 1000,
		ReadRatio: 1, Size: 10, Keys: 5, Rate: 2000}
	m.Duration = 500 * time.Millisecond
	began := time.Now()
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A tenth is enough of a lower bound for a machine that is busy with other things.
	due := 2000 * time.Since(began).Seconds()
	if n := float64(r.Op("read").Count); n < 100 || n > due+4 {
		t.Errorf("%v reads, at most %v were due", n, due)
	}
}

func TestCreateAndFill(t *testing.T) {
	o := listen(t, Floor{}.Serve)
	r, err := Create{Options: o, Workers: 2, Size: 10}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create, remove := r.Op("create").Count, r.Op("delete").Count
	if create == 0 || remove+10 < create || create+10 < remove {
		t.Errorf("%d creates and %d deletes, want about as many", create, remove)
	}
	for _, f := range []Fill{
		{Path: "/p", Count: 1000, Size: 10, Parents: 1},
		{Path: "/p", Count: 1001, Size: 10, Parents: 3},
		{Path: "/p", Count: 1001, Size: 10, Parents: 3, Delete: true},
	} {
		f.Options, f.Connections, f.Outstanding = o, 4, 30
		r, err := f.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.PerCount != uint64(f.Count) || r.Interrupted {
			t.Errorf("%d done (interrupted: %v), want %d", r.PerCount, r.Interrupted, f.Count)
		}
	}
}

// A Fill that goes on where another has ended creates no znode twice.
func TestFillGoesOn(t *testing.T) {
	var mu sync.Mutex
	made := map[string]int{}
	f := fake{answer: func(_ io.Writer, head wire.RequestHeader, body []byte) []byte {
		d := jute.NewDecoder(body)
		path := d.String()
		if head.Op != wire.OpCreate {
			return replyFrame(head.Xid, zk.OK, 0)
		}
		mu.Lock()
		defer mu.Unlock()
		made[strings.Clone(path)]++
		return replyFrame(head.Xid, zk.OK, 4+len(path))
	}}
	o := listen(t, f.serve)
	for _, first := range []int{0, 100} {
		if _, err := (Fill{Options: o, Connections: 2, Outstanding: 10, Path: "/p", First: first, Count: 100, Parents: 1}).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if made["/p/k000000000"] != 1 || made["/p/k000000100"] != 1 || made["/p/k000000199"] != 1 || made["/p/k000000200"] != 0 {
		t.Errorf("%v", made)
	}
	delete(made, "/p") // each asks for it
	if len(made) != 200 {
		t.Errorf("%d znodes were created, want 200", len(made))
	}
}

// Every watcher has every event, and registers again or not, as asked.
func TestWatch(t *testing.T) {
	for _, persistent := range []bool{false, true} {
		var mu sync.Mutex
		var place string
		watching := map[io.Writer]bool{}
		f := fake{answer: func(w io.Writer, head wire.RequestHeader, body []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			d := jute.NewDecoder(body)
			switch head.Op {
			case wire.OpCreate:
				place = strings.Clone(d.String())
				return replyFrame(head.Xid, zk.OK, 4+len(place))
			case wire.OpGetData:
				watching[w] = true
				return replyFrame(head.Xid, zk.OK, 4+64+statBytes)
			case wire.OpAddWatch:
				watching[w] = true
				return replyFrame(head.Xid, zk.OK, errorResponseBytes)
			case wire.OpSetData:
				event := wire.WatcherEvent{Type: zk.EventNodeDataChanged,
					State: zk.StateSyncConnected, Path: place}
				b := event.Append(wire.ReplyHeader{Xid: xidEvent}.Append(make([]byte, 4)))
				jute.PutInt(b, int32(len(b)-4))
				for c := range watching {
					_, _ = c.Write(b)
				}
				if !persistent {
					clear(watching)
				}
				return replyFrame(head.Xid, zk.OK, statBytes)
			}
			return replyFrame(head.Xid, zk.OK, 0)
		}}
		w := Watch{Options: listen(t, f.serve), Watchers: 7, Size: 64, Persistent: persistent}
		r, err := w.Run(t.Context())
		if err != nil {
			t.Fatalf("persistent %v: %v", persistent, err)
		}
		events, watches := r.Op("event").Count, r.Op("watch").Count
		// On a slow machine the first registrations are measured, too.
		if events == 0 || persistent && watches > 7 || !persistent && watches == 0 {
			t.Errorf("persistent %v: %d events, %d registrations after the first",
				persistent, events, watches)
		}
	}
}

func TestIdleAndWatches(t *testing.T) {
	o := listen(t, Floor{}.Serve)
	r, err := Idle{Options: o, Sessions: 150}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.PerCount != 150 || len(r.Figures) != 3 {
		t.Errorf("idle: %d sessions, figures %+v", r.PerCount, r.Figures)
	}
	settled := 0
	r, err = Watches{Options: o, Count: 2000, Absent: true,
		Settle: func(context.Context) error { settled++; return nil }}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Op("watch").Count != 2000 || settled != 2 || len(r.Figures) != 1 {
		t.Errorf("watches: %+v, figures %+v, settled %d times", r.Ops, r.Figures, settled)
	}
}

// What a server must not do ends the run, with an error that says what it was.
func TestRunEndsWithViolation(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply func(head wire.RequestHeader) []byte
		is    error
		text  string
	}{
		{"wrong xid", func(h wire.RequestHeader) []byte { return replyFrame(h.Xid+1, zk.OK, 4+statBytes) },
			ErrProtocol, "oldest request has"},
		{"short body", func(h wire.RequestHeader) []byte { return replyFrame(h.Xid, zk.OK, 3) },
			ErrProtocol, "body of 3 bytes"},
		{"event", func(h wire.RequestHeader) []byte { return replyFrame(xidEvent, zk.OK, 12) },
			ErrProtocol, "nothing is watched"},
		{"garbage", func(wire.RequestHeader) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n") },
			ErrProtocol, "reply of"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := fake{answer: func(_ io.Writer, head wire.RequestHeader, body []byte) []byte {
				switch head.Op {
				case wire.OpGetData:
					return test.reply(head)
				case wire.OpCreate:
					d := jute.NewDecoder(body)
					return replyFrame(head.Xid, zk.OK, 4+len(d.String()))
				}
				return replyFrame(head.Xid, zk.OK, 0)
			}}
			m := Mix{Options: listen(t, f.serve), Connections: 2, Outstanding: 4, ReadRatio: 1, Keys: 3}
			r, err := m.Run(t.Context())
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("error %v, want one with %q", err, test.text)
			}
			if r != nil && !r.Interrupted {
				t.Error("the result does not say that it is not whole")
			}
		})
	}
}

// A refused operation is counted, by its code, and does not end a mix.
func TestErrorsAreCounted(t *testing.T) {
	f := fake{answer: func(_ io.Writer, head wire.RequestHeader, body []byte) []byte {
		switch head.Op {
		case wire.OpGetData:
			return replyFrame(head.Xid, zk.ErrNoAuth, 0)
		case wire.OpCreate:
			d := jute.NewDecoder(body)
			return replyFrame(head.Xid, zk.OK, 4+len(d.String()))
		}
		return replyFrame(head.Xid, zk.OK, 0)
	}}
	m := Mix{Options: listen(t, f.serve), Connections: 1, Outstanding: 4, ReadRatio: 1, Keys: 3}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Op("read").Errors[zk.ErrNoAuth.Error()]; n == 0 || n != r.ErrorCount() {
		t.Errorf("%d refusals, %d in all", n, r.ErrorCount())
	}
}

func TestServerCloses(t *testing.T) {
	f := fake{answer: func(w io.Writer, head wire.RequestHeader, body []byte) []byte {
		switch head.Op {
		case wire.OpGetData:
			w.(net.Conn).Close()
		case wire.OpCreate:
			d := jute.NewDecoder(body)
			return replyFrame(head.Xid, zk.OK, 4+len(d.String()))
		}
		return replyFrame(head.Xid, zk.OK, 0)
	}}
	m := Mix{Options: listen(t, f.serve), Connections: 1, Outstanding: 1, ReadRatio: 1, Keys: 3}
	if _, err := m.Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

// An interrupt ends the run at once, with what was measured.
func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var reads atomic.Int64
	f := fake{answer: func(_ io.Writer, head wire.RequestHeader, body []byte) []byte {
		switch head.Op {
		case wire.OpGetData:
			if reads.Add(1) == 100 { // the client has had the answers to most of them
				interrupt()
			}
			return replyFrame(head.Xid, zk.OK, 4+10+statBytes)
		case wire.OpCreate:
			d := jute.NewDecoder(body)
			return replyFrame(head.Xid, zk.OK, 4+len(d.String()))
		}
		return replyFrame(head.Xid, zk.OK, 0)
	}}
	m := Mix{Options: listen(t, f.serve), Connections: 2, Outstanding: 10, ReadRatio: 1, Size: 10, Keys: 5}
	m.Duration, m.Warmup = time.Hour, 0
	r, err := m.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || r.Op("read").Count == 0 {
		t.Errorf("interrupted %v, %d reads", r.Interrupted, r.Op("read").Count)
	}
}

func TestResultIsWritten(t *testing.T) {
	m := Mix{Options: listen(t, Floor{Size: 10}.Serve), Connections: 1, Outstanding: 10,
		ReadRatio: 1, Size: 10, Keys: 5}
	r, err := m.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "result.json")
	if err := r.WriteJSON(name); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var back Result
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Rate() != r.Rate() || back.Machine != r.Machine || back.Params["size"] != float64(10) {
		t.Errorf("read back %+v", back)
	}
	var table bytes.Buffer
	if err := r.Print(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mix", "outstanding 10", "p99.9", "µs CPU per op", "RSS"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
}

func TestNoServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	m := Mix{Options: Options{Servers: []string{ln.Addr().String()}}, Connections: 1,
		Outstanding: 1, Keys: 1}
	if r, err := m.Run(t.Context()); err == nil || r != nil {
		t.Errorf("result %v, error %v; want only an error", r, err)
	}
}
