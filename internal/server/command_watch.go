package server

import (
	"fmt"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/zk"
)

// wchs, wchc and wchp show the data watches only, as in Apache.

func (t *text) wchs() {
	watchers, paths, watches := t.c.s.WatchSummary()
	t.b = fmt.Appendf(t.b, "%d connections watching %d paths\nTotal watches:%d\n", watchers, paths, watches)
}

// watchesPage is how many watches eachWatch lists under one lock.
const watchesPage = 512

// eachWatch calls f with every watch that list returns, with no lock held, until f
// returns false. list continues at the place that it is given.
func (s *Server) eachWatch(list func(*watch.Tables, *watch.Place, []watch.Watch) []watch.Watch, f func(watch.Watch) bool) {
	var at watch.Place
	page := make([]watch.Watch, 0, watchesPage)
	for {
		s.replica.Watches(func(w *watch.Tables) { page = list(w, &at, page[:0]) })
		if len(page) == 0 {
			return
		}
		for _, w := range page {
			if !f(w) {
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
	last := zk.SessionID(0)
	t.c.s.EachWatcher(func(id zk.SessionID, path string) bool {
		if id != last {
			last = id
			t.b = fmt.Appendf(t.b, "0x%x\n", uint64(id))
		}
		t.b = append(t.b, '\t')
		t.add(path)
		t.b = append(t.b, '\n')
		return t.spill()
	})
	t.b = append(t.b, '\n')
}

// wchp lists the sessions that watch each path.
func (t *text) wchp() {
	last := ""
	t.c.s.EachWatchedPath(func(path string, id zk.SessionID) bool {
		if path != last {
			last = path
			t.add(path)
			t.b = append(t.b, '\n')
		}
		t.b = strconv.AppendUint(append(t.b, "\t0x"...), uint64(id), 16)
		t.b = append(t.b, '\n')
		return t.spill()
	})
	t.b = append(t.b, '\n')
}
