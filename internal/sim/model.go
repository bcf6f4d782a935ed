package sim

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sort"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// model is ZooKeeper's interface as a sequential program over a map. It is given
// every committed request, in the order of the zxids, and works out by itself
// what the request does to the state before it and what its client must be told.
// It knows nothing of the transaction that the leader has made of the request,
// and shares no code with the packages that prepare and apply transactions: both
// are judged by it.
//
// The state does not determine everything. What it leaves open comes from
// outside, in given, and is judged by others: the time, the end of a session.
type model struct {
	znodes  map[string][]version // every version of each path, the oldest first
	digest  uint64               // of the state, as every server computes it
	now     given                // of the present request
	changed []string
	rosters []*roster // the configurations, in their order
	events  []fired
}

// given is what a request comes with that does not follow from the state.
type given struct {
	z       zk.Zxid
	time    int64 // milliseconds since 1970, by the leader's clock
	session zk.SessionID
	check   zk.Code // what the check of the session finds
	owns    zk.Code // the same for a request that makes an ephemeral
	quotas  zk.Zxid // the oldest state by which the leader may have judged quotas
	refused zk.Code // what the leader has refused the present operation with
}

// version is a znode after the transaction z, up to the next version.
type version struct {
	z        zk.Zxid
	exists   bool
	data     string
	acl      []zk.ACL // empty is open
	children []string // sorted; never changed, shared by versions

	czxid, mzxid, pzxid        zk.Zxid
	ctime, mtime               int64
	version, creates, aversion int32 // creates counts the creations of children
	owner                      int64 // the session of an ephemeral, or a mark
	sum                        uint32
}

// The marks in version.owner. A TTL has its milliseconds in the low 40 bits.
const (
	containerMark = -1 << 63
	ttlMark       = -1 << 56
	ttlLimit      = 1<<40 - 1
)

func (v *version) container() bool { return v.owner == containerMark }
func (v *version) ttl() bool       { return v.owner&ttlMark == ttlMark }
func (v *version) ephemeral() bool { return v.owner != 0 && !v.container() && !v.ttl() }

// stat is what clients are shown.
func (v *version) stat() zk.Stat {
	s := zk.Stat{
		Czxid: v.czxid, Mzxid: v.mzxid, Pzxid: v.pzxid, Ctime: v.ctime, Mtime: v.mtime,
		Version: v.version, Cversion: 2*v.creates - int32(len(v.children)), Aversion: v.aversion,
		DataLength: int32(len(v.data)), NumChildren: int32(len(v.children)),
	}
	if v.ephemeral() {
		s.EphemeralOwner = v.owner
	}
	return s
}

// checksum is the znode's part of the digest, 0 for a path that has none.
func (v *version) checksum(path string) uint32 {
	if !v.exists || strings.HasPrefix(path, "/zookeeper/") {
		return 0
	}
	if path == "/" {
		path = ""
	}
	b := append([]byte(path), v.data...)
	for _, n := range [...]int64{int64(v.czxid), int64(v.mzxid), int64(v.pzxid), v.ctime, v.mtime} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, n := range [...]int32{v.version, v.creates, v.aversion} {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
	}
	return crc32.ChecksumIEEE(binary.BigEndian.AppendUint64(b, uint64(v.owner)))
}

// The znodes that every tree begins with.
const (
	quotaRoot  = "/zookeeper/quota"
	configPath = "/zookeeper/config"
)

func newModel(first *roster) *model {
	m := &model{znodes: map[string][]version{}, rosters: []*roster{first}}
	m.put("/", version{exists: true, children: []string{"zookeeper"}})
	m.put("/zookeeper", version{exists: true, children: []string{"config", "quota"}})
	m.put(quotaRoot, version{exists: true})
	m.put(configPath, version{exists: true, acl: zk.ReadACLUnsafe(), version: -1, aversion: -1})
	return m
}

// at returns the znode as it is at z.
func (m *model) at(path string, z zk.Zxid) version {
	vs := m.znodes[path]
	i := sort.Search(len(vs), func(i int) bool { return vs[i].z > z })
	if i == 0 {
		return version{}
	}
	v := vs[i-1]
	if target, ok := statsOf(path); ok && v.exists {
		v.data = m.usage(target, z).text()
	}
	return v
}

// get returns the znode as it is now.
func (m *model) get(path string) version {
	vs := m.znodes[path]
	if len(vs) == 0 {
		return version{}
	}
	return vs[len(vs)-1]
}

// put makes v the znode's version after the present request.
func (m *model) put(path string, v version) {
	old := m.get(path)
	v.z, v.sum = m.now.z, v.checksum(path)
	m.digest += uint64(v.sum) - uint64(old.sum)
	vs := m.znodes[path]
	if n := len(vs); n > 0 && vs[n-1].z == v.z {
		vs[n-1] = v
		return
	}
	m.znodes[path] = append(vs, v)
	m.changed = append(m.changed, path)
}

// result is what one operation comes to, as its client is told.
type result struct {
	op   wire.OpCode
	code zk.Code
	path string
	stat zk.Stat
	data string // of a reconfig
}

// begin prepares for the next request.
func (m *model) begin(g given) { m.now, m.changed, m.events = g, m.changed[:0], nil }

// write carries out a request of a client. refused are the codes that the leader
// has answered the operations with.
func (m *model) write(q *ask, refused []zk.Code) []result {
	results := make([]result, len(q.ops))
	for i := range q.ops {
		m.now.refused = refused[i]
		if results[i] = m.operation(q, &q.ops[i]); results[i].code == zk.OK {
			continue
		}
		m.rollBack()
		for k := range results {
			code := results[k].code
			if k > i {
				code = zk.ErrRuntimeInconsistency
			}
			results[k] = result{op: wire.OpError, code: code}
		}
		break
	}
	return results
}

// rollBack undoes the present request.
func (m *model) rollBack() {
	for _, path := range m.changed {
		vs := m.znodes[path]
		n := len(vs) - 1
		m.digest -= uint64(vs[n].sum)
		if n > 0 {
			m.digest += uint64(vs[n-1].sum)
		}
		m.znodes[path] = vs[:n]
	}
	m.changed, m.events = m.changed[:0], nil
}

func (m *model) operation(q *ask, op *wire.MultiOp) result {
	switch op.Type {
	case wire.OpReconfig:
		return m.reconfig(q, op)
	case wire.OpDelete:
		return result{op: op.Type, code: m.delete(q, op)}
	case wire.OpSetData:
		return m.change(q, op, zk.PermWrite)
	case wire.OpSetACL:
		return m.change(q, op, zk.PermAdmin)
	case wire.OpCheck:
		r := m.change(q, op, zk.PermRead)
		return result{op: op.Type, code: r.code}
	}
	return m.create(q, op)
}

// create is every kind of create. The order of the checks decides which error the
// client is told.
func (m *model) create(q *ask, op *wire.MultiOp) result {
	fails := func(code zk.Code) result { return result{op: op.Type, code: code} }
	path, parentPath := op.Path, parentOf(op.Path)
	timed := op.Type == wire.OpCreateTTL
	parent := m.get(parentPath)
	acl, aclCode := storedACL(op.ACL, q.ids)
	switch {
	case !op.Flags.Valid(), op.Flags.IsTTL() != timed, timed && (op.TTL < 1 || op.TTL > ttlLimit):
		return fails(zk.ErrBadArguments)
	case op.Flags.IsEphemeral() && m.now.owns != zk.OK:
		return fails(m.now.owns)
	case m.now.check != zk.OK:
		return fails(m.now.check)
	case !strings.Contains(path, "/"), strings.Contains(path, "\x00"):
		return fails(zk.ErrBadArguments)
	case aclCode != zk.OK:
		return fails(aclCode)
	case !parent.exists:
		return fails(zk.ErrNoNode)
	case !allows(parent.acl, zk.PermCreate, q.ids):
		return fails(zk.ErrNoAuth)
	}
	if op.Flags.IsSequential() {
		path += sequence(parent.creates)
	}
	switch {
	case !validPath(path):
		return fails(zk.ErrBadArguments)
	case m.exists(path):
		return fails(zk.ErrNodeExists)
	case parent.ephemeral():
		return fails(zk.ErrNoChildrenForEphemerals)
	case m.overQuota(path, int64(len(op.Data)), 1):
		return fails(zk.ErrQuotaExceeded)
	}
	v := version{
		exists: true, data: string(op.Data), acl: acl,
		czxid: m.now.z, mzxid: m.now.z, pzxid: m.now.z, ctime: m.now.time, mtime: m.now.time,
	}
	switch {
	case op.Type == wire.OpCreateContainer:
		v.owner = containerMark
	case timed:
		v.owner = ttlMark | op.TTL
	case op.Flags.IsEphemeral():
		v.owner = int64(m.now.session)
	}
	m.put(path, v)
	parent.creates++
	m.relist(parentPath, parent, path, true)
	m.event(zk.EventNodeCreated, path, v.acl)
	m.event(zk.EventNodeChildrenChanged, parentPath, parent.acl)
	return result{op: op.Type, path: path, stat: v.stat()}
}

// relist adds a child to its parent's list, or removes it.
func (m *model) relist(parentPath string, parent version, path string, add bool) {
	name := path[strings.LastIndexByte(path, '/')+1:]
	i, found := slices.BinarySearch(parent.children, name)
	switch {
	case add:
		parent.children = slices.Insert(slices.Clone(parent.children), i, name)
	case found:
		parent.children = slices.Delete(slices.Clone(parent.children), i, i+1)
	}
	parent.pzxid = m.now.z
	m.put(parentPath, parent)
}

func (m *model) exists(path string) bool {
	v := m.get(path)
	return v.exists
}

func (m *model) delete(q *ask, op *wire.MultiOp) zk.Code {
	v, parent := m.get(op.Path), m.get(parentOf(op.Path))
	switch {
	case m.now.check != zk.OK:
		return m.now.check
	case !strings.Contains(op.Path, "/"), strings.Contains(op.Path, "\x00"), isSystem(op.Path):
		return zk.ErrBadArguments
	case !parent.exists:
		return zk.ErrNoNode
	case !allows(parent.acl, zk.PermDelete, q.ids):
		return zk.ErrNoAuth
	case !v.exists:
		return zk.ErrNoNode
	case op.Version != -1 && op.Version != v.version:
		return zk.ErrBadVersion
	case len(v.children) > 0:
		return zk.ErrNotEmpty
	}
	m.remove(op.Path)
	return zk.OK
}

// remove deletes a znode that has no children.
func (m *model) remove(path string) {
	old, parentPath := m.get(path), parentOf(path)
	parent := m.get(parentPath)
	m.put(path, version{})
	m.relist(parentPath, parent, path, false)
	m.event(zk.EventNodeDeleted, path, old.acl)
	m.event(zk.EventNodeChildrenChanged, parentPath, parent.acl)
}

// change is setData, setACL and check, which differ in what they need and change.
func (m *model) change(q *ask, op *wire.MultiOp, perm zk.Perms) result {
	fails := func(code zk.Code) result { return result{op: op.Type, code: code} }
	v := m.get(op.Path)
	acl, aclCode := storedACL(op.ACL, q.ids)
	counter := v.version
	if op.Type == wire.OpSetACL {
		counter = v.aversion
	}
	switch {
	case m.now.check != zk.OK:
		return fails(m.now.check)
	case !validPath(op.Path):
		return fails(zk.ErrBadArguments)
	case op.Type == wire.OpSetACL && aclCode != zk.OK:
		return fails(aclCode)
	case !v.exists:
		return fails(zk.ErrNoNode)
	case !allows(v.acl, perm, q.ids):
		return fails(zk.ErrNoAuth)
	case op.Type == wire.OpSetData && m.overQuota(op.Path, int64(len(op.Data)-len(v.data)), 0):
		return fails(zk.ErrQuotaExceeded)
	case op.Version != -1 && op.Version != counter:
		return fails(zk.ErrBadVersion)
	}
	switch op.Type {
	case wire.OpSetData:
		v.data, v.version, v.mzxid, v.mtime = string(op.Data), v.version+1, m.now.z, m.now.time
		m.put(op.Path, v)
		m.event(zk.EventNodeDataChanged, op.Path, v.acl)
	case wire.OpSetACL:
		v.acl, v.aversion = acl, v.aversion+1
		m.put(op.Path, v)
	}
	return result{op: op.Type, path: op.Path, stat: v.stat()}
}

// event notes what watches are told of.
func (m *model) event(kind zk.EventType, path string, acl []zk.ACL) {
	m.events = append(m.events, fired{change{kind, path}, acl})
}

// endSession deletes the session's ephemerals, in the order of their paths.
func (m *model) endSession() {
	for _, path := range m.ephemerals(m.now.session, m.now.z) {
		m.remove(path)
	}
}

// ephemerals lists the session's ephemerals at z.
func (m *model) ephemerals(id zk.SessionID, z zk.Zxid) []string {
	return m.list(z, func(_ string, v *version) bool { return v.ephemeral() && v.owner == int64(id) })
}

// list returns the paths of the znodes at z that a condition is true of, sorted.
func (m *model) list(z zk.Zxid, wanted func(path string, v *version) bool) []string {
	paths := []string{}
	for path, vs := range m.znodes {
		if n := len(vs); n > 0 && vs[n-1].z <= z && !vs[n-1].exists {
			continue // most paths: sequential znodes that are gone
		}
		i := sort.Search(len(vs), func(i int) bool { return vs[i].z > z })
		if i > 0 && vs[i-1].exists && wanted(path, &vs[i-1]) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
