package metric

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Type says how a metric behaves, in the terms of the Prometheus text format.
type Type string

// The types.
const (
	TypeInfo    Type = "info"    // a text
	TypeCounter Type = "counter" // grows, until srst
	TypeGauge   Type = "gauge"   // rises and falls
	TypeSummary Type = "summary" // an Aggregate
)

// A Unit is what the numbers of a metric are numbers of.
type Unit string

// The units. A summary has the unit in its sum, minimum, maximum, average and
// quantiles.
const (
	UnitText         Unit = "text"
	UnitCount        Unit = "count"
	UnitBytes        Unit = "bytes"
	UnitMilliseconds Unit = "milliseconds"
	UnitSeconds      Unit = "seconds"
	UnitRatio        Unit = "ratio" // 0 to 1
)

// A Desc describes a metric.
type Desc struct {
	// Name is Apache ZooKeeper's name of the metric, without a prefix. For a metric
	// with Own it is this server's name.
	Name string
	Type Type
	Unit Unit
	// Owner is the package, from the module's root, that keeps the value.
	Owner string
	// Help says in one sentence what the metric is.
	Help string

	// On says which servers have the metric: all if it is "".
	On Role
	// Key is the label of a set of metrics, such as "server"; "" is a single metric.
	Key string
	// Quantiles reports whether a summary has P50 to P999.
	Quantiles bool
	// Decimal reports whether a gauge has a fraction.
	Decimal bool
	// MntrOnly reports whether Apache ZooKeeper prints the metric in mntr, and does not
	// export it to Prometheus. Those of TypeInfo are MntrOnly there as well.
	MntrOnly bool
	// Own reports whether Apache ZooKeeper does not have the metric. mntr does not print
	// it, unless WithLimits is set.
	Own bool
	// WithLimits reports whether mntr prints an Own metric of a server with limitsFile.
	WithLimits bool
	// Absent names the component of Apache ZooKeeper that the metric is about, if this
	// server has no such component. The value is then always 0. It is "" otherwise.
	Absent string
}

// ownPrefix begins the exported names of the metrics that Apache ZooKeeper does not export.
const ownPrefix = "pinfold_"

// Exported returns the metric's name for Prometheus, "" if it is not exported. A metric
// that Apache ZooKeeper exports has its name there. Others follow Prometheus's conventions:
// a counter ends in _total; a summary of durations is a histogram in seconds; a text is
// the label of a metric that ends in _info.
func (d *Desc) Exported() string {
	switch {
	case d.Type == TypeInfo:
		return ownPrefix + d.Name + "_info"
	case d.MntrOnly:
		return ""
	case !d.Own:
		return d.Name
	case d.Type == TypeCounter:
		return ownPrefix + strings.TrimSuffix(d.Name, "_count") + "_total"
	case d.Type == TypeSummary:
		return ownPrefix + strings.TrimSuffix(d.Name, "_time") + "_seconds"
	}
	return ownPrefix + d.Name
}

// A Role is the kind of server that has a metric.
type Role string

// The roles.
const (
	OnMember   Role = "member"   // of an ensemble, unless it is read-only
	OnLeader   Role = "leader"   // of an ensemble
	OnVoter    Role = "voter"    // of an ensemble, leader or follower
	OnObserver Role = "observer" // of an ensemble
)

// A kind is which field of a Sample holds the value.
type kind int

const (
	kindText kind = iota
	kindInt
	kindDecimal
	kindSummary
)

func (d *Desc) kind() kind {
	switch {
	case d.Type == TypeInfo:
		return kindText
	case d.Type == TypeSummary:
		return kindSummary
	case d.Decimal:
		return kindDecimal
	}
	return kindInt
}

// A Sample is a value of a metric. The metric's Desc determines which field holds it.
type Sample struct {
	Key     string    // of a set
	Text    string    // of TypeInfo
	Int     int64     // of a counter, or a gauge that is not Decimal
	Decimal float64   // of a gauge that is Decimal
	Summary Aggregate // of TypeSummary, in the metric's unit

	// Distribution has the numbers of Summary by buckets, durations in nanoseconds; nil
	// if the owner keeps no more than the Summary.
	Distribution *Distribution
}

// A Metric is a metric with its values at one time: no value if this server does not
// have the metric in its present role; one value for each key if it is a set; otherwise
// one value.
type Metric struct {
	*Desc
	Samples []Sample
}

// A Registry knows the metrics of one server. Use NewRegistry. A process that runs
// several servers has a registry for each.
type Registry struct {
	descs []Desc
	index map[string]int // of descs, by name
	mu    struct {
		sync.Mutex
		sources []Source // by descs; nil is not bound, or bound by Collect
		before  []func()
		collect []collector
	}
}

// A collector reads several metrics together.
type collector struct {
	read  func(Collection)
	names map[string]bool
}

// NewRegistry returns a registry of the given metrics, without values. The order of
// descs is the order of the snapshots. Names must be unique.
func NewRegistry(descs []Desc) *Registry {
	r := &Registry{descs: descs, index: make(map[string]int, len(descs))}
	r.mu.sources = make([]Source, len(descs))
	for i := range descs {
		if _, twice := r.index[descs[i].Name]; twice {
			panic("metric: two metrics have the name " + descs[i].Name)
		}
		r.index[descs[i].Name] = i
	}
	return r
}

// Descs returns the descriptions of all metrics. The caller must not change them.
func (r *Registry) Descs() []Desc { return r.descs }

// Bind makes s the value of a metric. It panics if the registry does not know the name,
// if the metric has a value already, or if its type or unit does not suit s: these are
// mistakes in the program.
func (r *Registry) Bind(name string, s Source) {
	i := r.claim(name)
	if d := &r.descs[i]; !s.suits(d) {
		panic(fmt.Sprintf("metric: %s, a %s in %s, cannot be read from a %T", name, d.Type, d.Unit, s))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sources[i] = s
}

// Collect calls read at each snapshot to set the values of the named metrics. Use it if
// several values must be of the same moment, and for a metric that has a value only at
// times: a metric that read does not set has none. No lock is held while read runs.
// Collect panics as Bind does.
func (r *Registry) Collect(read func(Collection), names ...string) {
	c := collector{read, map[string]bool{}}
	for _, name := range names {
		r.claim(name)
		c.names[name] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.collect = append(r.mu.collect, c)
}

// claim returns the index of a metric that is not bound yet.
func (r *Registry) claim(name string) int {
	i, ok := r.index[name]
	if !ok {
		panic("metric: there is no " + name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.mu.sources[i] != nil || slices.ContainsFunc(r.mu.collect, func(c collector) bool { return c.names[name] })
	if taken {
		panic("metric: " + name + " is bound twice")
	}
	return i
}

// Before registers f, which every Snapshot and Reset calls first, without a lock. A
// component that counts in batches adds its pending counts there.
func (r *Registry) Before(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.before = append(r.mu.before, f)
}

// Snapshot returns all metrics with their values, in the order of NewRegistry. The
// caller owns the result. No lock is held while values are read.
func (r *Registry) Snapshot() []Metric {
	sources, collectors := r.bound()
	metrics := make([]Metric, len(r.descs))
	for i := range metrics {
		m := &metrics[i]
		m.Desc = &r.descs[i]
		switch {
		case sources[i] != nil:
			m.Samples = sources[i].read(m.Desc, nil)
		case m.Absent != "" && m.On == "" && m.Key == "":
			m.Samples = make([]Sample, 1)
		}
	}
	for i := range collectors {
		collectors[i].read(Collection{r: r, metrics: metrics, names: collectors[i].names})
	}
	return metrics
}

// Reset empties all counters, summaries, histograms and sets that are bound. Gauges
// keep their values. The four-letter word srst calls it.
func (r *Registry) Reset() {
	sources, _ := r.bound()
	for _, s := range sources {
		if s != nil {
			s.reset()
		}
	}
}

// bound calls the functions of Before, and returns the sources and collectors.
func (r *Registry) bound() ([]Source, []collector) {
	r.mu.Lock()
	before := slices.Clone(r.mu.before)
	r.mu.Unlock()
	for _, f := range before {
		f()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.sources), slices.Clone(r.mu.collect)
}

// A Collection receives the values from a function that reads several metrics. Its
// methods panic if the name was not given to Collect, or if the metric has values of
// another kind.
type Collection struct {
	r       *Registry
	metrics []Metric
	names   map[string]bool
	key     string
}

// Of returns a collection that sets the values of a key, of metrics that are sets.
func (c Collection) Of(key string) Collection {
	c.key = key
	return c
}

// Int sets a counter or a gauge.
func (c Collection) Int(name string, v int64) { c.add(name, kindInt, Sample{Int: v}) }

// Decimal sets a gauge that is Decimal.
func (c Collection) Decimal(name string, v float64) { c.add(name, kindDecimal, Sample{Decimal: v}) }

// Text sets a metric of TypeInfo.
func (c Collection) Text(name, text string) { c.add(name, kindText, Sample{Text: text}) }

// Summary sets a summary. Its unit must be that of the metric: see Aggregate.Millis.
func (c Collection) Summary(name string, a Aggregate) { c.add(name, kindSummary, Sample{Summary: a}) }

func (c Collection) add(name string, k kind, s Sample) {
	m := &c.metrics[c.r.index[name]]
	if !c.names[name] || m.kind() != k || (m.Key == "") != (c.key == "") {
		panic("metric: Collect cannot set " + name)
	}
	s.Key = c.key
	m.Samples = append(m.Samples, s)
}
