package prep

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// parentOf names the parent as the projection knows it: the root is "/".
func parentOf(path string) string {
	if parent := znode.Parent(path); parent != "" {
		return parent
	}
	return "/"
}

// splittable reports whether path has a parent at all.
func splittable(path string) bool {
	return strings.IndexByte(path, '/') >= 0 && strings.IndexByte(path, 0) < 0
}

// create prepares all kinds of create. The order of the checks is Apache's, for
// the first that fails is the one that the client hears of.
func (p *Preparer) create(req *Request, h *txn.Header, m *wire.MultiOp, op *txn.Op) zk.Code {
	if code := p.checkFlags(req, m); code != zk.OK {
		return code
	}
	if !splittable(m.Path) {
		return zk.ErrBadArguments
	}
	acl, code := p.fixUp(m.ACL, req.IDs)
	if code != zk.OK {
		return code
	}
	parentPath := parentOf(m.Path)
	parent, ok := p.get(parentPath)
	if !ok {
		return zk.ErrNoNode
	}
	if !p.allowed(req, parent.acl, zk.PermCreate) {
		return zk.ErrNoAuth
	}
	path := strings.Clone(m.Path)
	if m.Flags.IsSequential() {
		path = m.Path + sequence(parent.mode.Cversion)
	}
	if znode.ValidatePath(path) != nil {
		return zk.ErrBadArguments
	}
	if _, exists := p.get(path); exists {
		return zk.ErrNodeExists
	}
	if p.tree.IsEphemeral(parent.mode.Owner) {
		return zk.ErrNoChildrenForEphemerals
	}
	if code := p.checkQuota(path, int64(len(m.Data)), 1); code != zk.OK {
		return code
	}
	*op = txn.Op{
		Type: m.Type, Path: path, Data: m.Data, ACL: acl.Entries, ParentCversion: parent.mode.Cversion + 1,
		Ephemeral: m.Flags.IsEphemeral() && m.Type != wire.OpCreateContainer, TTL: m.TTL,
	}
	if p.tooLarge(op) {
		return zk.ErrBadArguments
	}
	p.projectCreate(req, h, op, acl, parent)
	return zk.OK
}

// checkFlags checks what a create asks for, and that its session may.
func (p *Preparer) checkFlags(req *Request, m *wire.MultiOp) zk.Code {
	switch {
	case !m.Flags.Valid():
		return zk.ErrBadArguments
	case m.Type == wire.OpCreateTTL && !p.cfg.ExtendedTypes:
		return zk.ErrUnimplemented
	case m.Flags.IsTTL() && !p.cfg.ExtendedTypes:
		return zk.ErrUnimplemented
	case m.Flags.IsTTL() != (m.Type == wire.OpCreateTTL):
		// Apache lets a createTTL without a TTL flag pass, and dies of it.
		return zk.ErrBadArguments
	case m.Flags.IsTTL() && (m.TTL <= 0 || m.TTL > znode.MaxTTL):
		return zk.ErrBadArguments
	case m.Flags.IsEphemeral():
		return p.checkOwnership(req)
	}
	return p.checkSession(req)
}

// longACL is the number of entries from which an ACL is checked without the tree's lock.
const longACL = 256

// fixedACL is a result of fixUp.
type fixedACL struct {
	list *access.List
	code zk.Code
}

// fixAhead calls fixUp for an operation's ACL without the tree's lock, if the ACL is long
// or may become long.
func (p *Preparer) fixAhead(acl []zk.ACL, ids []zk.ID) {
	p.fixed = fixedACL{}
	if len(acl) == 0 || len(acl)+len(ids) < longACL {
		return
	}
	p.away(func() {
		var f fixedACL
		if f.list, f.code = p.fixUp(acl, ids); f.code == zk.OK {
			p.auth.Index(f.list)
		}
		p.fixed = f
	})
}

// fixUp returns the ACL to store. It shares nothing with the request.
func (p *Preparer) fixUp(acl []zk.ACL, ids []zk.ID) (*access.List, zk.Code) {
	if p.fixed != (fixedACL{}) {
		return p.fixed.list, p.fixed.code
	}
	if len(acl) == 1 && acl[0].Perms == zk.PermAll && acl[0].ID == zk.AnyoneUnsafe {
		return p.openACL, zk.OK
	}
	fixed, code := p.auth.FixUp(acl, ids)
	if code != zk.OK {
		return nil, code
	}
	fixed = slices.Clone(fixed)
	for i, a := range fixed {
		fixed[i].ID = zk.ID{Scheme: strings.Clone(a.ID.Scheme), ID: strings.Clone(a.ID.ID)}
	}
	return access.New(fixed), zk.OK
}

// sequence is the suffix of a sequential name: the count of creates in ten
// digits, a sign among them. A counter never passes 2^31-1, for the tree does not
// go back to the negative number that follows: from then on every name is the
// same, and exists. A negative one comes from elsewhere.
func sequence(cversion int32) string {
	digits := strconv.FormatInt(int64(cversion), 10)
	if len(digits) >= 10 {
		return digits
	}
	pad := "0000000000"[:10-len(digits)]
	if cversion < 0 {
		return "-" + pad + digits[1:]
	}
	return pad + digits
}

// projectCreate records the parent and the new znode as they will be, under
// paths that do not alias the request.
func (p *Preparer) projectCreate(req *Request, h *txn.Header, op *txn.Op, acl *access.List, parent change) {
	changed := parent
	changed.kids++
	if op.ParentCversion > parent.mode.Cversion { // as the tree will, see znode
		changed.mode.Cversion, changed.mode.Pzxid = op.ParentCversion, h.Zxid
	}
	p.put(h, parentOf(op.Path), &parent, changed)
	owner := zk.SessionID(0)
	if op.Ephemeral {
		owner = req.Session
	}
	ttl := int64(0)
	if op.Type == wire.OpCreateTTL {
		ttl = op.TTL
	}
	p.addSum(op)
	p.put(h, op.Path, nil, change{
		mode: znode.Mode{
			Czxid: h.Zxid, Mzxid: h.Zxid, Pzxid: h.Zxid, Ctime: h.Time, Mtime: h.Time,
			Owner: p.tree.OwnerOf(owner, op.Type == wire.OpCreateContainer, ttl),
		},
		sum: op.Sum, dataLen: len(op.Data), acl: acl,
	})
}

// addSum sets the sum of op's path and data where a digest is kept.
func (p *Preparer) addSum(op *txn.Op) {
	if p.cfg.DigestEnabled {
		op.Sum, op.HasSum = znode.Sum(op.Path, op.Data), true
	}
}

func (p *Preparer) delete(req *Request, h *txn.Header, m *wire.MultiOp, op *txn.Op) zk.Code {
	if code := p.checkSession(req); code != zk.OK {
		return code
	}
	if !splittable(m.Path) || znode.IsSystem(m.Path) {
		return zk.ErrBadArguments
	}
	parent, ok := p.get(parentOf(m.Path))
	if !ok {
		return zk.ErrNoNode
	}
	if !p.allowed(req, parent.acl, zk.PermDelete) {
		return zk.ErrNoAuth
	}
	return p.deleteLeaf(h, m.Path, m.Version, op)
}

// deleteLeaf prepares the deletion of a znode that must exist, have the version
// and no children.
func (p *Preparer) deleteLeaf(h *txn.Header, path string, version int32, op *txn.Op) zk.Code {
	c, ok := p.get(path)
	switch {
	case !ok:
		return zk.ErrNoNode
	case version != -1 && version != c.mode.Version:
		return zk.ErrBadVersion
	case c.kids > 0:
		return zk.ErrNotEmpty
	}
	path = strings.Clone(path)
	*op = txn.Op{Type: wire.OpDelete, Path: path}
	if p.tooLarge(op) {
		return zk.ErrBadArguments
	}
	p.removeChange(h, path, c)
	return zk.OK
}

// deleteContainer deletes a container or a TTL znode for the server's own sweep. The path
// comes as a string record, or bare from an old server. A session's request is refused,
// as Apache 3.8.0 does: it would delete without a right, and no client library sends it.
func (p *Preparer) deleteContainer(req *Request, tx *txn.Txn) zk.Code {
	path := string(req.Body)
	if d := jute.NewDecoder(req.Body); len(req.Body) >= 4 && req.Body[0] != '/' {
		path = d.String()
	}
	if !req.internal() || !splittable(path) || znode.IsSystem(path) {
		return zk.ErrBadArguments
	}
	c, ok := p.get(path)
	switch {
	case !ok:
		return zk.ErrNoNode
	case c.kids > 0:
		return zk.ErrNotEmpty
	case p.tree.IsEphemeral(c.mode.Owner):
		return zk.ErrBadVersion
	}
	code := p.deleteLeaf(&tx.Header, path, -1, &tx.Op)
	tx.Op.Type = wire.OpDeleteContainer
	return code
}

// find returns a znode that the session may change or check, with a permission.
func (p *Preparer) find(req *Request, path string, perm zk.Perms) (change, zk.Code) {
	if code := p.checkSession(req); code != zk.OK {
		return change{}, code
	}
	if znode.ValidatePath(path) != nil {
		return change{}, zk.ErrBadArguments
	}
	c, ok := p.get(path)
	switch {
	case !ok:
		return c, zk.ErrNoNode
	case !p.allowed(req, c.acl, perm):
		return c, zk.ErrNoAuth
	}
	return c, zk.OK
}

func (p *Preparer) setData(req *Request, h *txn.Header, m *wire.MultiOp, op *txn.Op) zk.Code {
	c, code := p.find(req, m.Path, zk.PermWrite)
	if code != zk.OK {
		return code
	}
	if code := p.checkQuota(m.Path, int64(len(m.Data)-c.dataLen), 0); code != zk.OK {
		return code
	}
	if m.Version != -1 && m.Version != c.mode.Version {
		return zk.ErrBadVersion
	}
	path := strings.Clone(m.Path)
	*op = txn.Op{Type: wire.OpSetData, Path: path, Data: m.Data, Version: c.mode.Version + 1}
	if p.tooLarge(op) {
		return zk.ErrBadArguments
	}
	changed := c
	changed.mode.Version, changed.mode.Mzxid, changed.mode.Mtime = op.Version, h.Zxid, h.Time
	p.addSum(op)
	changed.sum, changed.dataLen = op.Sum, len(m.Data)
	p.put(h, path, &c, changed)
	return zk.OK
}

func (p *Preparer) setACL(req *Request, h *txn.Header, m *wire.MultiOp, op *txn.Op) zk.Code {
	if code := p.checkSession(req); code != zk.OK {
		return code
	}
	if znode.ValidatePath(m.Path) != nil {
		return zk.ErrBadArguments
	}
	acl, code := p.fixUp(m.ACL, req.IDs)
	if code != zk.OK {
		return code
	}
	c, ok := p.get(m.Path)
	switch {
	case !ok:
		return zk.ErrNoNode
	case !p.allowed(req, c.acl, zk.PermAdmin):
		return zk.ErrNoAuth
	case m.Version != -1 && m.Version != c.mode.Aversion:
		return zk.ErrBadVersion
	}
	path := strings.Clone(m.Path)
	*op = txn.Op{Type: wire.OpSetACL, Path: path, ACL: acl.Entries, Version: c.mode.Aversion + 1}
	if p.tooLarge(op) {
		return zk.ErrBadArguments
	}
	changed := c
	changed.mode.Aversion, changed.acl = op.Version, acl
	p.put(h, path, &c, changed)
	return zk.OK
}

func (p *Preparer) check(req *Request, m *wire.MultiOp, op *txn.Op) zk.Code {
	c, code := p.find(req, m.Path, zk.PermRead)
	switch {
	case code != zk.OK:
		return code
	case m.Version != -1 && m.Version != c.mode.Version:
		return zk.ErrBadVersion
	}
	op.Version = m.Version + 1
	return zk.OK
}

// checkQuota refuses a change that would pass a hard limit. Like Apache's it
// knows the applied state only: pipelined writes can overshoot.
func (p *Preparer) checkQuota(path string, bytes, count int64) zk.Code {
	if !p.cfg.EnforceQuota {
		return zk.OK
	}
	q := p.tree.QuotaPath(path)
	if q == "" {
		return zk.OK
	}
	limits, used, ok := p.tree.QuotaLimits(q)
	if !ok {
		return zk.OK
	}
	if count != 0 && limits.CountHard > -1 && used.Count+count > limits.CountHard ||
		bytes != 0 && limits.BytesHard > -1 && used.Bytes+bytes > limits.BytesHard {
		if p.cfg.OverQuota != nil {
			p.cfg.OverQuota(path)
		}
		return zk.ErrQuotaExceeded
	}
	return zk.OK
}

// prepareMulti decodes some of the operations at a time, and prepares them one by one. With the first that fails
// everything is undone: it keeps its code, those after it say that they were
// not looked at, and those before it stay as they are in the transaction, which
// changes nothing when it is applied.
func (p *Preparer) prepareMulti(req *Request, tx *txn.Txn) zk.Code {
	long := len(req.Body) >= longBody
	p.multi.begin(req.Body)
	if long {
		p.away(func() { p.makeRoom(tx) })
	} else {
		p.makeRoom(tx)
	}
	digest := p.digest
	p.out.begin()
	code := p.prepareEach(req, tx)
	switch {
	case code == zk.OK:
		p.out.commit()
		p.multi.end()
		return zk.OK
	case long:
		code = p.undoAway(tx, code)
	default:
		code = p.undoMulti(tx, code)
	}
	p.multi.end()
	p.digest = digest
	return code
}

// longBody is from how many bytes of a request the work that needs no tree is done without the tree's lock.
const longBody = 4 << 10

// prepareEach prepares the operations of a multi into tx, up to the first that fails, whose
// code it returns. One that would make the transaction longer than MaxTxnBytes fails with
// ErrBadArguments, and one that cannot be decoded with ErrMarshalling.
func (p *Preparer) prepareEach(req *Request, tx *txn.Txn) zk.Code {
	tx.Op.Type = wire.OpMulti
	bytes := p.overhead() + txn.MultiLen
	for list := &p.multi; ; {
		if len(req.Body) < longBody {
			list.fill()
		} else {
			p.away(list.fill)
		}
		if list.n == 0 {
			return codeOf(&list.d)
		}
		for i := range list.ops[:list.n] {
			var op txn.Op
			if code := p.prepareOp(req, &tx.Header, &list.ops[i], &op); code != zk.OK {
				return code
			}
			if bytes += txn.SubLen + op.RecordLen(); p.exceeds(bytes) {
				return zk.ErrBadArguments
			}
			tx.Multi = append(tx.Multi, op)
		}
	}
}

// undoAway is undoMulti, without the tree's lock.
func (p *Preparer) undoAway(tx *txn.Txn, code zk.Code) zk.Code {
	p.away(func() { code = p.undoMulti(tx, code) })
	return code
}

// undoMulti undoes a multi of which the operation after those in tx has failed with code, and
// completes tx. A code other than OK is for the request as a whole, and then tx has none
// of them. It needs no tree.
func (p *Preparer) undoMulti(tx *txn.Txn, code zk.Code) zk.Code {
	p.out.rollback()
	for p.multi.next(&p.multi.ops[0]) { // of a multi that cannot be decoded nothing else is said
	}
	done := len(tx.Multi)
	switch {
	case p.multi.d.Err() != nil:
		tx.Multi = tx.Multi[:0]
		return zk.ErrMarshalling
	case code == zk.ErrSessionMoved:
		tx.Multi = tx.Multi[:0]
		return code
	}
	for range p.multi.count - done {
		tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpError, Err: code})
		code = zk.ErrRuntimeInconsistency // of those that were not looked at
	}
	if p.exceeds(tx.Len()) {
		return p.dropUndone(tx, done)
	}
	return zk.OK
}

// dropUndone makes a failed multi that is too long shorter: the first done
// operations, which have no effect, become results without an error. The reply is
// the same. If that is not enough, the multi as a whole is refused.
func (p *Preparer) dropUndone(tx *txn.Txn, done int) zk.Code {
	for i := range tx.Multi[:done] {
		tx.Multi[i] = txn.Op{Type: wire.OpError, Err: zk.OK}
	}
	if p.exceeds(tx.Len()) {
		tx.Multi = tx.Multi[:0]
		return zk.ErrBadArguments
	}
	return zk.OK
}

// opsAtOnce is how many operations of a multi are decoded, and then prepared, at a time: what the processor's cache holds.
const opsAtOnce = 128

// opList decodes the operations of a multi. It keeps nothing of a request after end.
type opList struct {
	d     jute.Decoder
	acls  wire.ACLs
	ended bool // there are no more, or d has an error
	count int  // of all operations; too large perhaps if one of them cannot be decoded
	n     int  // of the operations in ops
	ops   [opsAtOnce]wire.MultiOp
}

// begin begins to decode the body of a multi.
func (l *opList) begin(body []byte) { l.d, l.acls, l.ended = jute.NewDecoder(body), wire.ACLs{}, false }

// makeRoom counts the operations of the multi, and makes room for them in tx.
func (p *Preparer) makeRoom(tx *txn.Txn) {
	n := wire.CountMulti(p.multi.d.Rest(), math.MaxInt)
	p.multi.count = n
	switch {
	case n <= cap(tx.Multi):
	case p.cfg.Room != nil:
		tx.Multi = p.cfg.Room(n)
	default:
		tx.Multi = make([]txn.Op, 0, n)
	}
}

// fill decodes the next operations, as many as there is room for.
func (l *opList) fill() {
	for l.n = 0; l.n < len(l.ops) && l.next(&l.ops[l.n]); {
		l.n++
	}
}

// end forgets the operations, which alias the request.
func (l *opList) end() {
	clear(l.ops[:min(l.count+1, len(l.ops))])
	l.d, l.acls = jute.Decoder{}, wire.ACLs{}
}

// next decodes the next operation into m. It sets the type of a create, which follows from its
// mode: a container is one whatever operation asks for it, and a createTTL
// without a TTL mode is a create. It returns false after the last one and after an error of d. Apache, since 3.9, refuses
// while decoding a create whose mode is none, or has a TTL.
func (l *opList) next(m *wire.MultiOp) bool {
	if l.ended || !m.Next(&l.d, wire.OpMulti, &l.acls) {
		l.ended = true
		return false
	}
	switch m.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
		if m.Flags.IsTTL() || !m.Flags.Valid() {
			l.d.Fail(fmt.Errorf("%w: a create in mode %d", wire.ErrMultiOp, m.Flags))
			l.ended = true
			return false
		}
	case wire.OpCreateTTL:
		if m.Flags.IsTTL() {
			return true
		}
		m.Type, m.TTL = wire.OpCreate, -1
	default:
		return true
	}
	if m.Flags == zk.Container {
		m.Type = wire.OpCreateContainer
	}
	return true
}
