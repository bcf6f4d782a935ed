package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// telnetInterrupt is what a telnet client sends for ^C.
var telnetInterrupt = []byte{0xff, 0xf4, 0xff, 0xfd}

// notServing is said by a server that serves nobody: it has no quorum, is a
// leader that takes no clients (leaderServes), or its replica has stopped.
const notServing = "This ZooKeeper instance is not currently serving requests\n"

// command answers the four-letter word that b, the first bytes of a connection,
// begins with, if it does; done says that the connection is for nothing else.
// What follows the word is ignored, but the mask of stmk.
//
// The text goes out in pieces, written by this goroutine: nobody else has
// anything to send to a connection without a session. A client that does not
// read costs one piece, and for lastWords.
func (c *conn) command(b []byte) (done bool, err error) {
	if bytes.HasPrefix(b, telnetInterrupt) {
		return true, errEnd
	}
	word := string(b[:4])
	answer := commands(word)
	if answer == nil {
		return false, nil
	}
	c.mu.Lock()
	c.countReceivedLocked(1, len(word))
	c.mu.Unlock()
	t := &text{c: c, mode: c.s.mode()}
	switch {
	case !c.s.cfg.Commands.Allows(word):
		t.b = append(append(t.b, word...), " is not executed because it is not in the whitelist.\n"...)
	case word == "ruok":
		t.b = append(t.b, "imok"...)
	case t.mode != replica.Idle || needsNoState(word):
		answer(t)
	case word == "isro":
		t.b = append(t.b, "null"...)
	case word == "hash":
		t.b = append(t.b, strings.TrimSuffix(notServing, "\n")...)
	default:
		t.b = append(t.b, notServing...)
	}
	t.send()
	c.s.stats.Sent.Add(1)
	return true, errEnd
}

// mode is what the server is to its clients.
func (s *Server) mode() replica.Mode {
	m := s.replica.Mode()
	if s.replica.Stopping() || m == replica.Leader && !s.cfg.Quorum.LeaderServes {
		return replica.Idle
	}
	return m
}

// needsNoState reports whether a server answers the word that serves nobody.
func needsNoState(word string) bool { return word == "envi" || word == "gtmk" || word == "stmk" }

// commands returns what answers a word, nil for what is none. The text of all
// is Apache's, down to the white space; where 3.8 and 3.9 differ it is 3.9's.
func commands(word string) func(*text) {
	switch word {
	case "ruok":
		return func(*text) {}
	case "srvr":
		return (*text).srvr
	case "stat":
		return (*text).stat
	case "cons":
		return (*text).cons
	case "crst":
		return (*text).crst
	case "srst":
		return (*text).srst
	case "conf":
		return (*text).conf
	case "dirs":
		return (*text).dirs
	case "dump":
		return (*text).dump
	case "envi":
		return (*text).envi
	case "mntr":
		return (*text).mntr
	case "isro":
		return (*text).isro
	case "hash":
		return (*text).hash
	case "wchs":
		return (*text).wchs
	case "wchc":
		return (*text).wchc
	case "wchp":
		return (*text).wchp
	case "gtmk":
		return (*text).gtmk
	case "stmk":
		return (*text).stmk
	}
	return nil
}

// text is the answer to a word on its way to the client. After the first write
// that fails nothing more is sent.
type text struct {
	c    *conn
	mode replica.Mode // of the server when it was asked
	b    []byte       // not sent yet
	err  error
}

// pieceBytes is how much of a text gathers before it is sent.
const pieceBytes = 32 << 10

// spill sends the text if it is a piece. It must not be called with a lock
// held. False means that nobody reads any more.
func (t *text) spill() bool {
	if len(t.b) >= pieceBytes {
		t.send()
	}
	return t.err == nil
}

// send sends what there is.
func (t *text) send() {
	for b := t.b; len(b) > 0 && t.err == nil; {
		piece := b[:min(len(b), 2*pieceBytes)]
		if t.err = t.c.nc.SetWriteDeadline(time.Now().Add(lastWords)); t.err == nil {
			_, t.err = t.c.nc.Write(piece)
		}
		b = b[len(piece):]
	}
	t.b = t.b[:0]
}
