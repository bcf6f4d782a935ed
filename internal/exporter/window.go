package exporter

import (
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
)

// A quantile is that of the last ten minutes, as in Apache ZooKeeper: of the numbers that
// were added since a mark that is eight to ten minutes old. Scrapes set the marks, so a
// server that is scraped less often shows the quantiles since the scrape before.
const (
	windowLength = 10 * time.Minute
	markEvery    = 2 * time.Minute
)

// windows are the windows of all summaries.
type windows struct {
	start time.Time
	mu    sync.Mutex
	all   map[[2]string]*window // by name and key
}

func newWindows(start time.Time) *windows {
	return &windows{start: start, all: map[[2]string]*window{}}
}

// of returns the window of a summary.
func (w *windows) of(name, key string) *window {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.all[[2]string{name, key}]
	if of == nil {
		of = &window{marks: []mark{{w.start, &metric.Distribution{}}}}
		w.all[[2]string{name, key}] = of
	}
	return of
}

// window has what a summary held at some times in the last ten minutes.
type window struct {
	mu    sync.Mutex
	marks []mark // oldest first, at least one
}

type mark struct {
	at   time.Time
	held *metric.Distribution
}

// recent returns what was added to a summary in the window. held is what it holds now;
// it must not be changed.
func (w *window) recent(now time.Time, held *metric.Distribution) *metric.Distribution {
	w.mu.Lock()
	defer w.mu.Unlock()
	if held.Count < w.marks[len(w.marks)-1].held.Count { // the summary was reset
		w.marks = []mark{{now, &metric.Distribution{}}}
	}
	for len(w.marks) > 1 && now.Sub(w.marks[0].at) > windowLength {
		w.marks = w.marks[1:]
	}
	first := w.marks[0]
	if now.Sub(w.marks[len(w.marks)-1].at) >= markEvery {
		w.marks = append(w.marks, mark{now, held})
	}
	return held.Since(first.held)
}
