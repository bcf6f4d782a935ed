package exporter

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// BenchmarkScrape scrapes all metrics, with the traffic of so many top-level znodes.
func BenchmarkScrape(b *testing.B) {
	for _, znodes := range []int{0, 256} {
		b.Run(fmt.Sprint("znodes=", znodes), func(b *testing.B) {
			r := metric.NewRegistry(metric.Catalogue())
			for _, name := range []string{"read_per_namespace", "write_per_namespace"} {
				set := metric.NewSet(znodes, func() *metric.Summary[int64] { return new(metric.Summary[int64]) })
				for i := range znodes {
					set.Of(fmt.Sprint("name", i)).Value.Add(int64(i))
				}
				r.Bind(name, set)
			}
			for _, d := range r.Descs() {
				if d.Quantiles && d.Absent == "" && d.Key == "" {
					h := new(metric.Histogram)
					h.Add(1000, 1e6)
					r.Bind(d.Name, h)
				}
			}
			e := New(Options{Metrics: r})
			for b.Loop() {
				e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
			}
		})
	}
}
