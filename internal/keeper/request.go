package keeper

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// The operations that ZooKeeper does not have.
const (
	opFilteredList      wire.OpCode = 500
	opCheckNotExists    wire.OpCode = 501
	opCreateIfNotExists wire.OpCode = 502
	opRemoveRecursive   wire.OpCode = 503
	opTryRemove         wire.OpCode = 505
	opFilteredListMore  wire.OpCode = 506
	opListRecursive     wire.OpCode = 507
	opSessionID         wire.OpCode = 997
)

// reads change nothing.
var reads = []wire.OpCode{
	wire.OpExists, wire.OpGetData, wire.OpGetACL, wire.OpGetChildren, wire.OpSync, wire.OpPing, wire.OpGetChildren2, wire.OpCheck,
	wire.OpCheckWatches, wire.OpRemoveWatches, wire.OpMultiRead, wire.OpSetWatches, wire.OpSetWatches2, wire.OpAddWatch,
	opFilteredList, opCheckNotExists, opFilteredListMore, opListRecursive,
	wire.OpReconfig, // the members are no part of the state
}

// A request is what a log entry holds.
type request struct {
	*State
	session int64
	time    int64
	zxid    zk.Zxid
	op      wire.OpCode
	body    jute.Decoder
}

// errNoTime refuses entries that Keeper gives the time at which it reads them.
var errNoTime = errors.New("it has no time, as in early releases: start a later release on these files once, and have it write a snapshot")

// decode reads a log entry: the session, the frame of the request, and what the leader added to it.
func (s *State) decode(entry []byte, index uint64) (*request, error) {
	if len(entry) < 12 {
		return nil, jute.ErrShort
	}
	r := &request{State: s, session: int64(binary.LittleEndian.Uint64(entry))}
	frame := jute.NewDecoder(entry[8:])
	r.body = jute.NewDecoder(frame.Buffer())
	r.body.Int() // the xid
	r.op = wire.OpCode(r.body.Int())
	if err := errors.Join(frame.Err(), r.body.Err()); err != nil {
		return nil, err
	}
	in := reader{in: bufio.NewReaderSize(bytes.NewReader(frame.Rest()), 32)}
	if in.ended() {
		return nil, errNoTime
	}
	r.time, s.said = in.i64(), digest{}
	if !in.ended() {
		r.zxid, s.said.version = zk.Zxid(in.i64()), in.u8()
		if s.said.version != 0 {
			s.said.value = in.u64()
		}
	}
	if r.zxid == 0 {
		r.zxid = zk.Zxid(index)
	}
	return r, in.err
}

// apply applies a log entry. A request that Keeper refused changes nothing but the zxid. An error says that the entry
// cannot be read; the state is as before then.
func (s *State) apply(entry []byte, index, term uint64) error {
	r, err := s.decode(entry, index)
	if err != nil {
		return err
	}
	if err := s.atomically(func() (bool, error) { return r.do(r.op) }); err != nil {
		return err
	}
	if r.op != opSessionID && r.op != wire.OpReconfig { // these take no zxid
		s.Zxid = max(s.Zxid, r.zxid)
	}
	s.Index, s.Term = index, term
	return nil
}

// do carries out an operation. ok is false if Keeper refuses it.
func (r *request) do(op wire.OpCode) (ok bool, err error) {
	d := &r.body
	switch op {
	case wire.OpCreate, wire.OpCreate2, opCreateIfNotExists:
		var c wire.CreateRequest
		c.Decode(d, wire.OpCreate)
		ok = d.Err() == nil && r.create(op, &c)
	case wire.OpDelete, opTryRemove:
		var c wire.PathVersion
		c.Decode(d)
		ok = d.Err() == nil && (r.delete(&c) || op == opTryRemove && r.mayDelete(c.Path))
	case opRemoveRecursive:
		var c wire.PathVersion
		c.Decode(d)
		ok = d.Err() == nil && r.deleteBelow(strings.Clone(c.Path), uint32(c.Version))
	case wire.OpSetData:
		var c wire.SetDataRequest
		c.Decode(d)
		ok = d.Err() == nil && r.setData(&c)
	case wire.OpSetACL:
		var c wire.SetACLRequest
		c.Decode(d)
		ok = d.Err() == nil && r.setACL(&c)
	case wire.OpMulti:
		return r.multi()
	case wire.OpAuth:
		d.Int()
		ok = r.authenticate(d.String(), d.String())
	case wire.OpCloseSession:
		r.close()
		ok = true
	case opSessionID:
		d.Long()
		r.sessions[r.nextSession] = &session{timeout: int64(d.Int())}
		r.nextSession++
		ok = true
	default:
		if !slices.Contains(reads, op) {
			return false, fmt.Errorf("the operation %d is not known; have Keeper write a snapshot after it: send it the four-letter word csnp", int32(op))
		}
		return true, nil
	}
	return ok, d.Err()
}

// multi carries out the operations of a multi.
func (r *request) multi() (ok bool, err error) {
	for {
		op, done := wire.OpCode(r.body.Int()), r.body.Bool()
		r.body.Int()
		if err := r.body.Err(); err != nil || done {
			return err == nil, err
		}
		switch op {
		case wire.OpCheck, opCheckNotExists:
			var c wire.PathVersion
			c.Decode(&r.body)
			ok, err = r.check(&c, op), r.body.Err()
		case wire.OpMulti, wire.OpAuth, wire.OpCloseSession, opSessionID:
			return false, fmt.Errorf("the operation %d is in a multi", int32(op))
		default:
			ok, err = r.do(op)
		}
		if !ok || err != nil {
			return false, err
		}
	}
}

// allowed reports whether the session has a permission. super has all.
func (r *request) allowed(z *Znode, perm zk.Perms) bool {
	ids := r.ids(r.session)
	has := func(id zk.ID) bool { return slices.Contains(ids, id) }
	return len(z.ACL) == 0 || slices.ContainsFunc(ids, func(id zk.ID) bool { return id.Scheme == "super" }) ||
		slices.ContainsFunc(z.ACL, func(a zk.ACL) bool {
			return a.Perms&perm != 0 && (a.ID == zk.ID{Scheme: "world", ID: "anyone"} || has(a.ID))
		})
}

func (r *request) create(op wire.OpCode, c *wire.CreateRequest) bool {
	path := strings.Clone(c.Path)
	dir, _, ok := split(path)
	parent := r.znodes[dir]
	if !ok || parent == nil || parent.Owner != 0 || !r.allowed(parent, zk.PermCreate) {
		return false
	}
	if c.Flags&2 != 0 {
		if op == opCreateIfNotExists {
			return false
		}
		path += fmt.Sprintf("%010d", parent.Created)
	}
	if r.znodes[path] != nil {
		return op == opCreateIfNotExists && !inSystem(path)
	}
	acl, ok := r.fixACL(c.ACL)
	if !ok || inSystem(path) || strings.HasSuffix(path, "/") {
		return false
	}
	r.change(dir, parent, func() {
		parent.Created, parent.Cversion, parent.children = parent.Created+1, parent.Cversion+1, parent.children+1
		parent.Pzxid = max(parent.Pzxid, r.zxid)
	})
	z := &Znode{Data: bytes.Clone(c.Data), ACL: acl, Czxid: r.zxid, Mzxid: r.zxid, Pzxid: r.zxid, Ctime: r.time, Mtime: r.time}
	if c.Flags&1 != 0 {
		z.Owner = r.session
	}
	r.insert(path, z)
	return true
}

// fixACL returns the list that Keeper stores for the one of a request: schemes that it does not know are left out.
func (r *request) fixACL(acl []zk.ACL) (list []zk.ACL, ok bool) {
	ok = len(acl) == 0
	for _, a := range acl {
		switch {
		case a.ID.Scheme == "auth":
			for _, id := range r.ids(r.session) {
				list, ok = append(list, zk.ACL{Perms: a.Perms, ID: id}), true
			}
			continue
		case a.ID.Scheme == "digest" && strings.Count(a.ID.ID, ":") != 1:
			return nil, false
		case a.ID.Scheme != "digest" && a.ID != zk.ID{Scheme: "world", ID: "anyone"}:
			continue
		}
		list = append(list, zk.ACL{Perms: a.Perms, ID: zk.ID{Scheme: strings.Clone(a.ID.Scheme), ID: strings.Clone(a.ID.ID)}})
		ok = true
	}
	return list, ok
}

func (r *request) delete(c *wire.PathVersion) bool {
	dir, _, ok := split(c.Path)
	parent, z := r.znodes[dir], r.znodes[c.Path]
	if !ok || inSystem(c.Path) || parent == nil || z == nil || z == parent || !r.allowed(parent, zk.PermDelete) ||
		c.Version != -1 && c.Version != z.Version || len(z.names) > 0 {
		return false
	}
	r.unlink(dir, parent)
	r.remove(strings.Clone(c.Path), z)
	return true
}

// mayDelete reports whether it is the znode that keeps delete from deleting it, and nothing else.
func (r *request) mayDelete(path string) bool {
	dir, _, ok := split(path)
	parent := r.znodes[dir]
	return ok && !inSystem(path) && (parent == nil || r.allowed(parent, zk.PermDelete))
}

// unlink counts a child less. Other than in ZooKeeper, Pzxid remains.
func (r *request) unlink(dir string, parent *Znode) {
	r.change(dir, parent, func() { parent.Cversion, parent.children = parent.Cversion+1, parent.children-1 })
}

// deleteBelow deletes a znode and all below, if these are at most limit.
func (r *request) deleteBelow(path string, limit uint32) bool {
	dir, _, ok := split(path)
	parent := r.znodes[dir]
	if !ok || inSystem(path) || path == "/" {
		return false
	}
	if parent == nil {
		return true
	}
	if !r.allowed(parent, zk.PermDelete) {
		return false
	}
	var all []string
	for todo := []string{path}; len(todo) > 0; {
		p := todo[len(todo)-1]
		z := r.znodes[p]
		todo = todo[:len(todo)-1]
		if z == nil { // only path itself
			return true
		}
		if all = append(all, p); uint64(len(all)) > uint64(limit) || !r.allowed(z, zk.PermDelete) {
			return false
		}
		for name := range z.names {
			todo = append(todo, p+"/"+name)
		}
	}
	r.unlink(dir, parent)
	for _, p := range slices.Backward(all) {
		r.remove(p, r.znodes[p])
	}
	return true
}

// setData also counts the change in the cversion of the parent, other than in ZooKeeper.
func (r *request) setData(c *wire.SetDataRequest) bool {
	z := r.znodes[c.Path]
	if z == nil || inSystem(c.Path) || !r.allowed(z, zk.PermWrite) || c.Version != -1 && c.Version != z.Version {
		return false
	}
	r.change(c.Path, z, func() { z.Data, z.Version, z.Mzxid, z.Mtime = bytes.Clone(c.Data), z.Version+1, r.zxid, r.time })
	if dir, _, _ := split(c.Path); c.Path != "/" {
		parent := r.znodes[dir]
		r.change(dir, parent, func() { parent.Cversion++ })
	}
	return true
}

func (r *request) setACL(c *wire.SetACLRequest) bool {
	z := r.znodes[c.Path]
	if z == nil || inSystem(c.Path) || !r.allowed(z, zk.PermAdmin) || c.Version != -1 && c.Version != z.Aversion {
		return false
	}
	acl, ok := r.fixACL(c.ACL)
	if ok {
		r.change(c.Path, z, func() { z.ACL, z.Aversion = acl, z.Aversion+1 })
	}
	return ok
}

// check is an operation of a multi alone.
func (r *request) check(c *wire.PathVersion, op wire.OpCode) bool {
	z := r.znodes[c.Path]
	if z != nil && !r.allowed(z, zk.PermRead) {
		return false
	}
	same := z != nil && (c.Version == -1 || c.Version == z.Version)
	return same == (op == wire.OpCheck)
}

// authenticate gives the session an identity. Only digest is known.
func (r *request) authenticate(scheme, auth string) bool {
	user, _, _ := strings.Cut(auth, ":")
	if scheme != "digest" || strings.Count(auth, ":") != 1 {
		return false
	}
	sum := sha1.Sum([]byte(auth))
	id := zk.ID{Scheme: "digest", ID: strings.Clone(user) + ":" + base64.StdEncoding.EncodeToString(sum[:])}
	if id.ID == r.super {
		id = zk.ID{Scheme: "super"}
	}
	if s := r.State.session(r.session); !slices.Contains(s.ids, id) {
		s.ids = append(s.ids, id)
	}
	return true
}

// close ends the session of the request with its ephemerals.
func (r *request) close() {
	s := r.State.session(r.session)
	for _, p := range slices.Sorted(maps.Keys(s.ephemerals)) {
		dir, _, _ := split(p)
		r.unlink(dir, r.znodes[dir])
		r.remove(p, r.znodes[p])
	}
	delete(r.sessions, r.session)
}
