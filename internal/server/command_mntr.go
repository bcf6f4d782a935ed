package server

import (
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// mntr prints the registry in the format of Apache ZooKeeper. Every key that an Apache
// 3.8 or 3.9 in the same mode prints is there, so that no dashboard and no alert loses
// one.
func (t *text) mntr() {
	t.c.s.EachValue(func(v Value) bool {
		t.b = append(append(append(t.b, "zk_"...), v.Key...), '\t')
		t.b = append(append(t.b, v.Text...), '\n')
		return t.spill()
	})
}

// A Value is a key of mntr, without a prefix, and its value.
type Value struct {
	Key    string
	Text   string
	Number bool // the text is a number
}

// EachValue calls f with every value that mntr prints, in that order, until f returns
// false.
func (s *Server) EachValue(f func(Value) bool) {
	values := values{s: s, f: f, more: true}
	metrics := s.metrics.Snapshot()
	for len(metrics) > 0 {
		n := 1
		if metrics[0].Key == "server" { // learner by learner, not metric by metric
			for n < len(metrics) && metrics[n].Key == "server" {
				n++
			}
		}
		values.metrics(metrics[:n])
		metrics = metrics[n:]
	}
}

// values is one run of EachValue.
type values struct {
	s    *Server
	f    func(Value) bool
	more bool // f has not returned false
}

// metrics passes on metrics of which all have the keys of the first, key by key.
func (v *values) metrics(metrics []metric.Metric) {
	for i := range metrics[0].Samples {
		for _, m := range metrics {
			if !m.Own || m.WithLimits && v.s.limits != nil {
				v.sample(m.Desc, &m.Samples[i])
			}
		}
	}
}

// sample passes on one value of a metric.
func (v *values) sample(d *metric.Desc, s *metric.Sample) {
	key := d.Name
	if d.Key != "" {
		key = s.Key + "_" + key
	}
	switch {
	case d.Type == metric.TypeInfo:
		v.value(Value{Key: key, Text: s.Text})
	case d.Type == metric.TypeSummary:
		v.summary(key, &s.Summary, d.Quantiles)
	case d.Decimal:
		v.decimal(key, s.Decimal)
	default:
		v.integer(key, s.Int)
	}
}

func (v *values) value(one Value) { v.more = v.more && v.f(one) }

func (v *values) integer(key string, n int64) {
	v.value(Value{key, strconv.FormatInt(n, 10), true})
}

func (v *values) decimal(key string, n float64) { v.value(Value{key, Decimal(n), true}) }

// summary passes on the five values of a summary, or nine if it has quantiles.
func (v *values) summary(key string, a *metric.Aggregate, quantiles bool) {
	v.decimal("avg_"+key, a.Average)
	v.integer("min_"+key, a.Min)
	v.integer("max_"+key, a.Max)
	v.integer("cnt_"+key, a.Count)
	v.integer("sum_"+key, a.Sum)
	if quantiles {
		v.integer("p50_"+key, a.P50)
		v.integer("p95_"+key, a.P95)
		v.integer("p99_"+key, a.P99)
		v.integer("p999_"+key, a.P999)
	}
}
