package server

import (
	"fmt"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/zk"
)

// wchs, wchc and wchp show the data watches only, as in Apache.

func (t *text) wchs() {
	var watchers, paths, watches int
	t.c.s.replica.Watches(func(w *watch.Tables) { watchers, paths, watches = w.Summary() })
	t.b = fmt.Appendf(t.b, "%d connections watching %d paths\nTotal watches:%d\n", watchers, paths, watches)
}

// watchesPage is how many watches eachWatch lists under one lock.
const watchesPage = 512

// eachWatch calls f with every watch that list returns, with no lock held. list
// continues at the place that it is given.
func (t *text) eachWatch(list func(*watch.Tables, *watch.Place, []watch.Watch) []watch.Watch, f func(watch.Watch)) {
	var at watch.Place
	page := make([]watch.Watch, 0, watchesPage)
	for {
		t.c.s.replica.Watches(func(w *watch.Tables) { page = list(w, &at, page[:0]) })
		if len(page) == 0 {
			return
		}
		for _, w := range page {
			f(w)
			if !t.spill() {
				return
			}
		}
	}
}

// sessionOf returns the session of the connection w, 0 if it is closed.
func (s *Server) sessionOf(w watch.ID) zk.SessionID {
	s.mu.Lock()
	var c *conn
	if int(w) < len(s.mu.conns) {
		c = s.mu.conns[w]
	}
	s.mu.Unlock()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.session
}

// wchc lists the watched paths of each session.
func (t *text) wchc() {
	first, last, id := true, watch.ID(0), zk.SessionID(0)
	t.eachWatch((*watch.Tables).ListWatchers, func(w watch.Watch) {
		if first || w.Watcher != last {
			first, last = false, w.Watcher
			if id = t.c.s.sessionOf(last); id != 0 {
				t.b = fmt.Appendf(t.b, "0x%x\n", uint64(id))
			}
		}
		if id != 0 {
			t.b = append(append(append(t.b, '\t'), w.Path...), '\n')
		}
	})
	t.b = append(t.b, '\n')
}

// wchp lists the sessions that watch each path.
func (t *text) wchp() {
	none := true
	var last watch.Watch
	id := zk.SessionID(0) // of last's watcher
	t.eachWatch((*watch.Tables).ListPaths, func(w watch.Watch) {
		if none || w.Watcher != last.Watcher {
			id = t.c.s.sessionOf(w.Watcher)
			last.Watcher = w.Watcher
		}
		if id == 0 {
			return
		}
		if none || w.Path != last.Path {
			none, last.Path = false, w.Path
			t.b = append(append(t.b, w.Path...), '\n')
		}
		t.b = strconv.AppendUint(append(t.b, "\t0x"...), uint64(id), 16)
		t.b = append(t.b, '\n')
	})
	t.b = append(t.b, '\n')
}
