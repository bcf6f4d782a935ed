package metric

// A Source is where the registry reads a value: a *Counter, a *Gauge, a *Summary, a
// *Histogram, a *Set of these, a Table, a Union, or a Func.
type Source interface {
	// suits reports whether the source has values of the type and the unit of d.
	suits(d *Desc) bool
	// read appends the value, or the value of each key.
	read(d *Desc, to []Sample) []Sample
	// reset empties the source, unless it is a gauge.
	reset()
}

// A Func is a counter or a gauge that is read by a function call. Reset has no effect
// on it.
type Func func() int64

func (f Func) suits(d *Desc) bool { return d.kind() == kindInt }

func (f Func) read(_ *Desc, to []Sample) []Sample { return append(to, Sample{Int: f()}) }

func (f Func) reset() {}

// A counter also suits a gauge: Apache ZooKeeper calls the numbers of packets gauges.
func (c *Counter) suits(d *Desc) bool { return d.kind() == kindInt }

func (c *Counter) read(_ *Desc, to []Sample) []Sample { return append(to, Sample{Int: c.Load()}) }

func (c *Counter) reset() { c.v.Store(0) }

func (g *Gauge) suits(d *Desc) bool { return d.kind() == kindInt && d.Type == TypeGauge }

func (g *Gauge) read(_ *Desc, to []Sample) []Sample { return append(to, Sample{Int: g.Load()}) }

func (g *Gauge) reset() {}

// A summary of durations suits milliseconds, and no other summary does. One that is no
// Histogram suits a metric without quantiles.
func (s *Summary[T]) suits(d *Desc) bool {
	return d.Type == TypeSummary && !d.Quantiles && isDuration[T]() == (d.Unit == UnitMilliseconds)
}

func (s *Summary[T]) read(d *Desc, to []Sample) []Sample {
	dist := s.Distribution()
	a := AggregateOf(dist.Count, dist.Sum, dist.Min, dist.Max)
	if d.Quantiles {
		a = dist.Aggregate()
	}
	if d.Unit == UnitMilliseconds {
		a = a.Millis()
	}
	return append(to, Sample{Summary: a, Distribution: dist})
}

func (h *Histogram) suits(d *Desc) bool {
	return d.Type == TypeSummary && d.Quantiles && d.Unit == UnitMilliseconds
}

func (s *Set[S]) suits(d *Desc) bool { return d.Key != "" && s.empty().suits(d) }

func (s *Set[S]) read(d *Desc, to []Sample) []Sample {
	for _, k := range s.All() {
		n := len(to)
		to = k.Value.read(d, to)
		to[n].Key = k.Key
	}
	return to
}

// reset empties the values. The keys remain, as in Apache ZooKeeper.
func (s *Set[S]) reset() {
	for _, k := range s.All() {
		k.Value.reset()
	}
}

// A Table is a fixed set of histograms. Those that are empty are not shown.
type Table []Keyed[*Histogram]

func (t Table) suits(d *Desc) bool { return d.Key != "" && new(Histogram).suits(d) }

func (t Table) read(d *Desc, to []Sample) []Sample {
	for _, k := range t {
		n := len(to)
		if to = k.Value.read(d, to); to[n].Distribution.Count == 0 {
			to = to[:n]
			continue
		}
		to[n].Key = k.Key
	}
	return to
}

func (t Table) reset() {
	for _, k := range t {
		k.Value.reset()
	}
}

// A Union is several histograms as one.
type Union []*Histogram

func (u Union) suits(d *Desc) bool { return d.Key == "" && new(Histogram).suits(d) }

func (u Union) read(_ *Desc, to []Sample) []Sample {
	dist := u.Distribution()
	return append(to, Sample{Summary: dist.Aggregate().Millis(), Distribution: dist})
}

// Distribution returns the durations of all histograms.
func (u Union) Distribution() *Distribution {
	d := &Distribution{Durations: true}
	for _, h := range u {
		h.addTo(d)
	}
	return d
}

func (u Union) reset() {
	for _, h := range u {
		h.reset()
	}
}
