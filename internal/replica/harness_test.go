package replica

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

var testTree = znode.Options{ExtendedTypes: true}

// machine is a replica with the disk under it, and notes what it is told.
type machine struct {
	rep  *Replica
	dir  *storage.Dir
	note *notes
}

// bootLog has small files, so that much happens with few transactions. No Caller writes to such files
// (promptBytes).
var bootLog = storage.LogOptions{PreallocBytes: 8 << 10, MaxFileBytes: 24 << 10}

// boot starts a replica on a disk.
func boot(fsys vfs.FS, change func(*Options)) (*machine, Report, error) {
	authority, err := auth.New(auth.Config{})
	if err != nil {
		return nil, Report{}, err
	}
	dir, err := storage.Open(fsys, storage.Options{
		DataDir: "/data", AutoCreate: true,
		Log: bootLog,
	})
	if err != nil {
		return nil, Report{}, err
	}
	m := &machine{dir: dir, note: &notes{}}
	o := Options{
		Dir: dir, Tree: testTree, Auth: authority, Clients: m.note, ServerID: 1, Tick: time.Second,
		Prep:      prep.Config{ExtendedTypes: true, ListClosedPaths: true, DigestEnabled: true},
		SnapCount: 40, LastZxidBlock: true, DBAutoCreate: true, MaxRecordBytes: 1 << 20,
		SweepInterval: time.Hour, SweepPerMinute: 1000, Prefetch: true, Scrub: true,
	}
	if change != nil {
		change(&o)
	}
	rep, report, err := Start(o, time.Now().UnixMilli())
	if err != nil {
		dir.Close()
		return nil, report, err
	}
	m.rep = rep
	return m, report, nil
}

func mustBoot(t *testing.T, fsys vfs.FS, change func(*Options)) (*machine, Report) {
	t.Helper()
	m, report, err := boot(fsys, change)
	if err != nil {
		t.Fatal(err)
	}
	return m, report
}

// halt closes the replica; an error is its failure.
func (m *machine) halt() error {
	err := m.rep.Close()
	m.dir.Close()
	return err
}

// notes is all clients: it records, in order, what the applier says.
type notes struct {
	mu    sync.Mutex
	acked [][]byte // transactions that Applied told of
	codes []zk.Code
	order []note
	flush int
	last  zk.SessionID // of the latest createSession

	dropped, synced int
	resumed         []bool
	heard           time.Duration
	released        func() // set before the start; nil is allowed
}

type note struct {
	zxid  zk.Zxid
	event string // "" is a reply
}

func (n *notes) Applied(_ *Request, tx *txn.Txn, r *znode.Result, _ View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acked = append(n.acked, tx.Append(nil))
	n.codes = append(n.codes, r.Err)
	n.order = append(n.order, note{zxid: tx.Zxid})
	if tx.Header.Type == wire.OpCreateSession {
		n.last = tx.Session
	}
}

func (n *notes) Resumed(ok bool, _ zk.SessionID, _ int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resumed = append(n.resumed, ok)
}

// answers returns what Resumed was told.
func (n *notes) answers() []bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.resumed)
}

func (n *notes) ResumedLocal(id zk.SessionID, _ int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = id
}

func (n *notes) Leave(string) {}

func (n *notes) Admit() {}

func (n *notes) Synced(*Request, View) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.synced++
}

func (n *notes) Dropped(*Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropped++
}

func (n *notes) Suspend() {}

func (n *notes) Released() {
	if f := n.released; f != nil {
		f()
	}
}

func (n *notes) Carried(*txn.Txn)        {}
func (n *notes) LocalEnded(zk.SessionID) {}

// Ended implements Clients.
func (n *notes) Ended(*txn.Txn, []znode.Change) {}

// WantsEnded implements Clients.
func (n *notes) WantsEnded() bool { return false }

func (n *notes) Applying(*Request, *txn.Txn, *znode.Result) {}

func (n *notes) LastHeard() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heard
}

// hear is a sign of life of all sessions.
func (n *notes) hear(at time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard = at
}

func (n *notes) Fired(z zk.Zxid, ch *znode.Change, ws []watch.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.order = append(n.order, note{z, fmt.Sprintf("%v %s %v", ch.Type, ch.Path, ws)})
}

func (n *notes) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flush++
}

// acknowledged returns the transactions so far.
func (n *notes) acknowledged() [][]byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.acked)
}

// newSession is the session that was made last.
func (n *notes) newSession() zk.SessionID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// request makes a request of which m.note hears.
func (m *machine) request(s zk.SessionID, op wire.OpCode, body []byte) Request {
	return Request{
		Request: prep.Request{Session: s, Op: op, Body: body, IDs: []zk.ID{{Scheme: "ip", ID: "127.0.0.1"}}, Owner: session.Owner(1)},
		Origin:  m.note, Received: m.rep.Now(),
	}
}

// sessions returns n requests for a session each.
func (m *machine) sessions(n int) []Request {
	var reqs []Request
	for range n {
		op, body := createSession(5000)
		reqs = append(reqs, m.request(0, op, body))
	}
	return reqs
}

func createSession(timeoutMillis int32) (wire.OpCode, []byte) {
	return wire.OpCreateSession, jute.AppendInt(nil, timeoutMillis)
}

func create(path string, data []byte, mode zk.CreateMode) (wire.OpCode, []byte) {
	r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode}
	return wire.OpCreate, r.Append(nil, wire.OpCreate)
}

func setData(path string, data []byte) (wire.OpCode, []byte) {
	r := wire.SetDataRequest{Path: path, Data: data, Version: -1}
	return wire.OpSetData, r.Append(nil)
}

func remove(path string) (wire.OpCode, []byte) {
	r := wire.PathVersion{Path: path, Version: -1}
	return wire.OpDelete, r.Append(nil)
}

// dump prints all of a tree that a client, or recovery, can see, and verifies its
// digest and its index of paths.
func dump(t *znode.Tree) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "zxid %v digest %d\n", t.LastZxid(), t.Digest())
	var sessions []string
	t.Sessions(func(s zk.SessionID, timeout int32) {
		var paths []string
		t.Ephemerals(s, func(path string) { paths = append(paths, path) })
		slices.Sort(paths)
		sessions = append(sessions, fmt.Sprintf("session %v %d %q\n", s, timeout, paths))
	})
	slices.Sort(sessions)
	b.WriteString(strings.Join(sessions, ""))
	var digest uint64
	var scratch znode.Scratch
	var visit func(path string) error
	visit = func(path string) error {
		id := t.Lookup(path)
		if id == 0 {
			return fmt.Errorf("%q is in its parent's list and not found", path)
		}
		name := path
		if path == "/" {
			name = ""
		}
		mode := t.Mode(id)
		if znode.InDigest(name) {
			digest += uint64(mode.Digest(znode.Sum(name, t.Data(id)), &scratch))
		}
		fmt.Fprintf(&b, "%q %+v %v %q\n", path, mode, t.ACL(id).All(), t.Data(id))
		var kids []string
		t.Children(id, func(kid string) { kids = append(kids, name+"/"+kid) })
		slices.Sort(kids)
		for _, kid := range kids {
			if err := visit(kid); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit("/"); err != nil {
		return "", err
	}
	if digest != t.Digest() {
		return "", fmt.Errorf("the znodes have digest %d, the tree says %d", digest, t.Digest())
	}
	return b.String(), nil
}

func (m *machine) dump() (s string, err error) {
	m.rep.View(func(tree View) { s, err = dump(tree.Tree) })
	return s, err
}

// rebuild is the tree that transactions lead to.
func rebuild(txns [][]byte) (*znode.Tree, error) {
	t := znode.New(testTree)
	var r znode.Result
	for _, b := range txns {
		tx, err := txn.Decode(b)
		if err != nil {
			return nil, err
		}
		t.Apply(&tx, &r)
	}
	return t, nil
}

// bring submits requests as a connection does that must not wait for the disk.
func bring(r *Replica, reqs []Request) {
	r.Bring(reqs)
	r.Work(nil)
}
