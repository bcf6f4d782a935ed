package sim

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// entry is a transaction in a log.
type entry struct {
	z    zk.Zxid
	hash uint64
	data []byte
}

func entryOf(e zab.Entry) entry { return entry{e.Zxid, hashBytes(e.Data), e.Data} }

// history is what is committed, as the first member that delivers it tells, and
// the state after each transaction: a tree of its own to which all are applied.
type history struct {
	s       *Sim
	entries []entry
	details []detail
	tree    *znode.Tree
	result  znode.Result

	digests  map[zk.Zxid]uint64 // of every tree that was seen, and of ours
	versions map[string][]version
	sessions map[zk.SessionID]int // place of its end in entries; alive is -1
	alive    int
	asked    map[request]zk.Zxid // what became of it
	suffix   int                 // of the last sequential znode
}

// request names a client's write.
type request struct {
	session zk.SessionID
	cxid    int32
}

// detail is what a transaction does.
type detail struct {
	at     time.Duration // when it was delivered first
	tx     txn.Txn
	events []change
}

// change is an event without its ACL.
type change struct {
	kind zk.EventType
	path string
}

// version is a znode after the transaction z, up to the next version.
type version struct {
	z        zk.Zxid
	exists   bool
	data     string
	stat     zk.Stat
	children []string // sorted; shared
}

func newHistory(s *Sim) *history {
	h := &history{
		s: s, tree: znode.New(znode.Options{ExtendedTypes: true}), digests: map[zk.Zxid]uint64{},
		versions: map[string][]version{}, sessions: map[zk.SessionID]int{}, asked: map[request]zk.Zxid{}, suffix: -1,
	}
	h.digests[0] = h.tree.Digest()
	return h
}

func (h *history) last() zk.Zxid {
	if len(h.entries) == 0 {
		return 0
	}
	return h.entries[len(h.entries)-1].z
}

// upto returns how many entries are not later than z.
func (h *history) upto(z zk.Zxid) int {
	if z >= h.last() {
		return len(h.entries)
	}
	return sort.Search(len(h.entries), func(i int) bool { return h.entries[i].z > z })
}

// extend applies the next transaction.
func (h *history) extend(e entry) {
	tx, err := txn.Decode(e.data)
	if err != nil {
		h.s.fail("Integrity", "%v is delivered and cannot be read: %v", e.z, err)
	}
	h.entries = append(h.entries, e)
	h.tree.Apply(&tx, &h.result)
	if tx.Header.Type == wire.OpDeleteContainer {
		h.s.cover.Swept++
	}
	d := detail{at: h.s.now, tx: tx}
	for i := range h.result.Events {
		ev := &h.result.Events[i]
		d.events = append(d.events, change{ev.Type, strings.Clone(ev.Path)})
	}
	h.details = append(h.details, d)
	h.sawDigest(e.z, h.tree.Digest(), "the history")
	h.once(&tx)
	h.session(&tx)
	h.sequence(&tx)
	h.record(&d)
}

// sawDigest checks that every tree at z has one digest.
func (h *history) sawDigest(z zk.Zxid, digest uint64, who string) {
	want, known := h.digests[z]
	if known && want != digest {
		h.s.fail("EqualDigest", "at %v the digest of %s is %d, another's was %d", z, who, digest, want)
	}
	h.digests[z] = digest
}

// once checks that no request takes effect twice.
func (h *history) once(tx *txn.Txn) {
	if tx.Session == 0 || tx.Header.Type == wire.OpCloseSession || tx.Header.Type == wire.OpCreateSession {
		return
	}
	r := request{tx.Session, tx.Cxid}
	if before, ok := h.asked[r]; ok {
		h.s.fail("AtMostOnce", "request %d of session %v is both %v and %v", r.cxid, r.session, before, tx.Zxid)
	}
	h.asked[r] = tx.Zxid
}

// session follows the sessions: an ephemeral exists exactly as long as its
// session does.
func (h *history) session(tx *txn.Txn) {
	switch tx.Header.Type {
	case wire.OpCreateSession:
		h.sessions[tx.Session] = -1
		h.alive++
	case wire.OpCloseSession:
		if end, ok := h.sessions[tx.Session]; ok && end == -1 {
			h.alive--
			h.s.cover.SessionsEnded++
		}
		h.sessions[tx.Session] = len(h.entries) - 1
		h.tree.Ephemerals(tx.Session, func(path string) {
			h.s.fail("EphemeralsEnd", "%s outlives its session %v, which ended at %v", path, tx.Session, tx.Zxid)
		})
	}
	if h.tree.HasSession(tx.Session) {
		return
	}
	h.tree.Ephemerals(tx.Session, func(path string) {
		h.s.fail("EphemeralsEnd", "%s belongs to session %v, which does not exist at %v", path, tx.Session, tx.Zxid)
	})
}

func (h *history) liveSessions() int { return h.alive }

// endedBefore reports whether the session was over at some time.
func (h *history) endedBefore(id zk.SessionID, at time.Duration) bool {
	end, ok := h.sessions[id]
	return ok && end >= 0 && h.details[end].at < at
}

// sequentialParent is where clients make sequential znodes; it is never deleted.
const sequentialParent = "/seq/"

// sequence checks that the numbers of sequential znodes grow.
func (h *history) sequence(tx *txn.Txn) {
	ops := tx.Multi
	if tx.Header.Type != wire.OpMulti {
		ops = []txn.Op{tx.Op}
	} else if tx.Failed() {
		return
	}
	for i := range ops {
		name, ok := strings.CutPrefix(ops[i].Path, sequentialParent)
		if !ok || !isCreate(ops[i].Type) {
			continue
		}
		n, err := strconv.Atoi(name[len(name)-10:])
		if err != nil || n <= h.suffix {
			h.s.fail("SequentialOrder", "%s is created at %v, the last number was %d", ops[i].Path, tx.Zxid, h.suffix)
		}
		h.suffix = n
	}
}

func isCreate(op wire.OpCode) bool {
	return op == wire.OpCreate || op == wire.OpCreate2 || op == wire.OpCreateTTL || op == wire.OpCreateContainer
}

// record notes the znodes that a transaction has changed.
func (h *history) record(d *detail) {
	for _, ev := range d.events {
		h.touch(ev.path, ev.kind == zk.EventNodeChildrenChanged)
	}
	switch d.tx.Header.Type {
	case wire.OpSetACL:
		h.touch(d.tx.Path, false)
	case wire.OpMulti:
		for i := range d.tx.Multi {
			if d.tx.Multi[i].Type == wire.OpSetACL {
				h.touch(d.tx.Multi[i].Path, false)
			}
		}
	}
}

// touch notes a znode's present version; list says that its children are others
// than before.
func (h *history) touch(path string, list bool) {
	vs := h.versions[path]
	v := version{z: h.tree.LastZxid()}
	id := h.tree.Lookup(path)
	if v.exists = id != 0; v.exists {
		v.data = string(h.tree.Data(id))
		h.tree.Stat(id, &v.stat)
		same := !list && len(vs) > 0 && vs[len(vs)-1].exists && int(v.stat.NumChildren) == len(vs[len(vs)-1].children)
		if same {
			v.children = vs[len(vs)-1].children
		} else {
			h.tree.Children(id, func(name string) { v.children = append(v.children, strings.Clone(name)) })
			sort.Strings(v.children)
		}
	}
	if n := len(vs); n > 0 && vs[n-1].z == v.z {
		vs[n-1] = v
		return
	}
	h.versions[path] = append(vs, v)
}

// at returns the znode as it is at z.
func (h *history) at(path string, z zk.Zxid) version {
	vs := h.versions[path]
	i := sort.Search(len(vs), func(i int) bool { return vs[i].z > z })
	if i == 0 {
		return version{}
	}
	return vs[i-1]
}
