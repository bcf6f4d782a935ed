package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// steps makes n steps with an oracle that accepts every handshake and answers
// nothing else.
func steps(seed uint64, n int, p pair) []step {
	g := newGenerator(seed, p)
	var v []step
	for i := range n {
		s := g.next()
		v = append(v, s)
		got := map[string][]item{}
		if s.Kind == kindOpen || s.Kind == kindAttach {
			got[s.Client] = []item{{Kind: itemSession}}
		}
		for j := range s.Reqs {
			if s.Reqs[j].Op == wire.OpCloseSession {
				got[s.Client] = append(got[s.Client], item{Kind: itemReply, Req: &s.Reqs[j]}, item{Kind: itemClosed})
			}
		}
		g.learn(&s, got, int64(i))
	}
	return v
}

// The requests that end Apache for good, or that its releases read in ways that
// cannot be compared, are never made.
func TestGeneratorSparesTheOracle(t *testing.T) {
	for seed := range uint64(20) {
		p := []pair{against38, against39, alike}[seed%3]
		for _, s := range steps(seed, 3000, p) {
			for i := range s.Reqs {
				checkHarmless(t, p, &s.Reqs[i])
			}
		}
	}
}

func checkHarmless(t *testing.T, p pair, q *request) {
	t.Helper()
	switch q.Op {
	case wire.OpCheck, wire.OpCreateSession:
		if p != against39 || q.Op != wire.OpCheck {
			t.Fatalf("made %v", q)
		}
	case wire.OpMulti:
		d := jute.NewDecoder(q.Body)
		for _, m := range wire.DecodeMulti(&d, q.Op, nil) {
			if m.Type == wire.OpCreateTTL {
				checkTTL(t, q, &m.CreateRequest)
			}
			checkQuotaText(t, q, m.Path, m.Data, m.Type)
		}
	case wire.OpCreateTTL:
		d := jute.NewDecoder(q.Body)
		var r wire.CreateRequest
		r.Decode(&d, q.Op)
		if d.Err() == nil {
			checkTTL(t, q, &r)
			checkQuotaText(t, q, r.Path, r.Data, q.Op)
		}
	case wire.OpSetData:
		d := jute.NewDecoder(q.Body)
		var r wire.SetDataRequest
		r.Decode(&d)
		if d.Err() == nil {
			checkQuotaText(t, q, r.Path, r.Data, q.Op)
		}
	}
	if q.Xid == wire.XidNotification || q.Xid >= barrierXid && q.Xid < 1<<31-1 {
		t.Fatalf("xid of %v cannot be told from an event or a barrier", q)
	}
}

func checkTTL(t *testing.T, q *request, r *wire.CreateRequest) {
	t.Helper()
	if !r.Flags.IsTTL() && r.TTL < 0 {
		t.Fatalf("made the request that kills Apache: %v", q)
	}
}

func checkQuotaText(t *testing.T, q *request, path string, data []byte, op wire.OpCode) {
	t.Helper()
	if op == wire.OpDelete || op == wire.OpCheck || !strings.HasSuffix(path, "/zookeeper_stats") {
		return
	}
	if !strings.HasPrefix(string(data), "count=") {
		t.Fatalf("statistics that kill Apache: %v", q)
	}
}

func TestSeedDecides(t *testing.T) {
	a, b := steps(7, 500, against38), steps(7, 500, against38)
	if !reflect.DeepEqual(a, b) {
		t.Fatal("the same seed made different steps")
	}
	if reflect.DeepEqual(a, steps(8, 500, against38)) {
		t.Fatal("another seed made the same steps")
	}
}

// A stored run is the same run.
func TestStepsSurviveJSON(t *testing.T) {
	a := steps(3, 800, alike)
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var b []step
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i].String() != b[i].String() {
			t.Fatalf("step %d\n%v\nbecame\n%v", i, a[i], b[i])
		}
		for j := range a[i].Reqs {
			if !slices.Equal(a[i].Reqs[j].frame(nil, 1000), b[i].Reqs[j].frame(nil, 1000)) {
				t.Fatalf("step %d request %d has another frame", i, j)
			}
		}
	}
}

func TestRelativeZxid(t *testing.T) {
	q := request{Xid: -8, Op: wire.OpSetWatches, RelZxid: true, Body: (&wire.SetWatches{RelativeZxid: -3}).Append(nil, wire.OpSetWatches)}
	d := jute.NewDecoder(q.frame(nil, 100)[4+8:])
	if z := d.Long(); z != 97 {
		t.Fatalf("relative zxid %d, want 97", z)
	}
}

// testWorld is a world without servers, B's last step having used zxids 11 to 13.
func testWorld(p pair) *world {
	a, b := &side{base: 1000, before: 1010, last: 1013}, &side{base: 2000, before: 2010, last: 2013}
	return newWorld(a, b, p)
}

func TestAllowances(t *testing.T) {
	reply := func(op wire.OpCode, zxid int64, err zk.Code, text string) item {
		return item{Kind: itemReply, Xid: 5, Zxid: zxid, Err: err, Text: text, Loose: text, Req: &request{Xid: 5, Op: op}}
	}
	event := func(zxid int64) item {
		return item{Kind: itemEvent, Zxid: zxid, Event: zk.EventNodeCreated, Path: "/a"}
	}
	one, batch := &step{Kind: kindRequest, Reqs: make([]request, 1)}, &step{Kind: kindRequest, Reqs: make([]request, 2)}
	for _, c := range []struct {
		name string
		t    *step
		a, b item
		want string // allowance; "" for a difference
	}{
		{"event with its zxid", one, event(noZxid), event(12), "event-zxid"},
		{"event with a zxid before the step", one, event(noZxid), event(10), ""},
		{"event with a zxid not yet given", one, event(noZxid), event(14), ""},
		{"exists without READ", one, reply(wire.OpExists, 12, 0, "{}"), reply(wire.OpExists, 12, zk.ErrNoAuth, ""), "exists-needs-read"},
		{"getData without READ", one, reply(wire.OpGetData, 12, 0, "{}"), reply(wire.OpGetData, 12, zk.ErrNoAuth, ""), ""},
		{"missing node against no READ", one, reply(wire.OpExists, 12, zk.ErrNoNode, ""), reply(wire.OpExists, 12, zk.ErrNoAuth, ""), ""},
		{"watcher type 4", one, reply(wire.OpCheckWatches, 12, zk.ErrMarshalling, ""), reply(wire.OpCheckWatches, 12, zk.ErrNoWatcher, ""), "watcher-types-4-5"},
		{"watcher type 4 found", one, reply(wire.OpCheckWatches, 12, zk.ErrMarshalling, ""), reply(wire.OpCheckWatches, 12, zk.OK, ""), ""},
		{"later zxid of a batch", batch, reply(wire.OpGetData, 12, 0, "x"), reply(wire.OpGetData, 13, 0, "x"), "batch-zxid"},
		{"earlier zxid of a batch", batch, reply(wire.OpGetData, 12, 0, "x"), reply(wire.OpGetData, 11, 0, "x"), ""},
		{"later zxid alone", one, reply(wire.OpGetData, 12, 0, "x"), reply(wire.OpGetData, 13, 0, "x"), ""},
		{"another body in a batch", batch, reply(wire.OpGetData, 12, 0, "x"), reply(wire.OpGetData, 13, 0, "y"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := testWorld(against38)
			what := w.pair(c.t, &c.a, &c.b)
			if (what == "") != (c.want != "") || c.want != "" && w.used[c.want] != 1 {
				t.Fatalf("difference %q, allowances used %v, want %q", what, w.used, c.want)
			}
		})
	}
	for _, p := range []pair{against39, alike} {
		w := testWorld(p)
		if a, b := event(noZxid), event(12); w.pair(one, &a, &b) == "" {
			t.Fatalf("pair %d: servers of one release were allowed a difference of releases", p)
		}
	}
}

func TestEventOrder(t *testing.T) {
	ev := func(p string) item { return item{Kind: itemEvent, Zxid: noZxid, Event: zk.EventNodeDeleted, Path: p} }
	r := item{Kind: itemReply, Xid: 1, Req: &request{Op: wire.OpDelete}}
	batch := &step{Kind: kindRequest, Reqs: make([]request, 2)}
	closing := &step{Kind: kindRequest, Reqs: []request{{Op: wire.OpCloseSession}}}
	for _, c := range []struct {
		name string
		t    *step
		a, b []item
		same bool
	}{
		{"event earlier in a batch", batch, []item{r, ev("/a"), r}, []item{ev("/a"), r, r}, true},
		{"event later in a batch", batch, []item{ev("/a"), r, r}, []item{r, ev("/a"), r}, false},
		{"events swapped in a batch", batch, []item{ev("/a"), ev("/b"), r}, []item{ev("/b"), ev("/a"), r}, false},
		{"events swapped at a session's end", closing, []item{ev("/a"), ev("/b"), r}, []item{ev("/b"), ev("/a"), r}, true},
		{"other event at a session's end", closing, []item{ev("/a"), ev("/b"), r}, []item{ev("/b"), ev("/c"), r}, false},
		{"missing event", batch, []item{ev("/a"), r}, []item{r}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if what := testWorld(against38).sequences(c.t, c.a, c.b); (what == "") != c.same {
				t.Fatalf("difference %q, want equal %v", what, c.same)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	v := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	got := remove(v, func(v []int) bool { return slices.Contains(v, 3) && slices.Contains(v, 8) })
	if !slices.Equal(got, []int{3, 8}) {
		t.Fatalf("left %v, want [3 8]", got)
	}
}
