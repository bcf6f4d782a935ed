// Package exporter shows a server's metrics to Prometheus, under the names and with the
// types of Apache ZooKeeper's PrometheusMetricsProvider, so that dashboards and alerts
// that were made for it go on working.
//
//	exporter.go   Exporter: the HTTP handler
//	collect.go    the registry's metrics as Prometheus's
//	window.go     quantiles of the last minutes
//	listen.go     the listener of metricsProvider.httpPort
//
// What Apache ZooKeeper does not have begins with pinfold_; those metrics follow
// Prometheus's conventions: base units, histograms, _total.
//
// The text format, its escaping, what a client accepts, and the metrics of the process
// and of the Go runtime are those of github.com/prometheus/client_golang. With
// net/http it makes the stripped binary 3.7 MB larger, and a scrape costs about 1 ms
// (docs/ops/monitoring.md): that is little for a format that other people keep.
//
// A scrape allocates nothing that grows with the tree, and takes the server's locks for
// a few instructions each: see metric.Registry.Snapshot.
package exporter

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// maxScrapes is how many scrapes may run at the same time. Others are answered 503.
const maxScrapes = 4

// Options configures an exporter.
type Options struct {
	Metrics *metric.Registry
	// Process adds the metrics of the process and of the Go runtime. They are those of
	// the whole process, even if it runs several servers.
	Process bool
	Now     func() time.Time // nil: time.Now
}

// Exporter is the HTTP handler of a scrape. It answers any path and method. The query
// name[] restricts the answer to the metrics of these names.
type Exporter struct{ http.Handler }

// New returns an exporter of a registry.
func New(o Options) *Exporter {
	if o.Now == nil {
		o.Now = time.Now
	}
	all := prometheus.NewRegistry()
	all.MustRegister(newCollector(o.Metrics, o.Now))
	if o.Process {
		all.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return &Exporter{promhttp.HandlerFor(all, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		// Compression would cost more than the rest of a scrape, on the processors that
		// clients wait for.
		DisableCompression:  true,
		MaxRequestsInFlight: maxScrapes,
	})}
}
