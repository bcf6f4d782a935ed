package server

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// innocentRoot is the subtree that only the innocent client may read and change.
const innocentRoot = "/innocent"

// innocent is a well-behaved client beside the others. It knows its subtree, and
// demands that each of its requests is answered rightly, in order, and at once.
type innocent struct {
	*wireClient
	nodes  map[string]*innocentNode // its children, by name
	last   zk.Zxid                  // of the last reply
	batch  []byte                   // requests that are not sent yet
	due    []innocentReply          // their replies, in order
	writes int
}

type innocentNode struct {
	data    string
	version int32
	watched bool // by one getData
}

// innocentReply is a reply that must come.
type innocentReply struct {
	op    wire.OpCode
	xid   int32
	code  zk.Code
	event zk.EventType // of path, right before the reply; 0: none
	path  string
	check func(d *jute.Decoder) error // of the body, if it is not nil
}

var innocentACL = []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}

func newInnocent(c *wireClient) *innocent {
	in := &innocent{wireClient: c, nodes: map[string]*innocentNode{}}
	login := wire.AuthPacket{Scheme: "digest", Auth: []byte("innocent:secret")}
	in.mustCall(wire.OpAuth, login.Append(nil))
	root := wire.CreateRequest{Path: innocentRoot, ACL: innocentACL}
	in.mustCall(wire.OpCreate, root.Append(nil, wire.OpCreate))
	in.create(innocentRoot+"/kept", "kept") // any client may delete an empty root
	if err := in.settle(); err != nil {
		in.t.Fatal(err)
	}
	return in
}

// ask adds a request to the batch.
func (in *innocent) ask(op wire.OpCode, body []byte, r innocentReply) {
	in.xid++
	r.op, r.xid = op, in.xid
	if op == wire.OpPing {
		r.xid = wire.XidPing
	}
	in.batch = encode(in.batch, in.xid, op, body)
	in.due = append(in.due, r)
}

// settle sends the batch in one write, and checks its replies.
func (in *innocent) settle() error {
	began := time.Now()
	defer func() { in.batch, in.due = nil, nil }()
	if err := in.write(in.batch); err != nil {
		return err
	}
	for _, want := range in.due {
		in.events = nil
		got, err := in.nextReply()
		if err == nil {
			err = in.judge(&want, &got)
		}
		if err != nil {
			return fmt.Errorf("the innocent client: %v, xid %d: %w", want.op, want.xid, err)
		}
	}
	if d := time.Since(began); d > 0 {
		return fmt.Errorf("the innocent client waited for %v", d)
	}
	return nil
}

// judge checks a reply and the events before it.
func (in *innocent) judge(want *innocentReply, got *reply) error {
	if want.op == wire.OpAuth {
		got.Zxid = in.last // that of the reply is 0
	}
	if got.Xid != want.xid || got.Err != want.code || got.Zxid < in.last {
		return fmt.Errorf("the reply is %+v, want code %v, and no zxid before %v", got.ReplyHeader, want.code, in.last)
	}
	in.last = got.Zxid
	var events []wire.WatcherEvent
	for _, e := range in.events {
		events = append(events, e.WatcherEvent)
	}
	var due []wire.WatcherEvent
	if want.event != 0 {
		due = []wire.WatcherEvent{{Type: want.event, State: zk.StateSyncConnected, Path: want.path}}
	}
	if !slices.Equal(events, due) {
		return fmt.Errorf("the events before the reply are %+v, want %+v", events, due)
	}
	d := jute.NewDecoder(got.body)
	if want.check != nil {
		if err := want.check(&d); err != nil {
			return err
		}
	}
	if d.Err() != nil || d.Len() > 0 {
		return fmt.Errorf("a body of %d bytes: %v", len(got.body), d.Err())
	}
	return nil
}

// act sends some requests that the script chooses, and checks what comes back. While
// the disk is stalled it only reads.
func (in *innocent) act(s *portScript, onlyReads bool) error {
	for range 1 + s.N(6) {
		name, kind := of(s, "a", "b", "c"), s.N(8)
		if onlyReads {
			kind = 4 + kind%2*2
		}
		switch path := innocentRoot + "/" + name; kind {
		case 0, 1:
			in.create(path, name)
		case 2, 3:
			in.set(path, name)
		case 4:
			in.get(path, name, s.N(2) == 1)
		case 5:
			in.delete(path, name)
		case 6:
			in.list()
		default:
			in.ask(wire.OpPing, nil, innocentReply{})
		}
	}
	return in.settle()
}

// lookAtAll checks the complete subtree.
func (in *innocent) lookAtAll() error {
	in.list()
	for name := range in.nodes {
		in.get(innocentRoot+"/"+name, name, false)
	}
	return in.settle()
}

func (in *innocent) next() string {
	in.writes++
	return fmt.Sprint("value ", in.writes)
}

func (in *innocent) create(path, name string) {
	data, r := in.next(), innocentReply{code: zk.ErrNodeExists}
	if in.nodes[name] == nil {
		in.nodes[name] = &innocentNode{data: data}
		r = innocentReply{check: func(d *jute.Decoder) error { return expect("path", d.String(), path) }}
	}
	body := wire.CreateRequest{Path: path, Data: []byte(data), ACL: innocentACL}
	in.ask(wire.OpCreate, body.Append(nil, wire.OpCreate), r)
}

func (in *innocent) set(path, name string) {
	data, r := in.next(), innocentReply{code: zk.ErrNoNode}
	if n := in.nodes[name]; n != nil {
		n.data, n.version = data, n.version+1
		version := n.version
		r = innocentReply{check: func(d *jute.Decoder) error { return expect("version", wire.DecodeStat(d).Version, version) }}
		r.fires(n, zk.EventNodeDataChanged, path)
	}
	in.ask(wire.OpSetData, setBody(path, []byte(data)), r)
}

// fires records that a change fires the watch of the node.
func (r *innocentReply) fires(n *innocentNode, event zk.EventType, path string) {
	if n.watched {
		n.watched, r.event, r.path = false, event, path
	}
}

func (in *innocent) get(path, name string, watch bool) {
	r := innocentReply{code: zk.ErrNoNode}
	if n := in.nodes[name]; n != nil {
		n.watched = n.watched || watch
		want := *n
		r = innocentReply{check: func(d *jute.Decoder) error {
			if err := expect("data", string(d.Buffer()), want.data); err != nil {
				return err
			}
			return expect("version", wire.DecodeStat(d).Version, want.version)
		}}
	}
	in.ask(wire.OpGetData, readBody(path, watch), r)
}

func (in *innocent) delete(path, name string) {
	r := innocentReply{code: zk.ErrNoNode}
	if n := in.nodes[name]; n != nil {
		r = innocentReply{}
		r.fires(n, zk.EventNodeDeleted, path)
		delete(in.nodes, name)
	}
	in.ask(wire.OpDelete, deleteBody(path), r)
}

func (in *innocent) list() {
	var want []string
	for name := range in.nodes {
		want = append(want, name)
	}
	slices.Sort(want)
	in.ask(wire.OpGetChildren, readBody(innocentRoot, false), innocentReply{check: func(d *jute.Decoder) error {
		got := d.Strings()
		slices.Sort(got)
		return expect("children", fmt.Sprint(got), fmt.Sprint(want))
	}})
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s %v, want %v", what, got, want)
	}
	return nil
}

// moveIn makes the innocent go on after a restart, with its session.
func (in *innocent) moveIn(c *wireClient) error {
	c.xid, c.t = in.xid, in.t
	if err := c.resume(in.wireClient); err != nil {
		return err
	}
	if c.resp.SessionID != in.resp.SessionID || !bytes.Equal(c.resp.Password, in.resp.Password) {
		return fmt.Errorf("the innocent client: its session is gone: %+v", c.resp)
	}
	in.wireClient = c
	for _, n := range in.nodes {
		n.watched = false
	}
	login := wire.AuthPacket{Scheme: "digest", Auth: []byte("innocent:secret")}
	in.ask(wire.OpAuth, login.Append(nil), innocentReply{})
	in.list()
	return in.settle()
}
