package metric

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newTestRegistry has one metric of each kind.
func newTestRegistry() *Registry {
	return NewRegistry([]Desc{
		info("version", ownServer, "Version"),
		counter("count", UnitCount, ownServer, "Count"),
		gauge("level", UnitBytes, ownServer, "Level"),
		decimal("ratio", UnitRatio, ownServer, "Ratio"),
		summary("batch", UnitCount, ownServer, "Batch"),
		summary("took", UnitMilliseconds, ownServer, "Took"),
		quantiles("latency", ownServer, "Latency"),
		summary("by_name", UnitBytes, ownServer, "By name").set("name"),
		counter("by_server", UnitCount, ownServer, "By server").set("server"),
		counter("never", UnitCount, ownServer, "Never").absent("a component"),
		gauge("leading", UnitCount, ownServer, "Leading").on(OnLeader),
	})
}

// parts are the sources of newTestRegistry.
type parts struct {
	count   Counter
	level   Gauge
	batch   Summary[int64]
	took    Summary[time.Duration]
	latency Histogram
	byName  *Set[*Summary[int64]]
	servers []string
	leading bool
	before  int
}

func (p *parts) bind(r *Registry) {
	p.byName = NewSet(2, func() *Summary[int64] { return new(Summary[int64]) })
	for name, s := range map[string]Source{
		"count": &p.count, "level": &p.level, "batch": &p.batch, "took": &p.took, "latency": &p.latency, "by_name": p.byName,
	} {
		r.Bind(name, s)
	}
	r.Collect(func(c Collection) {
		c.Text("version", "1.0")
		c.Decimal("ratio", .5)
		for _, key := range p.servers {
			c.Of(key).Int("by_server", int64(len(key)))
		}
		if p.leading {
			c.Int("leading", 1)
		}
	}, "version", "ratio", "by_server", "leading")
	r.Before(func() { p.before++ })
}

// samples returns the values of a snapshot, by the names of their metrics.
func samples(r *Registry) map[string][]Sample {
	all := map[string][]Sample{}
	for _, m := range r.Snapshot() {
		for i := range m.Samples {
			m.Samples[i].Distribution = nil // TestDistributionOfSamples
		}
		all[m.Name] = m.Samples
	}
	return all
}

func TestSnapshot(t *testing.T) {
	var p parts
	r := newTestRegistry()
	p.bind(r)
	p.count.Add(2)
	p.level.Store(3)
	p.batch.Add(4)
	p.batch.Add(6)
	p.took.Add(2500 * time.Microsecond)
	p.latency.Add(2, bucketValue(150)) // quantiles are exact in the middle of a bucket
	ms := bucketValue(150).Milliseconds()
	for _, key := range []string{"b", "a", "too many"} {
		if k := p.byName.Of(key); k != nil {
			k.Value.Add(7)
		}
	}
	p.servers, p.leading = []string{"1", "22"}, true
	want := map[string][]Sample{
		"version": {{Text: "1.0"}},
		"count":   {{Int: 2}},
		"level":   {{Int: 3}},
		"ratio":   {{Decimal: .5}},
		"batch":   {{Summary: Aggregate{Count: 2, Sum: 10, Min: 4, Max: 6, Average: 5}}},
		"took":    {{Summary: Aggregate{Count: 1, Sum: 2, Min: 2, Max: 2, Average: 2.5}}},
		"latency": {{Summary: Aggregate{
			Count: 2, Sum: (2 * bucketValue(150)).Milliseconds(), Min: ms, Max: ms, Average: float64(bucketValue(150)) / 1e6,
			P50: ms, P90: ms, P95: ms, P99: ms, P999: ms,
		}}},
		"by_name": {
			{Key: "a", Summary: Aggregate{Count: 1, Sum: 7, Min: 7, Max: 7, Average: 7}},
			{Key: "b", Summary: Aggregate{Count: 1, Sum: 7, Min: 7, Max: 7, Average: 7}},
		},
		"by_server": {{Key: "1", Int: 1}, {Key: "22", Int: 2}},
		"never":     {{}},
		"leading":   {{Int: 1}},
	}
	if diff := cmp.Diff(want, samples(r)); diff != "" {
		t.Errorf("snapshot (-want +got):\n%s", diff)
	}
	r.Reset()
	for _, name := range []string{"count", "batch", "took", "latency"} {
		want[name] = []Sample{{}}
	}
	want["by_name"] = []Sample{{Key: "a"}, {Key: "b"}}
	p.leading, want["leading"] = false, nil
	if diff := cmp.Diff(want, samples(r)); diff != "" {
		t.Errorf("after Reset (-want +got):\n%s", diff)
	}
	if p.before != 3 {
		t.Errorf("Before's function ran %d times for two snapshots and a reset", p.before)
	}
}

// A metric without a value has no samples, and the order is that of the descriptions.
func TestSnapshotOfUnboundMetrics(t *testing.T) {
	var got []string
	for _, m := range newTestRegistry().Snapshot() {
		got = append(got, fmt.Sprint(m.Name, " ", len(m.Samples)))
	}
	want := "version 0, count 0, level 0, ratio 0, batch 0, took 0, latency 0, by_name 0, by_server 0, never 1, leading 0"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s, want %s", s, want)
	}
}

// Mistakes of the program are found when the server starts, or at the first snapshot.
func TestMistakes(t *testing.T) {
	var p parts
	for name, f := range map[string]func(*Registry){
		"unknown name":              func(r *Registry) { r.Bind("nothing", &p.count) },
		"unknown name in Collect":   func(r *Registry) { r.Collect(func(Collection) {}, "nothing") },
		"bound twice":               func(r *Registry) { r.Bind("count", &p.count); r.Bind("count", &p.count) },
		"bound and collected":       func(r *Registry) { r.Bind("count", &p.count); r.Collect(func(Collection) {}, "count") },
		"collected and bound":       func(r *Registry) { r.Collect(func(Collection) {}, "count"); r.Bind("count", &p.count) },
		"gauge as a counter":        func(r *Registry) { r.Bind("count", &p.level) },
		"counter as a summary":      func(r *Registry) { r.Bind("batch", &p.count) },
		"numbers as durations":      func(r *Registry) { r.Bind("took", &p.batch) },
		"durations as numbers":      func(r *Registry) { r.Bind("batch", &p.took) },
		"summary with quantiles":    func(r *Registry) { r.Bind("latency", &p.took) },
		"histogram without":         func(r *Registry) { r.Bind("took", &p.latency) },
		"function with a fraction":  func(r *Registry) { r.Bind("ratio", Func(func() int64 { return 1 })) },
		"set of what has no keys":   func(r *Registry) { r.Bind("batch", NewSet(1, func() *Summary[int64] { return new(Summary[int64]) })) },
		"set of another unit":       func(r *Registry) { r.Bind("by_name", NewSet(1, func() *Counter { return new(Counter) })) },
		"name that was not told":    func(r *Registry) { r.Collect(func(c Collection) { c.Int("level", 1) }, "count"); r.Snapshot() },
		"value of another kind":     func(r *Registry) { r.Collect(func(c Collection) { c.Int("ratio", 1) }, "ratio"); r.Snapshot() },
		"set without a key":         func(r *Registry) { r.Collect(func(c Collection) { c.Int("by_server", 1) }, "by_server"); r.Snapshot() },
		"key of what is not a set":  func(r *Registry) { r.Collect(func(c Collection) { c.Of("1").Int("count", 1) }, "count"); r.Snapshot() },
		"two metrics with one name": func(*Registry) { NewRegistry([]Desc{{Name: "a"}, {Name: "a"}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			f(newTestRegistry())
		}()
	}
}

// Snapshots, resets and updates run beside each other; nothing that is counted is lost.
func TestRegistryIsConcurrent(t *testing.T) {
	var p parts
	r := newTestRegistry()
	p.bind(r)
	var wg sync.WaitGroup
	const writers, each = 4, 2000
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				p.count.Add(1)
				p.batch.Add(int64(i))
				p.latency.Add(1, time.Duration(i)*time.Microsecond)
				p.byName.Of(fmt.Sprint(w % 2)).Value.Add(1)
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for last := int64(0); ; {
			now := samples(r)["count"][0].Int
			if now < last {
				t.Errorf("a counter went from %d to %d", last, now)
			}
			last = now
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	wg.Wait()
	close(stop)
	reader.Wait()
	got := samples(r)
	const all = writers * each
	if n := got["count"][0].Int; n != all {
		t.Errorf("counted %d of %d", n, all)
	}
	if a := got["batch"][0].Summary; a.Count != all || a.Sum != writers*each*(each-1)/2 || a.Min != 0 || a.Max != each-1 {
		t.Errorf("%+v", a)
	}
	if a := got["latency"][0].Summary; a.Count != all {
		t.Errorf("%+v", a)
	}
	if s := got["by_name"]; len(s) != 2 || s[0].Summary.Count+s[1].Summary.Count != all {
		t.Errorf("%+v", s)
	}
}

func TestSizes(t *testing.T) {
	var s Sizes
	check := func(wantLast, wantLo, wantHi int64) {
		t.Helper()
		if last, lo, hi := s.Get(); last != wantLast || lo != wantLo || hi != wantHi {
			t.Errorf("%d, %d, %d, want %d, %d, %d", last, lo, hi, wantLast, wantLo, wantHi)
		}
	}
	check(-1, -1, -1)
	s.Add(0)
	check(0, 0, 0)
	s.Add(7)
	s.Merge(3, 2, 9)
	check(3, 0, 9)
	s.Reset()
	check(-1, -1, -1)
}

// Nothing on the way of a request allocates.
func TestUpdatesDoNotAllocate(t *testing.T) {
	var p parts
	var sizes Sizes
	p.bind(newTestRegistry())
	key := p.byName.Of("a").Key
	if n := testing.AllocsPerRun(1000, func() {
		p.count.Add(1)
		p.level.Store(1)
		p.batch.Add(1)
		p.took.Add(time.Second)
		p.latency.Add(1, time.Second)
		p.byName.Of(key).Value.Add(1)
		sizes.Add(1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCounter(b *testing.B) {
	var c Counter
	for b.Loop() {
		c.Add(1)
	}
}

func BenchmarkSummary(b *testing.B) {
	var s Summary[time.Duration]
	for b.Loop() {
		s.Add(time.Millisecond)
	}
}

func BenchmarkHistogram(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Add(1, time.Millisecond)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	var p parts
	r := newTestRegistry()
	p.bind(r)
	for b.Loop() {
		r.Snapshot()
	}
}
