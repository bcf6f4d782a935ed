package exporter

import (
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// apacheKey is the label of sets in Apache ZooKeeper.
const apacheKey = "key"

// The bounds of a histogram are powers of two of microseconds, from 64 µs to 16.8 s,
// which are bounds of the registry's buckets.
const (
	leastPower = 6
	mostPower  = 24
)

// collector is the registry in the form that Prometheus's library asks for.
type collector struct {
	registry *metric.Registry
	now      func() time.Time
	descs    map[string]*prometheus.Desc // by the metric's name in the registry
	windows  *windows
}

func newCollector(registry *metric.Registry, now func() time.Time) *collector {
	c := &collector{registry: registry, now: now, descs: map[string]*prometheus.Desc{}, windows: newWindows(now())}
	for _, d := range registry.Descs() {
		var labels []string
		switch {
		case d.Type == metric.TypeInfo:
			labels = []string{d.Name}
		case d.Key != "" && d.Own:
			labels = []string{d.Key}
		case d.Key != "":
			labels = []string{apacheKey}
		}
		c.descs[d.Name] = prometheus.NewDesc(d.Exported(), d.Help, labels, nil)
	}
	return c
}

// Describe sends nothing: which metrics there are depends on the server's role.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all metrics.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	now := c.now()
	for _, m := range c.registry.Snapshot() {
		if m.Exported() == "" {
			continue
		}
		for i := range m.Samples {
			to <- c.sample(now, m.Desc, &m.Samples[i])
		}
	}
}

// sample converts one value.
func (c *collector) sample(now time.Time, d *metric.Desc, s *metric.Sample) prometheus.Metric {
	desc := c.descs[d.Name]
	var labels []string
	if d.Key != "" {
		labels = []string{strings.ToValidUTF8(s.Key, "\uFFFD")}
	}
	switch {
	case d.Type == metric.TypeInfo:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, 1, s.Text)
	case d.Type == metric.TypeSummary && d.Own && s.Distribution != nil:
		return histogram(desc, s.Distribution, labels)
	case d.Type == metric.TypeSummary:
		return c.summary(now, desc, d, s, labels)
	case d.Type == metric.TypeCounter:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(s.Int), labels...)
	case d.Decimal:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.Decimal, labels...)
	}
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(s.Int), labels...)
}

// histogram converts a distribution of durations.
func histogram(desc *prometheus.Desc, d *metric.Distribution, labels []string) prometheus.Metric {
	buckets := make(map[float64]uint64, mostPower-leastPower+1)
	for p := leastPower; p <= mostPower; p++ {
		buckets[math.Ldexp(1e-6, p)] = uint64(d.Below(p))
	}
	return prometheus.MustNewConstHistogram(desc, uint64(d.Count), time.Duration(d.Sum).Seconds(), buckets, labels...)
}

// summary converts a summary of Apache's, in its unit. Durations are milliseconds with a
// fraction.
func (c *collector) summary(now time.Time, desc *prometheus.Desc, d *metric.Desc, s *metric.Sample, labels []string) prometheus.Metric {
	count, sum := s.Summary.Count, float64(s.Summary.Sum)
	var quantile func(q float64) float64
	switch dist := s.Distribution; {
	case dist != nil:
		unit := 1.0
		if dist.Durations {
			unit = float64(time.Millisecond)
		}
		count, sum = dist.Count, float64(dist.Sum)/unit
		recent := c.windows.of(d.Name, s.Key).recent(now, dist)
		quantile = func(q float64) float64 {
			if recent.Count == 0 {
				return math.NaN()
			}
			return float64(recent.Quantile(q)) / unit
		}
	default:
		quantile = func(float64) float64 { return only(&s.Summary) }
	}
	quantiles := map[float64]float64{.5: quantile(.5)}
	if d.Quantiles {
		quantiles[.9], quantiles[.99] = quantile(.9), quantile(.99)
	}
	return prometheus.MustNewConstSummary(desc, uint64(count), sum, quantiles, labels...)
}

// only returns the number of a summary that has a single one. Others have no quantiles if
// they have no distribution.
func only(a *metric.Aggregate) float64 {
	if a.Count != 1 {
		return math.NaN()
	}
	return float64(a.Sum)
}
