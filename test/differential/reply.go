package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// itemKind says what came from a server.
type itemKind string

const (
	itemReply    itemKind = "reply"
	itemEvent    itemKind = "event"
	itemSession  itemKind = "session"   // an accepted handshake
	itemRefused  itemKind = "refused"   // a handshake answered with session 0
	itemClosed   itemKind = "closed"    // the server closed the connection
	itemSilent   itemKind = "silent"    // no answer in time
	itemNonsense itemKind = "nonsense"  // a frame that is no reply
	itemWaited   itemKind = "not ended" // a session that did not expire in time
)

// An item is one thing that a server did on one connection, made comparable:
// zxids are distances from the start of the run, sessions are names, and what
// has no order is sorted. Times are apart, because they are compared with a
// tolerance.
type item struct {
	Kind  itemKind
	Xid   int32
	Zxid  int64 // relative; noZxid and zeroZxid stand for -1 and 0
	Err   zk.Code
	Req   *request      // of a reply: what it answers
	Event zk.EventType  // of an event
	Path  string        // of an event
	Text  string        // the body, exact
	Loose string        // the body where ACL entries have no order and multi results no create kind
	Times []int64       // ctime and mtime in the order of the body
	Stats []pathStat    // for the generator: what the body tells of znodes
	Multi []multiResult // of a multi: its results
}

// Zxids that are not transactions of the run.
const (
	noZxid   = int64(-1) << 62 // -1 on the wire
	zeroZxid = noZxid + 1      // 0 on the wire
)

// A pathStat is what a reply tells of a znode.
type pathStat struct {
	path string
	stat zk.Stat
}

// A multiResult is one result of a multi.
type multiResult struct {
	op   wire.OpCode
	err  zk.Code
	path string // of a create
}

func zxidText(z int64) string {
	switch z {
	case noZxid:
		return "-1"
	case zeroZxid:
		return "0"
	}
	return fmt.Sprintf("start%+d", z)
}

func (i item) String() string {
	switch i.Kind {
	case itemReply:
		return fmt.Sprintf("reply  xid=%d zxid=%s %s %s  to %s", i.Xid, zxidText(i.Zxid), codeText(i.Err), i.Text, opName(i.Req.Op))
	case itemEvent:
		return fmt.Sprintf("event  zxid=%s %v %q %s", zxidText(i.Zxid), i.Event, i.Path, i.Text)
	}
	return strings.TrimSpace(string(i.Kind) + " " + i.Text)
}

// A bodyReader turns a body into text.
type bodyReader struct {
	s     *side
	d     jute.Decoder
	text  strings.Builder
	loose strings.Builder
	item  *item
}

// both appends to the exact and the loose text.
func (r *bodyReader) both(format string, args ...any) {
	fmt.Fprintf(&r.text, format, args...)
	fmt.Fprintf(&r.loose, format, args...)
}

func (r *bodyReader) stat(path string) {
	s := wire.DecodeStat(&r.d)
	if r.d.Err() != nil {
		return
	}
	r.item.Stats = append(r.item.Stats, pathStat{path, s})
	r.item.Times = append(r.item.Times, s.Ctime, s.Mtime)
	r.both("%s", r.s.statText(&s))
}

func (s *side) statText(st *zk.Stat) string {
	return fmt.Sprintf("{c=%s m=%s p=%s v=%d cv=%d av=%d owner=%s len=%d children=%d}",
		zxidText(s.rel(int64(st.Czxid))), zxidText(s.rel(int64(st.Mzxid))), zxidText(s.rel(int64(st.Pzxid))),
		st.Version, st.Cversion, st.Aversion, s.sessionName(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

func (r *bodyReader) acl() {
	acl := wire.DecodeACL(&r.d)
	fmt.Fprintf(&r.text, "%v", acl)
	l := make([]string, len(acl))
	for i, a := range acl {
		l[i] = fmt.Sprintf("%s:%d", a.ID, a.Perms)
	}
	slices.Sort(l)
	fmt.Fprintf(&r.loose, "%v", l)
}

func (r *bodyReader) names() {
	v := slices.Clone(r.d.Strings())
	slices.Sort(v)
	r.both("%q", v)
}

// readBody fills in the body of a successful reply to q.
func (s *side) readBody(i *item, q *request, body []byte) {
	r := bodyReader{s: s, d: jute.NewDecoder(body), item: i}
	path := q.requestPath()
	switch q.Op {
	case wire.OpCreate:
		p := r.d.String()
		r.both("%q", p)
		i.Stats = append(i.Stats, pathStat{p, zk.Stat{}})
	case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		p := r.d.String()
		r.both("%q ", p)
		r.stat(p)
	case wire.OpExists, wire.OpSetData, wire.OpSetACL:
		r.stat(path)
	case wire.OpGetData, wire.OpReconfig:
		r.both("data=%s ", fullData(r.d.Buffer()))
		r.stat(path)
	case wire.OpGetACL:
		r.acl()
		r.stat(path)
	case wire.OpGetChildren:
		r.names()
	case wire.OpGetChildren2:
		r.names()
		r.stat(path)
	case wire.OpGetEphemerals:
		r.names()
	case wire.OpSync:
		r.both("%s", dataText(r.d.Buffer()))
	case wire.OpGetAllChildrenNumber, wire.OpAddWatch:
		r.both("%d", r.d.Int())
	case wire.OpWhoAmI:
		r.whoAmI()
	case wire.OpMulti, wire.OpMultiRead:
		r.multi()
	case wire.OpSASL:
		r.both("token=%s", dataText(r.d.Buffer()))
	}
	if r.d.Err() != nil || r.d.Len() > 0 {
		r.both(" [not as expected: %x]", body)
	}
	i.Text, i.Loose = strings.Clone(r.text.String()), r.loose.String()
}

// fullData is exact whatever the length, so that texts compare as data does.
func fullData(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

func (r *bodyReader) whoAmI() {
	n := r.d.Count(8)
	var v []string
	for range n {
		v = append(v, r.d.String()+":"+r.d.String())
	}
	slices.Sort(v)
	r.both("%q", v)
}

func (r *bodyReader) multi() {
	for {
		var h wire.MultiHeader
		h.Decode(&r.d)
		if r.d.Err() != nil {
			return
		}
		if h.Done {
			r.both("end(%d,%d)", h.Type, h.Err)
			return
		}
		m := multiResult{op: h.Type, err: h.Err}
		switch h.Type {
		case wire.OpCreate:
			m.path = r.d.String()
			fmt.Fprintf(&r.text, "create=%q ", m.path)
			fmt.Fprintf(&r.loose, "made=%q ", m.path)
		case wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			m.path = r.d.String()
			st := wire.DecodeStat(&r.d)
			fmt.Fprintf(&r.text, "%s=%q %s ", opName(h.Type), m.path, r.s.statText(&st))
			fmt.Fprintf(&r.loose, "made=%q ", m.path)
		case wire.OpSetData:
			r.both("setData=")
			r.stat("")
		case wire.OpDelete, wire.OpCheck:
			r.both("%s ", opName(h.Type))
		case wire.OpGetData:
			r.both("data=%s ", fullData(r.d.Buffer()))
			r.stat("")
		case wire.OpGetChildren:
			r.names()
		case wire.OpError:
			r.both("error=%d/%d ", int32(h.Err), r.d.Int())
		default:
			r.both("type %d?", int32(h.Type))
			return
		}
		if h.Type != wire.OpError && h.Err != zk.OK {
			r.both("header says %d ", int32(h.Err))
		}
		r.item.Multi = append(r.item.Multi, m)
	}
}
