package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// portStranger is a client that sends what a script says. Its goroutines write what it
// sends and check what it is sent: frames, which answer its requests in their order.
type portStranger struct {
	nc     net.Conn
	outbox chan []byte
	sent   []byte // all that was put into outbox
	tail   []byte // the rest of a frame of which only the beginning was sent
	xid    int32

	mu struct {
		sync.Mutex
		sync.Cond      // signalled when reading changes
		reading   bool // otherwise it reads nothing
		closed    bool // by the client
		ended     bool // the server has closed the connection
		in        frames.Splitter
		word      bool // it has asked a four-letter word, whose answer is text
		greeted   bool // the handshake is answered
		session   wire.ConnectResponse
		asked     []wire.RequestHeader // complete frames that were sent
		parsed    int                  // bytes of sent that asked covers
		corrupt   bool                 // what was sent after parsed is no frame
		states    map[[2]int]bool      // how many requests may be answered: in order, and at once
		last      zk.Zxid              // of the last reply
		ambiguous bool                 // a request had the xid of events
		err       error                // the first violation
	}
}

func newPortStranger(nc net.Conn) *portStranger {
	s := &portStranger{nc: nc, outbox: make(chan []byte, portMaxSends)}
	s.mu.L = &s.mu.Mutex
	s.mu.reading, s.mu.states = true, map[[2]int]bool{{0, 0}: true}
	go s.write()
	go s.read()
	return s
}

// portMaxSends is more than a script can send.
const portMaxSends = 4096

func (s *portStranger) write() {
	for b := range s.outbox {
		_, _ = s.nc.Write(b) // fails if either side has closed the connection
	}
}

// send hands bytes to the writer.
func (s *portStranger) send(b []byte) {
	s.mu.Lock()
	s.sent = append(s.sent, b...)
	s.parse()
	s.mu.Unlock()
	s.outbox <- b
}

// parse finds the requests in what was sent. REQUIRES: s.mu.
func (s *portStranger) parse() {
	for !s.mu.corrupt {
		rest := s.sent[s.mu.parsed:]
		if len(rest) < 4 {
			return
		}
		if s.mu.parsed == 0 && commands(string(rest[:4])) != nil {
			s.mu.word, s.mu.corrupt = true, true
			return
		}
		n := int(int32(binary.BigEndian.Uint32(rest)))
		if n < 0 || n > portMaxFrame {
			s.mu.corrupt = true
			return
		}
		if len(rest) < 4+n {
			return
		}
		if s.mu.parsed > 0 {
			if n < 8 {
				s.mu.corrupt = true
				return
			}
			d := jute.NewDecoder(rest[4:])
			var h wire.RequestHeader
			h.Decode(&d)
			s.mu.asked = append(s.mu.asked, h)
			s.mu.ambiguous = s.mu.ambiguous || h.Xid == wire.XidNotification
		}
		s.mu.parsed += 4 + n
	}
}

// close ends the connection; half is as shutdown of the socket for writing.
func (s *portStranger) close(half bool) {
	if c, ok := s.nc.(interface{ CloseWrite() error }); ok && half {
		_ = c.CloseWrite() // never fails
		return
	}
	s.nc.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closed {
		s.mu.closed = true
		close(s.outbox)
	}
	s.mu.Broadcast()
}

// setReading makes the client read, or stop reading.
func (s *portStranger) setReading(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.reading = on
	s.mu.Broadcast()
}

func (s *portStranger) read() {
	b := make([]byte, 32<<10)
	for {
		s.mu.Lock()
		for !s.mu.reading && !s.mu.closed {
			s.mu.Wait()
		}
		s.mu.Unlock()
		n, err := s.nc.Read(b)
		s.mu.Lock()
		if s.mu.in.Add(b[:n]); !s.mu.word && s.mu.err == nil {
			s.mu.err = s.judge()
		}
		if err != nil {
			s.mu.ended = true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// judge checks the complete frames that have come. REQUIRES: s.mu.
func (s *portStranger) judge() error {
	for {
		body, ok := s.mu.in.Next()
		if !ok {
			return nil
		}
		d := jute.NewDecoder(body)
		if !s.mu.greeted {
			s.mu.greeted = true
			if s.mu.session.Decode(&d); d.Err() != nil || d.Len() > 0 || len(s.mu.session.Password) != wire.PasswordLen {
				return fmt.Errorf("the answer to the handshake is %x", body)
			}
			s.mu.session.Password = bytes.Clone(s.mu.session.Password)
			continue
		}
		var h wire.ReplyHeader
		if h.Decode(&d); d.Err() != nil {
			return fmt.Errorf("a reply of %d bytes", len(body))
		}
		if err := s.judgeReply(h, d.Rest()); err != nil {
			return err
		}
	}
}

// judgeReply checks an event or a reply. REQUIRES: s.mu.
func (s *portStranger) judgeReply(h wire.ReplyHeader, body []byte) error {
	event := h.Xid == wire.XidNotification && isEvent(h, body)
	next := map[[2]int]bool{}
	ordered := false
	for at := range s.mu.states {
		if event {
			next[at] = true
		}
		if i, q := s.nextAsked(at[0], false); q != nil && answers(q, h, body) {
			next[[2]int{i + 1, at[1]}], ordered = true, true
		}
		if i, q := s.nextAsked(at[1], true); q != nil && answers(q, h, body) {
			next[[2]int{at[0], i + 1}] = true
		}
	}
	if len(next) == 0 {
		return fmt.Errorf("%+v with %d bytes is neither an event nor the reply that is due; requests %v, answered %v", h, len(body), s.mu.asked, s.mu.states)
	}
	s.mu.states = next
	switch {
	case s.mu.ambiguous:
	case event && h.Zxid != -1 && h.Zxid <= s.mu.last:
		return fmt.Errorf("an event of %v after a reply at %v", h.Zxid, s.mu.last)
	case ordered && !event && h.Zxid > 0 && h.Zxid < s.mu.last:
		return fmt.Errorf("a reply at %v after one at %v", h.Zxid, s.mu.last)
	case ordered && !event && h.Zxid > 0:
		s.mu.last = h.Zxid
	}
	return nil
}

// nextAsked returns the first request from i on that is answered at once, or in order.
func (s *portStranger) nextAsked(i int, atOnce bool) (int, *wire.RequestHeader) {
	for ; i < len(s.mu.asked); i++ {
		if q := &s.mu.asked[i]; (q.Op == wire.OpAuth || q.Op == wire.OpSASL) == atOnce {
			return i, q
		}
	}
	return i, nil
}

// answered reports whether all requests may have been answered. REQUIRES: s.mu.
func (s *portStranger) answered() bool {
	for at := range s.mu.states {
		_, ordered := s.nextAsked(at[0], false)
		_, atOnce := s.nextAsked(at[1], true)
		if ordered == nil && atOnce == nil {
			return true
		}
	}
	return false
}

// verdict returns what is wrong with what came. If the connection is still open, every
// request must be answered.
func (s *portStranger) verdict() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err == nil && !s.mu.word && !s.mu.closed && !s.mu.ended && !s.mu.corrupt && !s.answered() {
		return fmt.Errorf("not answered: requests %v, answered %v", s.mu.asked, s.mu.states)
	}
	return s.mu.err
}

// known returns the session, if the client has one.
func (s *portStranger) known() (wire.ConnectResponse, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.session, s.mu.session.SessionID != 0
}

// isEvent reports whether a frame is a well-formed event.
func isEvent(h wire.ReplyHeader, body []byte) bool {
	var e wire.WatcherEvent
	d := jute.NewDecoder(body)
	e.Decode(&d)
	return d.Err() == nil && d.Len() == 0 && h.Err == zk.OK && e.Type >= zk.EventNodeCreated
}

// answers reports whether a frame is a well-formed reply to a request.
func answers(q *wire.RequestHeader, h wire.ReplyHeader, body []byte) bool {
	want := q.Xid
	if q.Op == wire.OpPing {
		want = wire.XidPing
	}
	if h.Xid != want {
		return false
	}
	if h.Err != zk.OK && q.Op != wire.OpSASL {
		return len(body) == 0
	}
	d := jute.NewDecoder(body)
	decodeReply(&d, q.Op)
	return d.Err() == nil && d.Len() == 0
}

// decodeReply reads the body of a reply without error.
func decodeReply(d *jute.Decoder, op wire.OpCode) {
	switch op {
	case wire.OpCreate:
		_ = d.String()
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		_ = d.String()
		wire.DecodeStat(d)
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		wire.DecodeStat(d)
	case wire.OpGetData, wire.OpReconfig:
		d.Buffer()
		wire.DecodeStat(d)
	case wire.OpGetACL:
		wire.DecodeACL(d)
		wire.DecodeStat(d)
	case wire.OpGetChildren, wire.OpGetEphemerals:
		d.Strings()
	case wire.OpGetChildren2:
		d.Strings()
		wire.DecodeStat(d)
	case wire.OpSync, wire.OpSASL:
		d.Buffer()
	case wire.OpGetAllChildrenNumber, wire.OpAddWatch:
		d.Int()
	case wire.OpWhoAmI:
		for range d.Count(8) {
			_, _ = d.String(), d.String()
		}
	case wire.OpMulti, wire.OpMultiRead:
		decodeResults(d)
	case wire.OpDelete, wire.OpPing, wire.OpAuth, wire.OpSetWatches, wire.OpSetWatches2, wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpCloseSession:
	default:
		d.Fail(fmt.Errorf("operation %v has no reply without error", op))
	}
}

// decodeResults reads the results of a multi or multiRead.
func decodeResults(d *jute.Decoder) {
	for d.Err() == nil {
		var h wire.MultiHeader
		switch h.Decode(d); {
		case h.Done:
			return
		case h.Type == wire.OpError:
			d.Int()
		case h.Type == wire.OpDelete || h.Type == wire.OpCheck:
		default:
			decodeReply(d, h.Type)
		}
	}
}
