package server

import (
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// mntr prints the registry in the format of Apache ZooKeeper. Every key that an Apache
// 3.8 or 3.9 in the same mode prints is there, so that no dashboard and no alert loses
// one.
func (t *text) mntr() {
	metrics := t.c.s.metrics.Snapshot()
	for len(metrics) > 0 {
		n := 1
		if metrics[0].Key == "server" { // learner by learner, not metric by metric
			for n < len(metrics) && metrics[n].Key == "server" {
				n++
			}
		}
		t.metrics(metrics[:n])
		metrics = metrics[n:]
	}
}

// metrics prints metrics of which all have the keys of the first, key by key.
func (t *text) metrics(metrics []metric.Metric) {
	for i := range metrics[0].Samples {
		for _, m := range metrics {
			if !m.Own || m.WithLimits && t.c.s.limits != nil {
				t.sample(m.Desc, &m.Samples[i])
			}
		}
	}
}

// sample prints one value of a metric.
func (t *text) sample(d *metric.Desc, s *metric.Sample) {
	key := d.Name
	if d.Key != "" {
		key = s.Key + "_" + key
	}
	switch {
	case d.Type == metric.TypeInfo:
		t.line(key, s.Text)
	case d.Type == metric.TypeSummary:
		t.summary(key, &s.Summary, d.Quantiles)
	case d.Decimal:
		t.line(key, decimal(s.Decimal))
	default:
		t.integer("", key, s.Int)
	}
}

// line prints one line.
func (t *text) line(key, value string) {
	t.b = append(append(append(t.b, "zk_"...), key...), '\t')
	t.b = append(append(t.b, value...), '\n')
}

// integer prints one line.
func (t *text) integer(prefix, key string, v int64) {
	t.b = append(append(append(append(t.b, "zk_"...), prefix...), key...), '\t')
	t.b = append(strconv.AppendInt(t.b, v, 10), '\n')
}

// summary prints the five lines of a summary, or nine if it has quantiles.
func (t *text) summary(key string, a *metric.Aggregate, quantiles bool) {
	t.line("avg_"+key, decimal(a.Average))
	t.integer("min_", key, a.Min)
	t.integer("max_", key, a.Max)
	t.integer("cnt_", key, a.Count)
	t.integer("sum_", key, a.Sum)
	if quantiles {
		t.integer("p50_", key, a.P50)
		t.integer("p95_", key, a.P95)
		t.integer("p99_", key, a.P99)
		t.integer("p999_", key, a.P999)
	}
}
