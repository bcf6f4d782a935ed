package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func newPaper(t *testing.T) *Paper {
	dir := t.TempDir()
	return &Paper{
		Barriers: []int{200},
		Systems:  []System{{Name: "a"}, {Name: "b"}}, Sizes: []int{1, 3}, Runs: 2, Out: filepath.Join(dir, "out"),
		Dir: filepath.Join(dir, "data"), Duration: time.Second,
	}
}

// No two points of a plan are the same: one would be taken for the other when an
// interrupted command goes on.
func TestPaperPlan(t *testing.T) {
	for _, quick := range []bool{false, true} {
		p := newPaper(t)
		p.Quick = quick
		seen := map[string]bool{}
		for _, s := range p.stages() {
			if s.failures == (len(s.points) > 0) {
				t.Errorf("%s: %d points, failures %v", s.experiment, len(s.points), s.failures)
			}
			for _, q := range s.points {
				key := fmt.Sprint(s.experiment, s.members, figures(q.params))
				if seen[key] {
					t.Errorf("twice: %s", key)
				}
				seen[key] = true
			}
		}
	}
	for _, quick := range []bool{false, true} {
		p := newPaper(t)
		p.Quick, p.BarRuns = quick, 1 // the quick form by itself leaves some bars out
		for _, b := range bars() {
			if !slices.ContainsFunc(p.stages(), func(s stage) bool {
				return slices.ContainsFunc(s.points, func(q point) bool {
					x := Sample{Experiment: s.experiment, System: "a", Members: s.members, Params: q.params}
					return x.is(b.Experiment, "a", b.Members, b.Params)
				})
			}) {
				t.Errorf("quick %v: bar %q is of no point of the plan", quick, b.Title)
			}
		}
	}
}

// What bars are held against is measured more often than the rest.
func TestPaperBarRuns(t *testing.T) {
	p := newPaper(t)
	p.Quick, p.Runs, p.BarRuns = true, 1, 3
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	p.found = &PaperData{}
	for run := 1; run <= 4; run++ {
		n := 0
		for i := range p.plan {
			s := &p.plan[i]
			for _, q := range p.missing(s, p.Systems[0], run) {
				n++
				if run > 1 && !s.isBar(q) {
					t.Errorf("run %d: %s %s", run, s.experiment, figures(q.params))
				}
			}
		}
		switch own := len(bars()); {
		case run == 1 && n <= own, run == 2 && n > own, run == 2 && n == 0, run == 4 && n > 0:
			t.Errorf("run %d: %d points; %d bars", run, n, own)
		}
	}
}

// Only neighbours of the same size are measured on the same servers.
func TestPaperOnSameServers(t *testing.T) {
	plan := []stage{
		{experiment: "a", members: 3}, {experiment: "b", members: 3, shared: true}, {experiment: "c", members: 3, shared: true},
		{experiment: "d", members: 5, shared: true}, {experiment: "e", members: 5},
	}
	for i, want := range []int{1, 2, 1, 1, 1} {
		if n := onSameServers(plan[i:]); n != want {
			t.Errorf("from %s on: %d, want %d", plan[i].experiment, n, want)
		}
	}
}

func TestPaperRefuses(t *testing.T) {
	for _, test := range []struct {
		set  func(p *Paper)
		want string
	}{
		{func(p *Paper) { p.Experiments = []string{"x"} }, `there is no experiment "x"`},
		{func(p *Paper) { p.Sizes = []int{10} }, "an ensemble of 10"},
		{func(p *Paper) { p.Runs = 0 }, "out of range"},
	} {
		p := newPaper(t)
		test.set(p)
		if _, err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// What an interrupted command has measured is not measured again; what another
// has is not mixed with it.
func TestPaperGoesOn(t *testing.T) {
	p := newPaper(t)
	p.Experiments = []string{"sync"}
	if err := os.MkdirAll(p.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	if err := p.resume(); err != nil {
		t.Fatal(err)
	}
	for run := 1; run <= p.Runs; run++ {
		for _, s := range p.plan {
			for _, q := range s.points {
				for _, system := range p.Systems {
					p.found.Samples = append(p.found.Samples, Sample{s.experiment, system.Name, s.members, run, q.params, values{"rate": 1}})
				}
			}
		}
	}
	if n := p.left(); n != 0 {
		t.Errorf("%d points are left", n)
	}
	if err := p.save(); err != nil {
		t.Fatal(err)
	}
	again := *p
	again.found = nil
	if found, err := again.Run(t.Context()); err != nil || len(found.Samples) != len(p.found.Samples) {
		t.Errorf("nothing was to be measured: %v", err) // the systems have no command
	}
	other := *p
	other.Quick = true
	if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "another --out") {
		t.Errorf("another command goes on: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(p.Out, paperFile))
	if err != nil || !json.Valid(b) {
		t.Errorf("the file: %v", err)
	}
}

func TestVerdicts(t *testing.T) {
	d := &PaperData{Systems: []string{"a", "b"}}
	add := func(system string, rate float64) {
		d.Samples = append(d.Samples, Sample{"throughput", system, 3, 1, values{"reads_percent": 100}, values{"rate": rate}})
	}
	for _, rate := range []float64{1, 2, 9} {
		add("a", rate*10)
		add("b", rate*100)
	}
	for _, v := range d.Verdicts() {
		if v.Measured != (v.Title == "reads") {
			t.Errorf("%s: measured %v", v.Title, v.Measured)
		}
		if v.Measured && (!v.Pass || v.Base != 20 || v.Own != 200) {
			t.Errorf("%+v", v)
		}
	}
	d.Systems = []string{"b"}
	for _, v := range d.Verdicts() {
		if v.Decided || v.Pass || v.Measured != (v.Title == "reads") {
			t.Errorf("nothing to compare with: %+v", v)
		}
	}
	d.Samples = append(d.Samples, Sample{"sessions", "b", 1, 1, values{"sessions": 50_000}, values{"session_kb": 3}})
	d.Failures = []Failures{{Run: 1, Timeline: Timeline{System: "b", Events: []Event{{Leads: true, Gap: 81}}}}}
	passed := map[string]bool{}
	for _, v := range d.Verdicts() {
		if v.Decided {
			passed[v.Experiment] = v.Pass
		}
	}
	if len(passed) != 2 || !passed["sessions"] || passed[""] {
		t.Errorf("bars that need no other system: %v", passed)
	}
}

// The frames of a multi are what a server reads, with the numbers in place.
func TestMultiFrame(t *testing.T) {
	keys := path{prefix: "/p/k", numbered: true}
	m := newMultiFrame(keys, path{prefix: "/p/g3-", numbered: true}, []byte("value"))
	for i := range m.keys {
		m.number(i, uint64(100+i))
	}
	d := jute.NewDecoder(m.b)
	if n := int(d.Int()); n != len(m.b)-4 {
		t.Errorf("length %d of %d", n, len(m.b)-4)
	}
	var head wire.RequestHeader
	head.Decode(&d)
	ops := wire.DecodeMulti(&d, head.Op, nil)
	if d.Err() != nil || len(ops) != profileOps || ops[0].Type != wire.OpCreate || ops[0].Path != "/p/g3-000000100" ||
		ops[4].Type != wire.OpSetData || ops[4].Path != "/p/k000000104" || string(ops[4].Data) != "value" || ops[4].Version != -1 {
		t.Errorf("%v: %+v", d.Err(), ops)
	}
}

// A multi that failed ends the run, although its head says OK.
func TestProfileReply(t *testing.T) {
	s := &profileScript{}
	failed := wire.AppendMultiEnd(wire.AppendMultiError(nil, zk.ErrNoNode))
	if err := s.reply(nil, request{kind: kindMulti}, zk.OK, failed, 0); err == nil {
		t.Error("a multi that failed passes")
	}
	done := wire.AppendMultiEnd(wire.MultiHeader{Type: wire.OpDelete}.Append(nil))
	if err := s.reply(nil, request{kind: kindMulti}, zk.OK, done, 0); err != nil {
		t.Error(err)
	}
	if err := s.reply(nil, request{kind: kindRead}, zk.ErrNoNode, nil, 0); err == nil {
		t.Error("a read that was refused passes")
	}
}
