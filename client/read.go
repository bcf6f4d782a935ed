package client

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Get returns the data of a znode, which the caller owns, and its Stat. Data that
// was created as null is nil.
func (c *Client) Get(ctx context.Context, path string) ([]byte, zk.Stat, error) {
	k, body := c.pathWatch(wire.OpGetData, "get", path, decodeData)
	r := c.do(ctx, k, body.Append)
	return r.data, r.stat, r.err
}

// GetAsync is Get with a callback, to which the data is lent: it is overwritten after
// the callback has returned. A caller that keeps it must clone it (bytes.Clone). Under
// the race detector it is overwritten at once, so that tests find callers that do not.
func (c *Client) GetAsync(ctx context.Context, path string, done func(data []byte, stat zk.Stat, err error)) {
	k, body := c.pathWatch(wire.OpGetData, "get", path, decodeData)
	c.begin(ctx, k, body.Append, dataDone(done))
}

// GetW is Get, and leaves a watch for the next change of the data, or deletion.
// Without a znode there is no watch.
func (c *Client) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *Watch, error) {
	k, body := c.pathWatch(wire.OpGetData, "get", path, decodeData)
	body.Watch, k.watch = true, c.newWatch(dataWatch, path)
	r := c.do(ctx, k, body.Append)
	return r.data, r.stat, r.watch, r.err
}

// GetWAsync is GetW with a callback, to which the data is lent, as by GetAsync.
func (c *Client) GetWAsync(ctx context.Context, path string, done func(data []byte, stat zk.Stat, w *Watch, err error)) {
	k, body := c.pathWatch(wire.OpGetData, "get", path, decodeData)
	body.Watch, k.watch = true, c.newWatch(dataWatch, path)
	c.begin(ctx, k, body.Append, dataWatchDone(done))
}

// Exists returns the Stat of a znode, if there is one.
func (c *Client) Exists(ctx context.Context, path string) (stat zk.Stat, exists bool, err error) {
	k, body := c.pathWatch(wire.OpExists, "exists", path, decodeStat)
	r := c.do(ctx, k, body.Append)
	exists, err = existence(&r)
	return r.stat, exists, err
}

// ExistsAsync is Exists with a callback.
func (c *Client) ExistsAsync(ctx context.Context, path string, done func(stat zk.Stat, exists bool, err error)) {
	k, body := c.pathWatch(wire.OpExists, "exists", path, decodeStat)
	c.begin(ctx, k, body.Append, existsDone(done))
}

// ExistsW is Exists, and leaves a watch for the next creation, deletion or change
// of data.
func (c *Client) ExistsW(ctx context.Context, path string) (stat zk.Stat, exists bool, w *Watch, err error) {
	k, body := c.pathWatch(wire.OpExists, "exists", path, decodeStat)
	body.Watch, k.watch = true, c.newWatch(existWatch, path)
	r := c.do(ctx, k, body.Append)
	exists, err = existence(&r)
	return r.stat, exists, r.watch, err
}

// ExistsWAsync is ExistsW with a callback.
func (c *Client) ExistsWAsync(ctx context.Context, path string, done func(stat zk.Stat, exists bool, w *Watch, err error)) {
	k, body := c.pathWatch(wire.OpExists, "exists", path, decodeStat)
	body.Watch, k.watch = true, c.newWatch(existWatch, path)
	c.begin(ctx, k, body.Append, existsWatchDone(done))
}

// existence takes ErrNoNode for an answer.
func existence(r *result) (bool, error) {
	if errors.Is(r.err, zk.ErrNoNode) {
		return false, nil
	}
	return r.err == nil, r.err
}

// Children returns the names of a znode's children, in no order, and the znode's
// own Stat.
func (c *Client) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	k, body := c.pathWatch(wire.OpGetChildren2, "ls", path, decodeChildren)
	r := c.do(ctx, k, body.Append)
	return many[string](&r), r.stat, r.err
}

// ChildrenAsync is Children with a callback.
func (c *Client) ChildrenAsync(ctx context.Context, path string, done func(names []string, stat zk.Stat, err error)) {
	k, body := c.pathWatch(wire.OpGetChildren2, "ls", path, decodeChildren)
	c.begin(ctx, k, body.Append, listDone(done))
}

// ChildrenW is Children, and leaves a watch for the next creation or deletion of a
// child, or the deletion of the znode. Without a znode there is no watch.
func (c *Client) ChildrenW(ctx context.Context, path string) ([]string, zk.Stat, *Watch, error) {
	k, body := c.pathWatch(wire.OpGetChildren2, "ls", path, decodeChildren)
	body.Watch, k.watch = true, c.newWatch(childWatch, path)
	r := c.do(ctx, k, body.Append)
	return many[string](&r), r.stat, r.watch, r.err
}

// ChildrenWAsync is ChildrenW with a callback.
func (c *Client) ChildrenWAsync(ctx context.Context, path string, done func(names []string, stat zk.Stat, w *Watch, err error)) {
	k, body := c.pathWatch(wire.OpGetChildren2, "ls", path, decodeChildren)
	body.Watch, k.watch = true, c.newWatch(childWatch, path)
	c.begin(ctx, k, body.Append, listWatchDone(done))
}

// GetACL returns the ACL of a znode and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]zk.ACL, zk.Stat, error) {
	k, body := c.named(wire.OpGetACL, "getacl", path, decodeACL)
	r := c.do(ctx, k, body.append)
	return many[zk.ACL](&r), r.stat, r.err
}

// GetACLAsync is GetACL with a callback.
func (c *Client) GetACLAsync(ctx context.Context, path string, done func(acl []zk.ACL, stat zk.Stat, err error)) {
	k, body := c.named(wire.OpGetACL, "getacl", path, decodeACL)
	c.begin(ctx, k, body.append, aclDone(done))
}

// Sync waits until the server that this Client is connected to has seen all that
// was committed when Sync reached the leader: a read that is started later sees
// at least that. The path does not matter.
func (c *Client) Sync(ctx context.Context, path string) error {
	k, body := c.named(wire.OpSync, "sync", path, decodeNothing)
	return c.do(ctx, k, body.append).err
}

// SyncAsync is Sync with a callback.
func (c *Client) SyncAsync(ctx context.Context, path string, done func(err error)) {
	k, body := c.named(wire.OpSync, "sync", path, decodeNothing)
	c.begin(ctx, k, body.append, errDone(done))
}

// Ephemerals returns the paths of this session's ephemeral znodes that begin with
// prefix, "/" for all. Servers know it from 3.6 on.
func (c *Client) Ephemerals(ctx context.Context, prefix string) ([]string, error) {
	k, body := c.named(wire.OpGetEphemerals, "getephemerals", prefix, decodePaths)
	r := c.do(ctx, k, body.append)
	return many[string](&r), r.err
}

// EphemeralsAsync is Ephemerals with a callback.
func (c *Client) EphemeralsAsync(ctx context.Context, prefix string, done func(paths []string, err error)) {
	k, body := c.named(wire.OpGetEphemerals, "getephemerals", prefix, decodePaths)
	c.begin(ctx, k, body.append, pathsDone(done))
}

// AllChildrenNumber returns how many znodes there are below one. Servers know it
// from 3.6 on.
func (c *Client) AllChildrenNumber(ctx context.Context, path string) (int, error) {
	k, body := c.named(wire.OpGetAllChildrenNumber, "getallchildrennumber", path, decodeCount)
	r := c.do(ctx, k, body.append)
	return r.count, r.err
}

// AllChildrenNumberAsync is AllChildrenNumber with a callback.
func (c *Client) AllChildrenNumberAsync(ctx context.Context, path string, done func(n int, err error)) {
	k, body := c.named(wire.OpGetAllChildrenNumber, "getallchildrennumber", path, decodeCount)
	c.begin(ctx, k, body.append, countDone(done))
}

// WhoAmI returns the identities of this connection. Servers know it from 3.7 on.
func (c *Client) WhoAmI(ctx context.Context) ([]zk.ID, error) {
	r := c.do(ctx, call{op: wire.OpWhoAmI, name: "whoami", decode: decodeIDs}, nothing)
	return many[zk.ID](&r), r.err
}

// WhoAmIAsync is WhoAmI with a callback.
func (c *Client) WhoAmIAsync(ctx context.Context, done func(ids []zk.ID, err error)) {
	c.begin(ctx, call{op: wire.OpWhoAmI, name: "whoami", decode: decodeIDs}, nothing, idsDone(done))
}

// configPath is where an ensemble keeps its membership, outside of any chroot.
const configPath = "/zookeeper/config"

// Config returns the membership of the ensemble as its servers hold it: a line a
// member, and the version. Servers have it from 3.5 on; without it the error is
// zk.ErrNoNode.
func (c *Client) Config(ctx context.Context) ([]byte, zk.Stat, error) {
	k := call{op: wire.OpGetData, name: "config", path: configPath, decode: decodeData}
	body := wire.PathWatch{Path: configPath}
	r := c.do(ctx, k, body.Append)
	return r.data, r.stat, r.err
}

// ConfigAsync is Config with a callback, to which the text is lent, as the data by
// GetAsync.
func (c *Client) ConfigAsync(ctx context.Context, done func(text []byte, stat zk.Stat, err error)) {
	k := call{op: wire.OpGetData, name: "config", path: configPath, decode: decodeData}
	body := wire.PathWatch{Path: configPath}
	c.begin(ctx, k, body.Append, dataDone(done))
}

// ConfigW is Config, and leaves a watch for the next change.
func (c *Client) ConfigW(ctx context.Context) ([]byte, zk.Stat, *Watch, error) {
	k, body := c.configWatch()
	r := c.do(ctx, k, body.Append)
	return r.data, r.stat, r.watch, r.err
}

// ConfigWAsync is ConfigW with a callback, to which the text is lent.
func (c *Client) ConfigWAsync(ctx context.Context, done func(text []byte, stat zk.Stat, w *Watch, err error)) {
	k, body := c.configWatch()
	c.begin(ctx, k, body.Append, dataWatchDone(done))
}

func (c *Client) configWatch() (call, wire.PathWatch) {
	k := call{op: wire.OpGetData, name: "config", path: configPath, decode: decodeData}
	k.watch = &Watch{client: c, kind: dataWatch, path: configPath, one: make(chan zk.Event, 1)}
	return k, wire.PathWatch{Path: configPath, Watch: true}
}

// pathWatch makes a request whose body is a path and a watch.
func (c *Client) pathWatch(op wire.OpCode, name, path string, decode decoding) (call, wire.PathWatch) {
	k := call{op: op, name: name, path: path, decode: decode, invalid: CheckPath(path)}
	return k, wire.PathWatch{Path: c.outer(path)}
}

// named makes a request whose body is a path.
func (c *Client) named(op wire.OpCode, name, path string, decode decoding) (call, pathBody) {
	k := call{op: op, name: name, path: path, decode: decode, invalid: CheckPath(path)}
	return k, pathBody(c.outer(path))
}

type pathBody string

func (p pathBody) append(b []byte) []byte { return jute.AppendString(b, string(p)) }

func nothing(b []byte) []byte { return b }

// A decoding is how the body of an answer that is no error is read.
type decoding uint8

const (
	decodeNothing decoding = iota
	decodeData
	decodeStat
	decodeChildren
	decodePaths
	decodeACL
	decodeCount
	decodeIDs
	decodePath
	decodePathStat
	decodeMulti
)

// read reads the body of the answer to a call into a result, which is zero. It is a
// switch and not a table of functions, so that d may be on the stack: each field
// moves it on, and on the heap the garbage collector would watch that.
func (k *call) read(c *Client, d *jute.Decoder, r *result) {
	switch k.decode {
	case decodeNothing:
	case decodeData:
		k.readData(c, d, r)
	case decodeStat:
		r.stat = wire.DecodeStat(d)
	case decodeChildren:
		own(d)
		r.many = d.Strings()
		r.stat = wire.DecodeStat(d)
	case decodePaths:
		parsePaths(c, d, r)
	case decodeACL:
		own(d)
		r.many = wire.DecodeACL(d)
		r.stat = wire.DecodeStat(d)
	case decodeCount:
		r.count = int(d.Int())
	case decodeIDs:
		parseIDs(d, r)
	case decodePath:
		parsePath(c, d, r)
	case decodePathStat:
		parsePath(c, d, r)
		r.stat = wire.DecodeStat(d)
	case decodeMulti:
		k.txn.read(c, d, r)
	}
}

// own makes the rest of the input the result's: what is decoded aliases it.
func own(d *jute.Decoder) { *d = jute.NewDecoder(bytes.Clone(d.Rest())) }

// readData copies the data: to new memory for a caller that waits, and to memory that
// is lent to a callback.
func (k *call) readData(c *Client, d *jute.Decoder, r *result) {
	if b := d.Buffer(); k.async {
		r.data = c.lent.clone(b)
	} else {
		r.data = bytes.Clone(b)
	}
	r.stat = wire.DecodeStat(d)
}

func parsePaths(c *Client, d *jute.Decoder, r *result) {
	own(d)
	var list []string
	for _, path := range d.Strings() {
		if inner, ok := c.below(path); ok { // a prefix matches its like as well
			list = append(list, inner)
		}
	}
	r.many = list
}

func parseIDs(d *jute.Decoder, r *result) {
	own(d)
	ids := make([]zk.ID, d.Count(8))
	for i := range ids {
		ids[i] = zk.ID{Scheme: d.String(), ID: d.String()}
	}
	r.many = ids
}

func parsePath(c *Client, d *jute.Decoder, r *result) { r.text = strings.Clone(c.inner(d.String())) }

// The completions of asynchronous operations: a callback, and what it is given.
type (
	errDone         func(error)
	dataDone        func([]byte, zk.Stat, error)
	dataWatchDone   func([]byte, zk.Stat, *Watch, error)
	statDone        func(zk.Stat, error)
	existsDone      func(zk.Stat, bool, error)
	existsWatchDone func(zk.Stat, bool, *Watch, error)
	listDone        func([]string, zk.Stat, error)
	listWatchDone   func([]string, zk.Stat, *Watch, error)
	pathDone        func(string, error)
	pathStatDone    func(string, zk.Stat, error)
	pathsDone       func([]string, error)
	aclDone         func([]zk.ACL, zk.Stat, error)
	countDone       func(int, error)
	idsDone         func([]zk.ID, error)
	watchDone       func(*Watch, error)
)

func (f errDone) complete(r *result)       { f(r.err) }
func (f dataDone) complete(r *result)      { f(r.data, r.stat, r.err) }
func (f dataWatchDone) complete(r *result) { f(r.data, r.stat, r.watch, r.err) }
func (f statDone) complete(r *result)      { f(r.stat, r.err) }
func (f listDone) complete(r *result)      { f(many[string](r), r.stat, r.err) }
func (f listWatchDone) complete(r *result) { f(many[string](r), r.stat, r.watch, r.err) }
func (f pathDone) complete(r *result)      { f(r.text, r.err) }
func (f pathStatDone) complete(r *result)  { f(r.text, r.stat, r.err) }
func (f pathsDone) complete(r *result)     { f(many[string](r), r.err) }
func (f aclDone) complete(r *result)       { f(many[zk.ACL](r), r.stat, r.err) }
func (f countDone) complete(r *result)     { f(r.count, r.err) }
func (f idsDone) complete(r *result)       { f(many[zk.ID](r), r.err) }
func (f watchDone) complete(r *result)     { f(r.watch, r.err) }

func (f existsDone) complete(r *result) {
	exists, err := existence(r)
	f(r.stat, exists, err)
}

func (f existsWatchDone) complete(r *result) {
	exists, err := existence(r)
	f(r.stat, exists, r.watch, err)
}
