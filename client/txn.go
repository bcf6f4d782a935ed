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

// Created is the result of a create in a Txn. Servers before 3.8.2 leave Stat
// empty.
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
	op := wire.OpCreate2
	if mode == zk.Container {
		op = wire.OpCreateContainer
	}
	return t.create(op, path, data, mode, acl, 0)
}

// CreateTTL adds a create with a time to live; see [Client.CreateTTL].
func (t *Txn) CreateTTL(path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) *Created {
	return t.create(wire.OpCreateTTL, path, data, mode, acl, ttl)
}

func (t *Txn) create(op wire.OpCode, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) *Created {
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
// fails, nothing is carried out; errors.As with a *TxnError says which.
func (t *Txn) Commit(ctx context.Context) error {
	return t.client.do(ctx, t.call(), t.append).err
}

// CommitAsync is Commit with a callback; the results are filled before it runs.
func (t *Txn) CommitAsync(ctx context.Context, done func(err error)) {
	t.client.begin(ctx, t.call(), t.append, errDone(done))
}

func (t *Txn) call() call {
	name := "multi"
	if t.op == wire.OpMultiRead {
		name = "multiread"
	}
	return call{op: t.op, name: name, decode: t.decode, invalid: t.err}
}

func (t *Txn) append(b []byte) []byte {
	for i := range t.ops {
		b = t.ops[i].Append(b)
	}
	return wire.AppendMultiEnd(b)
}

var errResults = errors.New("client: the results of a multi are not those of its operations")

// decode reads a result for each operation. A failed multi has only errors: those
// before the one that failed say OK, those after it ErrRuntimeInconsistency.
func (t *Txn) decode(c *Client, d *jute.Decoder, r *result) {
	var failed *TxnError
	own(d)
	for i := 0; ; i++ {
		var head wire.MultiHeader
		head.Decode(d)
		switch {
		case d.Err() != nil:
			return
		case head.Done && i != len(t.ops), !head.Done && i == len(t.ops):
			d.Fail(errResults)
			return
		case head.Done:
			if failed != nil {
				r.err = &Error{Op: "multi", Err: failed}
			}
			return
		case head.Type == wire.OpError:
			code := zk.Code(d.Int())
			if t.op == wire.OpMultiRead {
				t.slots[i].fail(&Error{Op: opName(t.ops[i].Type), Path: t.paths[i], Err: code})
			} else if failed == nil && code != zk.OK {
				failed = &TxnError{Index: i, Op: opName(t.ops[i].Type), Path: t.paths[i], Err: code}
			}
		default:
			t.slots[i].decode(c, head.Type, d)
		}
	}
}

// decode reads the result of one operation, by the type that the server says it
// has, which before 3.8.2 is create for create2.
func (s *slot) decode(c *Client, op wire.OpCode, d *jute.Decoder) {
	var r result
	switch {
	case op == wire.OpCreate && s.created != nil:
		decodePath(c, d, &r)
		s.created.Path = r.text
	case (op == wire.OpCreate2 || op == wire.OpCreateContainer || op == wire.OpCreateTTL) && s.created != nil:
		decodePathStat(c, d, &r)
		*s.created = Created{r.text, r.stat}
	case op == wire.OpSetData && s.stat != nil:
		*s.stat = wire.DecodeStat(d)
	case op == wire.OpGetData && s.data != nil:
		decodeData(c, d, &r)
		*s.data = ReadData{r.data, r.stat, nil}
	case op == wire.OpGetChildren && s.children != nil:
		s.children.Names = d.Strings()
	case op == wire.OpDelete || op == wire.OpCheck:
	default:
		d.Fail(errResults)
	}
}
