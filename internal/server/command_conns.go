package server

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// connsPage is how many connections eachConn looks up at a time.
const connsPage = 256

// eachConn calls f with every connection. Between two pages it sends what f has
// appended.
func (t *text) eachConn(f func(*conn)) { t.c.s.eachConn(f, t.spill) }

// eachConn calls f with every connection, with no lock held. Between two pages it calls
// goOn, unless that is nil, and returns if the answer is false. A connection that opens
// or closes in the meantime may be missing.
func (s *Server) eachConn(f func(*conn), goOn func() bool) {
	var page [connsPage]*conn
	for at := 0; ; {
		s.mu.Lock()
		n := copy(page[:], s.mu.conns[min(at, len(s.mu.conns)):])
		s.mu.Unlock()
		for _, c := range page[:n] {
			if c != nil {
				f(c)
			}
		}
		at += n
		if n < connsPage || goOn != nil && !goOn() {
			return
		}
	}
}

func (t *text) cons() {
	t.eachConn(func(c *conn) { t.connLine(c, true) })
	t.b = append(t.b, '\n')
}

// connLine prints the line of a connection: the full one of cons, or the short one of
// stat.
func (t *text) connLine(c *conn, full bool) {
	s := c.status()
	t.b = append(t.b, ' ')
	t.b = AppendAddr(t.b, s.Remote)
	t.b = fmt.Appendf(t.b, "[%x](queued=%d,recved=%d,sent=%d", t.interest(c, &s), s.Queued, s.Received, s.Sent)
	if full && s.Session != 0 {
		t.b = fmt.Appendf(t.b, ",sid=0x%x,lop=%s,est=%d,to=%d", uint64(s.Session), s.LastOp, s.Established.UnixMilli(), s.TimeoutMillis)
		if s.LastCxid >= 0 {
			t.b = fmt.Appendf(t.b, ",lcxid=0x%x", s.LastCxid)
		}
		t.b = fmt.Appendf(t.b, ",lzxid=0x%x,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", uint64(s.LastZxid),
			s.LastReply.Milliseconds(), s.Last.Milliseconds(), s.Min.Milliseconds(), s.Average.Milliseconds(), s.Max.Milliseconds())
	}
	if full {
		c.mu.Lock()
		t.b = c.appendLimits(t.b)
		c.mu.Unlock()
	}
	t.b = append(t.b, ")\n"...)
}

// interest returns the operations for which Apache's selector would wait on c. It does
// not wait on the connection that sent the word.
func (t *text) interest(c *conn, s *ConnStatus) int {
	if c == t.c {
		return 0
	}
	return s.InterestOps()
}

// InterestOps returns the operations for which Apache's selector would wait on the
// connection: 1 is reading, 4 is writing.
func (s *ConnStatus) InterestOps() int {
	if s.HasOutput {
		return 1 | 4
	}
	return 1
}

// lastOp returns Apache's name of an operation in cons. Its traces have other names for
// some.
func lastOp(op wire.OpCode) string {
	switch op {
	case wire.OpNotification:
		return "NA"
	case wire.OpMultiRead:
		return "MLTR"
	case wire.OpSetWatches2:
		return "STW2"
	case wire.OpGetAllChildrenNumber:
		return "GETACN"
	case wire.OpWhoAmI:
		return "HOMI"
	}
	return op.String()
}

// AppendAddr appends an address in Java's format: a slash, IPv6 with all eight groups,
// no zone.
func AppendAddr(b []byte, a netip.AddrPort) []byte {
	ip := a.Addr()
	switch {
	case ip.Is4():
		b = ip.AppendTo(append(b, '/'))
	case ip.Is6():
		b = append(b, "/["...)
		for i, raw := 0, ip.As16(); i < len(raw); i += 2 {
			if i > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendUint(b, uint64(raw[i])<<8|uint64(raw[i+1]), 16)
		}
		b = append(b, ']')
	default:
		b = append(b, "/0.0.0.0"...) // a connection in memory
	}
	return strconv.AppendUint(append(b, ':'), uint64(a.Port()), 10)
}

// javaDate is the format of java.util.Date.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

func dateOf(millis int64) string { return time.UnixMilli(millis).Format(javaDate) }

func (t *text) dump() {
	if !t.c.s.awaitDump() {
		t.b = append(t.b, notServing...)
		return
	}
	defer t.c.s.endDump()
	if !t.sessions() {
		t.b = append(t.b, notServing...)
		return
	}
	t.spill()
	t.place = t.c.s.texts.begin()
	t.b = append(t.b, "ephemeral nodes dump:\n"...)
	t.ephemerals()
	t.b = append(t.b, "Connections dump:\n"...)
	t.connBuckets()
}

// maxDumps is how many answers to dump may hold a copy of sessions and ephemerals at a time.
const maxDumps = 2

// awaitDump waits until the answer to dump may hold a copy of sessions and ephemerals, for lastWords at most. After true
// the caller calls endDump.
func (s *Server) awaitDump() bool {
	timeout := time.NewTimer(lastWords)
	defer timeout.Stop()
	select {
	case s.dumps <- struct{}{}:
		return true
	case <-timeout.C:
		return false
	}
}

func (s *Server) endDump() { <-s.dumps }

// sessions lists the sessions: by expiry on a server that expires them, which is a
// leader or a standalone server, and with their timeouts on a learner. False means that
// the replica's loop did not answer.
func (t *text) sessions() bool {
	s := t.c.s
	decides := t.mode == replica.Standalone || t.mode == replica.Leader
	dump, ok := s.Sessions()
	if !ok {
		return false
	}
	t.b = append(t.b, "SessionTracker dump:\n"...)
	if dump.KeepsLocal {
		t.b = append(t.b, "Local "...)
		t.b = session.AppendDump(t.b, dump.Local, dateOf)
	}
	if decides {
		if dump.KeepsLocal {
			t.b = append(t.b, "Global "...)
		}
		t.b = session.AppendDump(t.b, dump.Global, dateOf)
		return true
	}
	var known []session.Timeout
	s.replica.View(func(tree replica.View) {
		tree.Sessions(func(id zk.SessionID, timeout int32) {
			known = append(known, session.Timeout{ID: id, Millis: timeout})
		})
	})
	slices.SortFunc(known, func(a, b session.Timeout) int { return cmp.Compare(uint64(a.ID), uint64(b.ID)) })
	t.b = fmt.Appendf(t.b, "Global Sessions(%d):\n", len(known))
	for _, k := range known {
		t.b = fmt.Appendf(t.b, "0x%x\t%dms\n", uint64(k.ID), k.Millis)
		if !t.spill() {
			break
		}
	}
	return true
}

// Sessions asks the replica's loop for the sessions, and waits for the answer for
// at most five seconds: the loop may be blocked, or have ended. ok is false if there is no
// answer.
func (s *Server) Sessions() (d replica.SessionDump, ok bool) {
	answer := make(chan replica.SessionDump, 1)
	s.replica.DumpSessions(func(d replica.SessionDump) { answer <- d })
	timeout := time.NewTimer(lastWords)
	defer timeout.Stop()
	select {
	case d = <-answer:
		return d, true
	case <-s.replica.Failed():
	case <-timeout.C:
	}
	return d, false
}

// ephemerals lists the ephemeral znodes by session.
func (t *text) ephemerals() {
	s := t.c.s
	ids := s.ephemeralSessions()
	t.b = fmt.Appendf(t.b, "Sessions with Ephemerals (%d):\n", len(ids))
	var paths []string
	for _, id := range ids {
		paths = s.ephemeralsOf(id, paths[:0])
		slices.Sort(paths)
		t.b = fmt.Appendf(t.b, "0x%x:\n", uint64(id))
		for _, path := range paths {
			t.b = append(t.b, '\t')
			t.add(path)
			if t.b = append(t.b, '\n'); !t.spill() {
				return
			}
		}
	}
}

// A liveConn is a connection as dump shows it.
type liveConn struct {
	expiry  int64 // milliseconds since 1970
	remote  netip.AddrPort
	session zk.SessionID
}

// sessionlessExpiry is the timeout of a connection that has no session yet, and the
// width of the buckets of dump, if nio.sessionlessCnxnTimeout is not positive.
const sessionlessExpiry = 10 * time.Second

// connBuckets lists the connections by the time at which Apache would close each of them
// if its client sent nothing more.
func (t *text) connBuckets() {
	width := t.c.s.cfg.Client.SessionlessTimeout
	if width <= 0 {
		width = sessionlessExpiry
	}
	var conns []liveConn
	t.eachConn(func(c *conn) {
		c.mu.Lock()
		l := liveConn{remote: c.remote, session: c.mu.session}
		timeout := int64(c.mu.timeout)
		c.mu.Unlock()
		heard := t.c.s.replica.Millis(c.LastHeard())
		if l.session == 0 {
			heard, timeout = c.established, width.Milliseconds()
		}
		l.expiry = ((heard+timeout)/width.Milliseconds() + 1) * width.Milliseconds()
		conns = append(conns, l)
	})
	slices.SortStableFunc(conns, func(a, b liveConn) int { return cmp.Compare(a.expiry, b.expiry) })
	buckets := 0
	for i := range conns {
		if i == 0 || conns[i].expiry != conns[i-1].expiry {
			buckets++
		}
	}
	t.b = fmt.Appendf(t.b, "Connections Sets (%d)/(%d):\n", buckets, len(conns))
	for begin := 0; begin < len(conns); {
		end := begin
		for end < len(conns) && conns[end].expiry == conns[begin].expiry {
			end++
		}
		t.b = fmt.Appendf(t.b, "%d expire at %s:\n", end-begin, dateOf(conns[begin].expiry))
		for _, l := range conns[begin:end] {
			t.b = AppendAddr(append(t.b, "\tip: "...), l.remote)
			t.b = fmt.Appendf(t.b, " sessionId: 0x%x\n", uint64(l.session))
			if !t.spill() {
				return
			}
		}
		begin = end
	}
}
