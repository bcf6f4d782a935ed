package cli

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A watchKind is a kind of watch that removewatches distinguishes.
type watchKind int

const (
	watchChildren watchKind = iota
	watchData
	watchPersistent
	watchRecursive
)

// watchList holds the watches of the connection that have not ended. It is
// shared by the shell and the goroutines that print events.
type watchList struct {
	mu     sync.Mutex
	list   []heldWatch
	number int         // of watches so far
	told   []toldEvent // the latest, the oldest first
}

type heldWatch struct {
	kind   watchKind
	watch  *client.Watch
	number int // watches are numbered as they are left
}

// A toldEvent is an event that has been printed. The server reports a change once, and
// the client delivers it to all its watches for it; it is printed once, as zkCli.sh
// does.
type toldEvent struct {
	event   zk.Event
	at      time.Time
	watch   int   // the number of the latest watch then; later ones have not seen this change
	tellers []int // the numbers of the watches that have reported it
}

// sameChange is the longest time between two watches' reports of one change.
const sameChange = 100 * time.Millisecond

func (l *watchList) add(kind watchKind, w *client.Watch) (number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	l.list = append(l.list, heldWatch{kind, w, l.number})
	return l.number
}

// first reports whether a watch is the first one that reports a change.
func (l *watchList) first(e zk.Event, number int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.told = slices.DeleteFunc(l.told, func(t toldEvent) bool { return now.Sub(t.at) > sameChange })
	for i := range l.told {
		t := &l.told[i]
		if t.event == e && number <= t.watch && !slices.Contains(t.tellers, number) {
			t.tellers = append(t.tellers, number)
			return false
		}
	}
	l.told = append(l.told, toldEvent{event: e, at: now, watch: l.number, tellers: []int{number}})
	return true
}

func (l *watchList) remove(w *client.Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(h heldWatch) bool { return h.watch == w })
}

// on returns the watches on a znode of one of the kinds.
func (l *watchList) on(path string, kinds ...watchKind) []heldWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []heldWatch
	for _, h := range l.list {
		if h.watch.Path() == path && slices.Contains(kinds, h.kind) {
			found = append(found, h)
		}
	}
	return found
}

func (l *watchList) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.told = nil, nil
}

// follow prints the events of a watch that a command has left, until the watch ends.
// Events that another watch has reported are skipped.
func (s *shell) follow(kind watchKind, w *client.Watch) {
	if w == nil {
		return
	}
	number := s.watches.add(kind, w)
	s.followers.Go(func() {
		for e := range w.Events() {
			if (e.Type != zk.EventNone || e.State == zk.StateSyncConnected) && s.watches.first(e, number) {
				s.printEvent(e)
			}
		}
		s.watches.remove(w)
	})
}

// followStates reports to the outage when a connection is lost and restored, until it is
// closed.
// On a terminal it also prints the changes.
func (s *shell) followStates(c *client.Client, servers string) {
	states, _ := c.States()
	s.followers.Go(func() {
		defer s.outage.set(servers, false)
		for state := range states {
			s.outage.set(servers, lost(state))
			if !s.terminal {
				continue
			}
			if s.prompt != nil {
				s.prompt.setState(stateWord(state))
			}
			s.printEvent(zk.Event{Type: zk.EventNone, State: keeperState(state)})
		}
	})
}

func keeperState(s client.State) zk.KeeperState {
	switch s {
	case client.Connected:
		return zk.StateSyncConnected
	case client.ConnectedReadOnly:
		return zk.StateConnectedReadOnly
	case client.Expired:
		return zk.StateExpired
	case client.AuthFailed:
		return zk.StateAuthFailed
	case client.Closed:
		return zk.StateClosed
	}
	return zk.StateDisconnected
}

// printEvent prints an event as zkCli.sh does.
func (s *shell) printEvent(e zk.Event) {
	if !s.printWatches.Load() {
		return
	}
	path := e.Path
	if path == "" {
		path = "null"
	}
	if s.format != jsonl {
		fmt.Fprintf(s.out, "\nWATCHER::\n\nWatchedEvent state:%s type:%s path:%s\n", stateName(e.State), e.Type, path)
		return
	}
	text, err := encodeJSON(struct {
		Event string `json:"event"`
		State string `json:"state"`
		Path  string `json:"path,omitempty"`
	}{e.Type.String(), stateName(e.State), e.Path})
	if err == nil { // strings always encode
		s.out.Write(text)
	}
}

// stateName is a state as Java names it.
func stateName(s zk.KeeperState) string {
	switch s {
	case zk.StateDisconnected:
		return "Disconnected"
	case zk.StateSyncConnected:
		return "SyncConnected"
	case zk.StateAuthFailed:
		return "AuthFailed"
	case zk.StateConnectedReadOnly:
		return "ConnectedReadOnly"
	case zk.StateSaslAuthenticated:
		return "SaslAuthenticated"
	case zk.StateExpired:
		return "Expired"
	case zk.StateClosed:
		return "Closed"
	}
	return fmt.Sprintf("%d", s)
}
