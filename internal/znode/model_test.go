package znode

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// model is the tree as the protocol page describes it, in the plainest way:
// everything is computed when it is asked for. It knows first applications
// only, not replay, and no quota within another.
type model struct {
	nodes    map[string]*modelNode // the root is ""
	sessions map[zk.SessionID]int32
	zxid     zk.Zxid
	events   []string
}

type modelNode struct {
	data []byte
	acl  []zk.ACL
	Mode
	kind kind
}

func newModel() *model {
	m := &model{nodes: map[string]*modelNode{}, sessions: map[zk.SessionID]int32{}}
	open := zk.OpenACLUnsafe()
	m.nodes[""] = &modelNode{data: []byte{}, acl: open}
	m.nodes["/zookeeper"] = &modelNode{data: []byte{}, acl: open}
	m.nodes["/zookeeper/quota"] = &modelNode{data: []byte{}, acl: open}
	m.nodes["/zookeeper/config"] = &modelNode{
		data: []byte{}, acl: zk.ReadACLUnsafe(), Mode: Mode{Aversion: -1},
	}
	return m
}

// clone is a model that can be tried things on.
func (m *model) clone() *model {
	c := &model{nodes: map[string]*modelNode{}, sessions: maps.Clone(m.sessions), zxid: m.zxid}
	for p, n := range m.nodes {
		copied := *n
		c.nodes[p] = &copied
	}
	return c
}

func modelParent(path string) string { return path[:strings.LastIndexByte(path, '/')] }

func (m *model) kids(path string) (n int32) {
	for p := range m.nodes {
		if p != "" && modelParent(p) == path {
			n++
		}
	}
	return n
}

// apply returns the results of tx, one for each operation of a multi.
func (m *model) apply(tx *txn.Txn) []string {
	m.events = nil
	m.zxid = tx.Zxid
	var out []string
	switch {
	case tx.Header.Type != wire.OpMulti:
		out = append(out, m.applyOp(tx, &tx.Op))
	case tx.Failed():
		for i := range tx.Multi {
			out = append(out, outcome(Outcome{Type: wire.OpError, Err: tx.Multi[i].Err}))
		}
	default:
		for i := range tx.Multi {
			out = append(out, m.applyOp(tx, &tx.Multi[i]))
		}
	}
	m.settleQuotas()
	return out
}

func (m *model) applyOp(tx *txn.Txn, op *txn.Op) string {
	o := Outcome{Type: op.Type}
	path := strings.TrimSuffix(op.Path, "/")
	switch op.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		n := &modelNode{data: slices.Clone(op.Data), acl: slices.Clone(op.ACL)}
		n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime = tx.Zxid, tx.Zxid, tx.Zxid, tx.Time, tx.Time
		switch {
		case op.Type == wire.OpCreateContainer:
			n.Owner, n.kind = -1<<63, kindContainer
		case op.Type == wire.OpCreateTTL:
			n.Owner, n.kind = -1<<56|op.TTL, kindTTL
		case op.Ephemeral:
			n.Owner, n.kind = int64(tx.Session), kindEphemeral
		}
		parent := m.nodes[modelParent(op.Path)]
		parent.Cversion, parent.Pzxid = op.ParentCversion, tx.Zxid
		m.nodes[strings.Clone(op.Path)] = n
		o.Path, o.Stat = op.Path, m.stat(op.Path)
		m.event(zk.EventNodeCreated, op.Path)
		m.event(zk.EventNodeChildrenChanged, modelParent(op.Path))
	case wire.OpDelete, wire.OpDeleteContainer:
		o.Stat = zk.Stat{Version: m.nodes[op.Path].Version, DataLength: m.stat(op.Path).DataLength, Mzxid: tx.Zxid}
		m.delete(tx.Zxid, op.Path)
	case wire.OpSetData, wire.OpReconfig:
		n := m.nodes[path]
		n.data, n.Version, n.Mzxid, n.Mtime = slices.Clone(op.Data), op.Version, tx.Zxid, tx.Time
		o.Stat = m.stat(path)
		m.event(zk.EventNodeDataChanged, path)
	case wire.OpSetACL:
		m.nodes[path].acl, m.nodes[path].Aversion = slices.Clone(op.ACL), op.Version
		o.Stat = m.stat(path)
	case wire.OpCreateSession:
		m.sessions[tx.Session] = op.TimeoutMillis
	case wire.OpCloseSession:
		for _, p := range m.ephemerals(tx.Session) {
			m.delete(tx.Zxid, p)
		}
		delete(m.sessions, tx.Session)
	case wire.OpError:
		o.Err = op.Err
	}
	return outcome(o)
}

func outcome(o Outcome) string { return fmt.Sprintf("%+v", o) }

func (m *model) delete(z zk.Zxid, path string) {
	m.nodes[modelParent(path)].Pzxid = z
	m.event(zk.EventNodeDeleted, path)
	m.event(zk.EventNodeChildrenChanged, modelParent(path))
	delete(m.nodes, path)
}

func (m *model) event(t zk.EventType, path string) {
	acl := m.nodes[path].acl
	if path == "" {
		path = "/"
	}
	m.events = append(m.events, fmt.Sprint(t, path, acl))
}

func (m *model) ephemerals(s zk.SessionID) (paths []string) {
	for p, n := range m.nodes {
		if n.kind == kindEphemeral && n.Owner == int64(s) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

func (m *model) stat(path string) zk.Stat {
	n, kids := m.nodes[path], m.kids(path)
	s := zk.Stat{
		Czxid: n.Czxid, Mzxid: n.Mzxid, Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version,
		Cversion: 2*n.Cversion - kids, Aversion: n.Aversion, DataLength: int32(len(n.data)),
		NumChildren: kids, Pzxid: n.Pzxid,
	}
	if n.kind == kindEphemeral {
		s.EphemeralOwner = n.Owner
	}
	return s
}

// settleQuotas writes the use of every quota into its stats.
func (m *model) settleQuotas() {
	for p := range m.nodes {
		target, ok := strings.CutSuffix(p, "/zookeeper_limits")
		stats := m.nodes[target+"/zookeeper_stats"]
		if !ok || stats == nil {
			continue
		}
		target = strings.TrimPrefix(target, "/zookeeper/quota")
		count, bytes := 0, 0
		for q, n := range m.nodes {
			if q == target || strings.HasPrefix(q, target+"/") {
				count++
				bytes += len(n.data)
			}
		}
		stats.data = fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes)
	}
}

// digest is by the letter of the protocol page's section 9.
func (m *model) digest() (sum uint64) {
	for p, n := range m.nodes {
		if strings.HasPrefix(p, "/zookeeper/") {
			continue
		}
		b := append([]byte(p), n.data...)
		for _, v := range []int64{int64(n.Czxid), int64(n.Mzxid), int64(n.Pzxid), n.Ctime, n.Mtime} {
			b = binary.BigEndian.AppendUint64(b, uint64(v))
		}
		for _, v := range []int32{n.Version, n.Cversion, n.Aversion} {
			b = binary.BigEndian.AppendUint32(b, uint32(v))
		}
		b = binary.BigEndian.AppendUint64(b, uint64(n.Owner))
		sum += uint64(crc32.ChecksumIEEE(b))
	}
	return sum
}

// dump is the model's dump, to be equal to that of the tree.
func (m *model) dump() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	ephemerals, bytes := 0, 0
	for p, n := range m.nodes {
		shown := p
		if p == "" {
			shown = "/"
		}
		bytes += len(p) + len(n.data)
		add("%s %s %v %+v %+v", shown, spell(n.data), n.acl, n.Mode, m.stat(p))
		switch n.kind {
		case kindEphemeral:
			ephemerals++
			add("ephemeral %v %s", zk.SessionID(n.Owner), p)
		case kindContainer:
			add("container %s", p)
		case kindTTL:
			add("ttl %s", p)
		}
		if q, ok := strings.CutSuffix(p, "/zookeeper_limits"); ok {
			add("quota %s", strings.TrimPrefix(q, "/zookeeper/quota"))
		}
	}
	for s, timeout := range m.sessions {
		add("session %v %d", s, timeout)
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\nzxid %v digest %d znodes %d ephemerals %d bytes %d\n", strings.Join(lines, "\n"),
		m.zxid, m.digest(), len(m.nodes)+1, ephemerals, bytes)
}
