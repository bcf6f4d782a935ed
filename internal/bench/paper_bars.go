package bench

import "strings"

// A Bar is what the project has set itself for one figure of a Paper.
type Bar struct {
	Title      string
	Experiment string
	Members    int
	Params     map[string]float64 // nil for whatever was measured
	Value      string
	Unit       string
	Want       string // "≥ 10 ×"; "" if the figure is only told
	pass       func(base, own float64) bool
}

// relative reports whether the bar is a ratio to the figure of another system.
func (b *Bar) relative() bool {
	return strings.HasSuffix(b.Want, "×") || strings.Contains(b.Want, "1/")
}

// A Verdict is a bar and what was measured. Base is 0 if no other system was.
type Verdict struct {
	Bar
	Base, Own float64
	Measured  bool
	Decided   bool // it was measured of all that the bar speaks of
	Pass      bool
}

func (v *Verdict) decide() {
	v.Decided = v.Measured && v.Want != "" && (v.Base > 0 || !v.relative())
	v.Pass = v.Decided && v.pass(v.Base, v.Own)
}

// bars returns the targets; each is compared with a median.
func bars() []Bar {
	reads := func(percent float64) map[string]float64 { return values{"reads_percent": percent} }
	return []Bar{
		{"reads", "throughput", 3, reads(100), "rate", "/s", "≥ 10 ×", times(10)},
		{"80/20", "throughput", 3, reads(80), "rate", "/s", "≥ 10 ×", times(10)},
		{"writes", "throughput", 3, reads(0), "rate", "/s", "≥ 6 ×", times(6)},
		{"reads, one outstanding", "alone", 3, reads(100), "rate", "/s", "≥ 2 ×", times(2)},
		{"80/20, one outstanding", "alone", 3, reads(80), "rate", "/s", "≥ 3 ×", times(3)},
		{"sync create, 1 worker", "creates", 3, values{"workers": 1}, "rate", "/s", "≥ 3 ×", times(3)},
		{"sync create, 10 workers", "creates", 3, values{"workers": 10}, "rate", "/s", "≥ 4 ×", times(4)},
		{"p99 of 12,000 writes a second", "open", 3, values{"rate": 12000}, "write_p99_ms", "ms", "≤ 1/4", part(4)},
		{"a million znodes of 100 bytes, RSS", "trees", 3, values{"znodes": 1e6}, "server_mb", "MB", "≤ 250 MB", most(250)},
		{"ten million znodes, one server: start", "trees", 1, values{"znodes": hugeTree}, "start_s", "s", "≤ 10 s", most(10)},
		{"the same: writes lost to snapshots", "trees", 1, values{"znodes": hugeTree}, "snapshot_loss", "%", "≤ 15 %", most(15)},
		{"an idle session of up to 50,000, RSS", "sessions", 1, nil, "session_kb", "KB", "≤ 15 KB", most(15)},
		{"double barriers, 200 by 100 clients", "barriers", 3, values{"clients": 100, "barriers": 200}, "seconds", "s", "≤ 1/3", part(3)},
		{"watch events, 200 watchers", "watchers", 3, values{"watchers": 200}, "rate", "/s", "≥ 8 ×", times(8)},
		{"the same: an event, CPU of the servers", "watchers", 3, values{"watchers": 200}, "cpu_us", "µs", "", nil},
	}
}

// Verdicts holds the last system of d against the first.
func (d *PaperData) Verdicts() (list []Verdict) {
	base, own := d.Systems[0], d.Systems[len(d.Systems)-1]
	for _, b := range bars() {
		v := Verdict{Bar: b}
		if base != own {
			v.Base = medianOf(d.Values(b.Experiment, base, b.Members, b.Params, b.Value))
		}
		mine := d.Values(b.Experiment, own, b.Members, b.Params, b.Value)
		v.Own, v.Measured = medianOf(mine), len(mine) > 0
		v.decide()
		list = append(list, v)
	}
	v := Verdict{Bar: Bar{Title: "gap after kill -9 of the leader, five servers", Unit: "ms", Want: "≤ 80 ms", pass: most(80)}}
	if base != own {
		v.Base, _ = d.longestGap(base)
	}
	n := 0
	v.Own, n = d.longestGap(own)
	v.Measured = n > 0
	v.decide()
	return append(list, v)
}

// longestGap is the median of the gaps that the death of leaders has made in
// writes, in milliseconds, and of how many.
func (d *PaperData) longestGap(system string) (median float64, n int) {
	var gaps []float64
	for _, f := range d.Failures {
		for _, e := range f.Events {
			if f.System == system && e.Leads {
				gaps = append(gaps, e.Gap)
			}
		}
	}
	return medianOf(gaps), len(gaps)
}
