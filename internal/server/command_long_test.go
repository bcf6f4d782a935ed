package server

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A text keeps at most some pieces, however long the names and the paths in it are.
func TestTextOfLongPathsIsBounded(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	long := "/" + strings.Repeat("l", 500_000)
	k.create(long, "", zk.Ephemeral)
	k.read(wire.OpGetData, long, true)
	for i := range maxNamespaces {
		k.create(fmt.Sprintf("/%03d%s", i, strings.Repeat("n", metric.MaxKeyBytes-3)), "", zk.Persistent)
	}
	s.foldAll()
	for _, word := range []string{"mntr", "wchc", "wchp", "dump"} {
		client, server := net.Pipe()
		read := make(chan string)
		go func() {
			b, err := io.ReadAll(client)
			if err != nil {
				t.Error(err)
			}
			read <- string(b)
		}()
		x := &text{c: s.newConn(server, netip.AddrPort{}), mode: s.mode()}
		commands(word)(x)
		if most := cap(x.b); x.err != nil || most > 3*pieceBytes {
			t.Errorf("%s: %d bytes gathered, %v", word, most, x.err)
		}
		x.place.end()
		x.send()
		server.Close()
		if got := <-read; word != "mntr" && !strings.Contains(got, long+"\n") || len(got) < 10*pieceBytes {
			t.Errorf("%s: %d bytes, without the path", word, len(got))
		}
	}
}

// The paths of ephemerals and of quotas are read in pieces of the tree's lock, according to their lengths.
func TestLongPathsAreReadInPieces(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	const n = 8
	long := strings.Repeat("p", 300_000)
	for i := range n {
		k.create(fmt.Sprintf("/%d%s", i, long), "", zk.Ephemeral)
	}
	holds := func(f func()) int64 {
		before := s.replica.Stats().ReadHolds.Distribution().Count
		f()
		return s.replica.Stats().ReadHolds.Distribution().Count - before
	}
	if got := holds(func() {
		if paths := s.ephemeralsOf(k.resp.SessionID, nil); len(paths) != n || len(paths[0]) != len(long)+2 {
			t.Errorf("%d paths", len(paths))
		}
	}); got < n {
		t.Errorf("%d long paths under %d holds of the lock", n, got)
	}
	snapshot := func() { s.metrics.Snapshot() }
	without := holds(snapshot)
	for _, path := range []string{"/q", "/zookeeper/quota/q"} {
		k.create(path, "", zk.Persistent)
	}
	for i := range n {
		quota := fmt.Sprintf("/zookeeper/quota/q/%d%s", i, long)
		k.create(quota, "", zk.Persistent)
		k.create(quota+"/zookeeper_limits", "count=5,bytes=5", zk.Persistent)
		k.create(quota+"/zookeeper_stats", "count=1,bytes=0", zk.Persistent)
	}
	if got := holds(snapshot) - without; got < n-1 {
		t.Errorf("%d quotas of long paths under %d more holds of the lock", n, got)
	}
}

// unread asks, and reads nothing of the answer.
func (s *testServer) unread(t *testing.T, word string) {
	client, server := net.Pipe()
	s.accept(server, nil)
	mustWrite(t, client, word)
}

// Long answers are made in turns. One that is being sent, or that waits for its turn, keeps no client waiting, and no short
// answer.
func TestLongAnswersAreMadeInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		k := connect(t, s.pipe(), 30000)
		for range cap(s.texts) {
			s.texts <- struct{}{} // others make theirs
		}
		answers := make(chan string)
		for range 3 {
			c := s.pipe()
			go func() { answers <- ask(t, c, "mntr") }()
		}
		synctest.Wait()
		if began := time.Now(); k.create("/created", "", zk.Persistent).Err != zk.OK || ask(t, s.pipe(), "ruok") != "imok" || time.Since(began) > 0 {
			t.Error("others have to wait")
		}
		select {
		case <-answers:
			t.Error("an answer is made out of turn")
		default:
		}
		for range cap(s.texts) {
			<-s.texts
		}
		for range 3 {
			if a := <-answers; !strings.Contains(a, "zk_znode_count") {
				t.Errorf("%q", a)
			}
		}
		for range 2 * cap(s.texts) {
			s.unread(t, "mntr")
		}
		synctest.Wait()
		began := time.Now()
		if a := ask(t, s.pipe(), "mntr"); !strings.Contains(a, "zk_znode_count") || time.Since(began) > 0 || len(s.texts) > 0 {
			t.Errorf("%q after %v", a, time.Since(began))
		}
	})
}

// So many answers to dump at a time have copies of sessions and ephemerals. Others wait, and then say that the server does
// not serve them.
func TestDumpsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, nil)
		k := connect(t, s.pipe(), 30000)
		k.create("/e"+strings.Repeat("e", 4*pieceBytes), "", zk.Ephemeral)
		for range maxDumps {
			s.unread(t, "dump")
		}
		time.Sleep(time.Second)
		began := time.Now()
		if got := ask(t, s.pipe(), "dump"); !strings.Contains(got, "\t/eee") || time.Since(began) != lastWords-time.Second {
			t.Errorf("%d bytes after %v", len(got), time.Since(began))
		}
		for range maxDumps {
			s.dumps <- struct{}{}
		}
		began = time.Now()
		if got := ask(t, s.pipe(), "dump"); got != notServing || time.Since(began) != lastWords {
			t.Errorf("%q after %v", got, time.Since(began))
		}
		for range maxDumps {
			<-s.dumps
		}
	})
}
