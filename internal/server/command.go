package server

import (
	"bytes"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// telnetInterrupt is what a telnet client sends when its user types ^C.
var telnetInterrupt = []byte{0xff, 0xf4, 0xff, 0xfd}

// notServing is the answer of a server that serves no clients: it has no quorum, it is
// a leader and leaderServes is no, or its replica has stopped.
const notServing = "This ZooKeeper instance is not currently serving requests\n"

// command answers the four-letter word at the beginning of b, the first bytes of a
// connection. done reports whether there is one; then err is not nil and the caller
// closes the connection. Bytes after the word are ignored, except the mask of stmk.
//
// This goroutine writes the answer, in pieces: no other goroutine writes to a
// connection without a session. For a client that does not read, the server keeps one
// piece, for at most lastWords.
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
		if isLong(word) {
			t.place = c.s.texts.begin()
		}
		answer(t)
		t.place.end()
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

// mode returns the mode that clients see: Idle if the server does not serve them.
func (s *Server) mode() replica.Mode {
	m := s.replica.Mode()
	if s.replica.Stopping() || m == replica.Leader && !s.cfg.Quorum.LeaderServes {
		return replica.Idle
	}
	return m
}

// isLong reports whether the answer to the word may be long, and is made in turns from its beginning. That to dump is
// when it has its copies.
func isLong(word string) bool {
	return word == "mntr" || word == "cons" || word == "stat" || word == "wchc" || word == "wchp"
}

// needsNoState reports whether a server answers the word even if it serves no clients.
func needsNoState(word string) bool { return word == "envi" || word == "gtmk" || word == "stmk" }

// commands returns the function that answers a word, nil if there is no such word. All
// texts are Apache's, including the white space; where 3.8 and 3.9 differ, 3.9's.
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

// A text is the answer to a word while it is being sent. After a write has failed,
// nothing more is sent.
type text struct {
	c     *conn
	mode  replica.Mode // of the server when the word came
	b     []byte       // not sent yet
	err   error        // of the write that failed
	place place        // in Server.texts, while it is made and if it is long
}

// pieceBytes is the length from which spill sends what a text has.
const pieceBytes = 32 << 10

// spill sends the text if it has at least pieceBytes. The caller must not hold a lock:
// a slow client blocks the write. False means that the client has gone or does not read.
func (t *text) spill() bool {
	if len(t.b) >= pieceBytes {
		t.send()
	}
	return t.err == nil
}

// add appends s, of any length, and sends the pieces that are complete. It returns what spill does, under the same
// conditions.
func (t *text) add(s string) bool {
	for ; len(s) > pieceBytes/2 && t.spill(); s = s[pieceBytes/2:] {
		t.b = append(t.b, s[:pieceBytes/2]...)
	}
	if t.err == nil {
		t.b = append(t.b, s...)
	}
	return t.spill()
}

// send sends the whole text. The client has lastWords for each write. It has no place meanwhile.
func (t *text) send() {
	if t.place.has {
		t.place.end()
		defer func() { t.place = t.c.s.texts.begin() }()
	}
	for b := t.b; len(b) > 0 && t.err == nil; {
		piece := b[:min(len(b), 2*pieceBytes)]
		if t.err = t.c.sock.SetWriteDeadline(time.Now().Add(lastWords)); t.err == nil {
			_, t.err = t.c.sock.Write(piece)
		}
		b = b[len(piece):]
	}
	t.b = t.b[:0]
}
