package server

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Connections end in turns, and none has a place while it waits for its client.
func TestConnectionsEndInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		places := s.srv.endings
		path := "/" + strings.Repeat("p", 2*rigBuffer)
		var unread []*wireClient
		for range 2 * cap(places) {
			c := s.open()
			c.call(wire.OpExists, readBody(path, true))
			unread = append(unread, c)
		}
		s.open().create(path, "", zk.Persistent) // they do not read the event
		for _, c := range unread {
			flood(c, []byte{0xff, 0xff, 0xff, 0xff}) // no length of a frame: the connection ends
		}
		synctest.Wait()
		hangUp := func() (ended func() bool) {
			c := s.open()
			c.nc.Close()
			synctest.Wait()
			return func() bool { return s.connOf(c) == nil }
		}
		if !hangUp()() {
			t.Error("a connection does not end beside those whose clients do not read the last event")
		}
		if len(places) != 0 {
			t.Fatalf("%d places are taken", len(places))
		}
		var taken []place
		for range cap(places) {
			taken = append(taken, places.begin())
		}
		ended := hangUp()
		if ended() {
			t.Error("a connection has ended while all places were taken")
		}
		for range 2 { // the second end of a place does nothing
			taken[0].end()
		}
		synctest.Wait()
		if !ended() || len(places) != cap(places)-1 {
			t.Errorf("after a place is free: ended %v, %d places are taken", ended(), len(places))
		}
		for i := range taken {
			taken[i].end()
		}
	})
}
