package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Txn is a list of writes and checks that is carried out whole or not at all
// (multi). Each method adds an operation and returns where its result will be.
// A Txn is built by one goroutine and committed once.
//
//	t := c.Txn()
//	t.Check("/config", 7)
//	made := t.Create("/config/new", data, zk.Persistent, nil)
//	err := t.Commit(ctx)
//	fmt.Println(made.Path)
type Txn struct {
	client *Client
	op     wire.OpCode // OpMulti or OpMultiRead
	ops    []wire.MultiOp
	paths  []string
	slots  []slot
	err    error // the first operation that cannot be sent
}

// slot is where an operation's result goes.
type slot struct {
	created  *Created
	stat     *zk.Stat
	data     *ReadData
	children *ReadChildren
}

// Created is the result of a create in a Txn. Stat is that of Create2 and CreateTTL,
// and of containers; servers before 3.8.2 leave it empty.
type Created struct {
	Path string
	Stat zk.Stat
}

// A TxnError says which operation made a Txn fail. It is in the tree of the error
// of Commit.
type TxnError struct {
	Index int    // of the operation, from 0
	Op    string // "create", …
	Path  string
	Err   zk.Code
}

// Error reads "operation 2, create /a: zookeeper: node exists".
func (e *TxnError) Error() string {
	return fmt.Sprintf("operation %d, %s %s: %v", e.Index, e.Op, e.Path, e.Err)
}

// Unwrap returns the code.
func (e *TxnError) Unwrap() error { return e.Err }

// Txn begins a transaction.
func (c *Client) Txn() *Txn { return &Txn{client: c, op: wire.OpMulti} }

// Create adds a create; see [Client.Create].
func (t *Txn) Create(path string, data []byte, mode zk.CreateMode, acl []zk.ACL) *Created {
	return t.create(wire.OpCreate, path, data, mode, acl, 0)
}

// Create2 adds a create whose result has the Stat of the new znode too; see
// [Client.Create2]. Servers know it from 3.5 on, and answer the Stat from 3.8.2 on.
func (t *Txn) Create2(path string, data []byte, mode zk.CreateMode, acl []zk.ACL) *Created {
	return t.create(wire.OpCreate2, path, data, mode, acl, 0)
}

// CreateTTL adds a create with a time to live; see [Client.CreateTTL].
func (t *Txn) CreateTTL(path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) *Created {
	return t.create(wire.OpCreateTTL, path, data, mode, acl, ttl)
}

func (t *Txn) create(op wire.OpCode, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) *Created {
	if mode == zk.Container {
		op = wire.OpCreateContainer
	}
	if acl == nil {
		acl = openACL
	}
	r := &Created{}
	m := wire.MultiOp{Type: op}
	m.CreateRequest = wire.CreateRequest{Data: data, ACL: acl, Flags: mode, TTL: ttl.Milliseconds()}
	t.add(m, path, checkCreate(path, mode, op, ttl), slot{created: r})
	return r
}

// Set adds a change of data; the result is the new Stat.
func (t *Txn) Set(path string, data []byte, version int32) *zk.Stat {
	r := &zk.Stat{}
	m := wire.MultiOp{Type: wire.OpSetData, Version: version}
	m.Data = data
	t.add(m, path, CheckPath(path), slot{stat: r})
	return r
}

// Delete adds a deletion.
func (t *Txn) Delete(path string, version int32) {
	t.add(wire.MultiOp{Type: wire.OpDelete, Version: version}, path, CheckPath(path), slot{})
}

// Check adds a condition: the znode exists and its data has the version, -1 for
// any.
func (t *Txn) Check(path string, version int32) {
	t.add(wire.MultiOp{Type: wire.OpCheck, Version: version}, path, CheckPath(path), slot{})
}

// Len is the number of operations.
func (t *Txn) Len() int { return len(t.ops) }

func (t *Txn) add(m wire.MultiOp, path string, invalid error, s slot) {
	if invalid != nil && t.err == nil {
		t.err = fmt.Errorf("operation %d, %s %s: %w", len(t.ops), opName(m.Type), path, invalid)
	}
	m.Path = t.client.outer(path)
	t.ops, t.paths, t.slots = append(t.ops, m), append(t.paths, path), append(t.slots, s)
}

// opName is the name of an operation in errors.
func opName(op wire.OpCode) string {
	switch op {
	case wire.OpSetData:
		return "set"
	case wire.OpDelete:
		return "delete"
	case wire.OpCheck:
		return "check"
	case wire.OpGetData:
		return "get"
	case wire.OpGetChildren:
		return "ls"
	}
	return "create"
}

// Commit carries the transaction out and fills the results. When an operation
// fails, nothing is carried out; errors.As with a *TxnError says which. With an
// error the results stay empty, also when the wait was given up. A server that does
// not know an operation carries out nothing either: the error is
// zk.ErrUnimplemented.
func (t *Txn) Commit(ctx context.Context) error {
	r := t.client.do(ctx, t.call(), t.append)
	t.fill(&r)
	return r.err
}

// CommitAsync is Commit with a callback; the results are filled before it runs.
func (t *Txn) CommitAsync(ctx context.Context, done func(err error)) {
	t.client.begin(ctx, t.call(), t.append, &txnDone{t, done})
}

type txnDone struct {
	txn  *Txn
	done func(err error)
}

func (d *txnDone) complete(r *result) {
	d.txn.fill(r)
	d.done(r.err)
}

func (t *Txn) call() call {
	name := "multi"
	if t.op == wire.OpMultiRead {
		name = "multiread"
	}
	return call{op: t.op, name: name, decode: decodeMulti, txn: t, invalid: t.err}
}

func (t *Txn) append(b []byte) []byte {
	for i := range t.ops {
		b = t.ops[i].Append(b)
	}
	return wire.AppendMultiEnd(b)
}

// fill copies the results into the caller's slots. Until then they are kept in the
// result of the whole, because a caller whose context has ended may reuse the slots.
func (t *Txn) fill(r *result) {
	for i, p := range many[result](r) {
		t.slots[i].fill(&p)
	}
}

func (s *slot) fill(p *result) {
	switch {
	case s.created != nil:
		*s.created = Created{p.text, p.stat}
	case s.stat != nil:
		*s.stat = p.stat
	case s.data != nil:
		*s.data = ReadData{p.data, p.stat, p.err}
	case s.children != nil:
		*s.children = ReadChildren{many[string](p), p.err}
	}
}

var errResults = errors.New("client: the results of a multi are not those of its operations")

// read reads a result for each operation. A failed multi has only errors: those
// before the one that failed say OK, those after it ErrRuntimeInconsistency.
func (t *Txn) read(c *Client, d *jute.Decoder, r *result) {
	own(d)
	parts := make([]result, len(t.ops))
	var failed *TxnError
	for i := 0; ; i++ {
		var head wire.MultiHeader
		head.Decode(d)
		switch {
		case d.Err() != nil:
			return
		case head.Done != (i == len(t.ops)):
			d.Fail(errResults)
			return
		case head.Done && failed != nil:
			r.err = &Error{Op: "multi", Err: failed}
			return
		case head.Done:
			r.many = parts
			return
		case head.Type == wire.OpError:
			code := zk.Code(d.Int())
			switch {
			case t.op == wire.OpMultiRead:
				parts[i].err = &Error{Op: opName(t.ops[i].Type), Path: t.paths[i], Err: code}
			case failed == nil && code != zk.OK:
				failed = &TxnError{Index: i, Op: opName(t.ops[i].Type), Path: t.paths[i], Err: code}
			}
		default:
			decodePart(c, t.ops[i].Type, head.Type, d, &parts[i])
		}
	}
}

// decodePart reads the result of one operation, by the type that the server says it
// has, which before 3.8.2 is create for create2.
func decodePart(c *Client, asked, op wire.OpCode, d *jute.Decoder, p *result) {
	switch {
	case isCreate(asked) && op == wire.OpCreate:
		parsePath(c, d, p)
	case isCreate(asked) && isCreate(op):
		parsePath(c, d, p)
		p.stat = wire.DecodeStat(d)
	case asked != op:
		d.Fail(errResults)
	case op == wire.OpSetData:
		p.stat = wire.DecodeStat(d)
	case op == wire.OpGetData:
		p.data = d.Buffer()
		p.stat = wire.DecodeStat(d)
	case op == wire.OpGetChildren:
		p.many = d.Strings()
	}
}

// isCreate reports whether op is any create.
func isCreate(op wire.OpCode) bool {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return true
	}
	return false
}
