package history

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Snapshot is a snapshot file that was read and is whole.
type Snapshot struct {
	*replica.State
	Zxid zk.Zxid // of its name
}

// ReadSnapshot reads a snapshot file. maxRecord is the length of the longest transaction,
// 0 for the default. /zookeeper/config is added if the file, of a server before 3.5, does
// not have it.
func ReadSnapshot(name string, maxRecord int) (*Snapshot, error) {
	if maxRecord == 0 {
		maxRecord = storage.DefaultMaxEntryBytes
	}
	sr, s, err := storage.OpenSnapshotFile(vfs.OS{}, name)
	if err != nil {
		return nil, err
	}
	state, err := replica.ReadState(sr, s.Zxid, maxRecord)
	return &Snapshot{state, s.Zxid}, err
}

// A Znode is one of a state, in the vocabulary of clients.
type Znode struct {
	Path string
	Data []byte // nil if it has none; valid during the call
	ACL  []zk.ACL
	Stat zk.Stat
	Mode zk.CreateMode // without a sequence number
	TTL  time.Duration // of zk.PersistentWithTTL
}

// Each calls f with each znode of a state at path and below, parents before their children.
// /zookeeper is the server's own, and left out.
func Each(state *replica.State, path string, f func(z *Znode) error) error {
	t := state.Tree()
	return walk(t, path, func(path string, id znode.ID) error {
		if path == systemPath || strings.HasPrefix(path, systemPath+"/") {
			return nil
		}
		z := Znode{Path: path, Data: t.Data(id), ACL: t.ACL(id).All()}
		t.Stat(id, &z.Stat)
		mode, ttl := t.Kind(id)
		z.Mode, z.TTL = mode, time.Duration(ttl)*time.Millisecond
		return f(&z)
	})
}

// systemPath is the root of the server's own znodes.
const systemPath = "/zookeeper"

func noZnode(path string) error { return fmt.Errorf("the snapshot has no znode %s", path) }

// walk calls f with each znode at path and below, parents before their children, and those
// in the order of their names. Apache's tools print children in the order of a hash table.
func walk(t *znode.Tree, path string, f func(path string, id znode.ID) error) error {
	id := t.Lookup(path)
	if id == 0 {
		return noZnode(path)
	}
	if err := f(path, id); err != nil {
		return err
	}
	prefix := strings.TrimSuffix(path, "/") + "/"
	for _, name := range childrenOf(t, id) {
		if err := walk(t, prefix+name, f); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf returns the names of the children of a znode, sorted.
func childrenOf(t *znode.Tree, id znode.ID) []string {
	names := make([]string, 0, t.NumChildren(id))
	t.Children(id, func(name string) { names = append(names, strings.Clone(name)) })
	slices.Sort(names)
	return names
}

// javaDate is how Java prints a date, in UTC.
const javaDate = "Mon Jan 02 15:04:05 MST 2006"

// PrintApache prints the snapshot as Apache's SnapshotFormatter: with -d if data is set. The
// filter applies to znodes and sessions; the count and the last zxid are those of the snapshot.
func (s *Snapshot) PrintApache(out io.Writer, data bool, f Filter) error {
	w := bufio.NewWriter(out)
	t := s.Tree()
	fmt.Fprintf(w, "ZNode Details (count=%d):\n", t.Count()) // bufio keeps the error for Flush
	last := s.Zxid
	top := cmp.Or(f.Path, "/")
	if t.Lookup(top) == 0 {
		return noZnode(top)
	}
	err := walk(t, "/", func(path string, id znode.ID) error {
		m := t.Mode(id)
		last = max(last, m.Mzxid, m.Pzxid)
		if !below(path, top) || !f.acceptsZnode(&m) {
			return nil
		}
		fmt.Fprintf(w, "----\n%s\n%s", path, apacheStat(&m))
		if data {
			_, err := fmt.Fprintf(w, "  data = %s\n", base64.StdEncoding.EncodeToString(t.Data(id)))
			return err
		}
		_, err := fmt.Fprintf(w, "  dataLength = %d\n", t.DataLen(id))
		return err
	})
	fmt.Fprint(w, "----\nSession Details (sid, timeout, ephemeralCount):\n")
	for _, id := range s.sessions() {
		if f.Session != 0 && id.session != f.Session {
			continue
		}
		fmt.Fprintf(w, "%s, %d, %d\n", javaHex(int64(id.session)), id.timeout, t.EphemeralsOf(id.session))
	}
	fmt.Fprintf(w, "----\nLast zxid: 0x%s\n", last.Hex())
	return errors.Join(err, w.Flush())
}

// javaHex is the format %#016x of Java.
func javaHex(v int64) string { return fmt.Sprintf("0x%014x", uint64(v)) }

func apacheStat(m *znode.Mode) string {
	date := func(millis int64) string { return time.UnixMilli(millis).UTC().Format(javaDate) }
	return fmt.Sprintf("  cZxid = %s\n  ctime = %s\n  mZxid = %s\n  mtime = %s\n  pZxid = %s\n"+
		"  cversion = %d\n  dataVersion = %d\n  aclVersion = %d\n  ephemeralOwner = %s\n",
		javaHex(int64(m.Czxid)), date(m.Ctime), javaHex(int64(m.Mzxid)), date(m.Mtime), javaHex(int64(m.Pzxid)),
		m.Cversion, m.Version, m.Aversion, javaHex(m.Owner))
}

type sessionLine struct {
	session zk.SessionID
	timeout int32
}

// sessions returns the sessions by their ids.
func (s *Snapshot) sessions() (list []sessionLine) {
	s.Tree().Sessions(func(id zk.SessionID, timeout int32) { list = append(list, sessionLine{id, timeout}) })
	slices.SortFunc(list, func(a, b sessionLine) int { return cmp.Compare(a.session, b.session) })
	return list
}

// jsonZnode is a znode of a snapshot in JSON.
type jsonZnode struct {
	Path string `json:"path"`
	jsonData
	ACL      []string `json:"acl"`
	Czxid    string   `json:"czxid"`
	Mzxid    string   `json:"mzxid"`
	Pzxid    string   `json:"pzxid"`
	Ctime    string   `json:"ctime"`
	Mtime    string   `json:"mtime"`
	Version  int32    `json:"dataVersion"`
	Cversion int32    `json:"cversion"` // the children created, as it is stored
	Aversion int32    `json:"aclVersion"`
	Owner    string   `json:"ephemeralOwner"`
}

// PrintJSON prints a line for each znode that passes the filter.
func (s *Snapshot) PrintJSON(out io.Writer, f Filter) error {
	w := bufio.NewWriter(out)
	t, enc := s.Tree(), json.NewEncoder(w)
	err := walk(t, cmp.Or(f.Path, "/"), func(path string, id znode.ID) error {
		m := t.Mode(id)
		if !f.acceptsZnode(&m) {
			return nil
		}
		return enc.Encode(jsonZnode{
			Path: path, jsonData: dataOf(t.Data(id)), ACL: aclOf(t.ACL(id).All()),
			Czxid: m.Czxid.String(), Mzxid: m.Mzxid.String(), Pzxid: m.Pzxid.String(), Ctime: timeText(m.Ctime), Mtime: timeText(m.Mtime),
			Version: m.Version, Cversion: m.Cversion, Aversion: m.Aversion, Owner: fmt.Sprintf("0x%x", uint64(m.Owner)),
		})
	})
	return errors.Join(err, w.Flush())
}

// PrintApacheJSON prints the sizes of all znodes as SnapshotFormatter -json does, for the
// program ncdu.
func (s *Snapshot) PrintApacheJSON(out io.Writer, now time.Time) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `[1,0,{"progname":"SnapshotFormatter.java","progver":"0.01","timestamp":%d},`, now.UnixMilli())
	number := 1000
	s.sizes(w, "/", "/", &number)
	fmt.Fprint(w, "]")
	return w.Flush()
}

func (s *Snapshot) sizes(w *bufio.Writer, path, name string, number *int) {
	t := s.Tree()
	id := t.Lookup(path)
	children := childrenOf(t, id)
	*number++
	quoted, _ := json.Marshal(name) // a string always has a form
	node := fmt.Sprintf(`{"name":%s,"asize":%d,"dsize":%d,"dev":0,"ino":%d}`, quoted, t.DataLen(id), t.DataLen(id), *number)
	if len(children) == 0 {
		fmt.Fprint(w, node)
		return
	}
	fmt.Fprint(w, "["+node)
	for _, child := range children {
		fmt.Fprint(w, ",")
		s.sizes(w, strings.TrimSuffix(path, "/")+"/"+child, child, number)
	}
	fmt.Fprint(w, "]")
}

// PrintSummary prints, for the znode at path and each below that has children, how many
// znodes are below it and how many bytes of data they and it have, as Apache's
// SnapshotRecursiveSummary. maxDepth bounds how deep it prints, 0 for no bound.
func (s *Snapshot) PrintSummary(out io.Writer, path string, maxDepth int) error {
	t := s.Tree()
	if t.Lookup(path) == 0 {
		return noZnode(path)
	}
	w := bufio.NewWriter(out)
	sums := sumsOf(t, path)
	err := walk(t, path, func(p string, id znode.ID) error {
		level := depth(p) - depth(path)
		if t.NumChildren(id) == 0 || maxDepth > 0 && level > maxDepth {
			return nil
		}
		dashes, sum := strings.Repeat("--", level), sums[p]
		_, err := fmt.Fprintf(w, "%s %s\n%s   children: %d\n%s   data: %d\n", dashes, p, dashes, sum.znodes, dashes, sum.bytes)
		return err
	})
	fmt.Fprintln(w)
	return errors.Join(err, w.Flush())
}

// depth is the number of names in a path.
func depth(path string) int { return strings.Count(strings.TrimSuffix(path, "/"), "/") }

// sum is what a subtree has: the znodes below its top, and the bytes of data with that.
type sum struct {
	znodes int
	bytes  int64
}

// sumsOf returns the sums of the znode at path and of all below.
func sumsOf(t *znode.Tree, path string) map[string]sum {
	sums := map[string]sum{}
	addSums(t, path, sums)
	return sums
}

func addSums(t *znode.Tree, path string, sums map[string]sum) sum {
	id := t.Lookup(path)
	total := sum{bytes: int64(t.DataLen(id))}
	for _, name := range childrenOf(t, id) {
		below := addSums(t, strings.TrimSuffix(path, "/")+"/"+name, sums)
		total.znodes += 1 + below.znodes
		total.bytes += below.bytes
	}
	sums[path] = total
	return total
}
