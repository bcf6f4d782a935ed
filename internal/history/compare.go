package history

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/znode"
)

// ErrDiffer reports that two snapshots are not equal; the differences were printed.
var ErrDiffer = errors.New("the snapshots differ")

// Compare prints what distinguishes the znodes of two snapshots, a line for each: "-" for
// one that only left has, "+" for one that only right has, "~" and the fields that differ
// for one that both have. It returns ErrDiffer if there is any.
func Compare(out io.Writer, left, right *Snapshot) error {
	w := bufio.NewWriter(out)
	l, r := left.Tree(), right.Tree()
	differ := false
	print := func(format string, args ...any) {
		differ = true
		fmt.Fprintf(w, format+"\n", args...) // bufio keeps the error for Flush
	}
	err := walkBoth(l, r, "/", func(path string, a, b znode.ID) {
		switch {
		case b == 0:
			print("- %s", path)
		case a == 0:
			print("+ %s", path)
		default:
			if fields := differences(l, r, a, b); len(fields) > 0 {
				print("~ %s %s", path, strings.Join(fields, " "))
			}
		}
	})
	if err = errors.Join(err, w.Flush()); err == nil && differ {
		err = ErrDiffer
	}
	return err
}

// walkBoth calls f with each znode that one of the trees has at path or below, in the order
// of walk; an ID is 0 if that tree does not have it.
func walkBoth(l, r *znode.Tree, path string, f func(path string, a, b znode.ID)) error {
	a, b := l.Lookup(path), r.Lookup(path)
	if a == 0 && b == 0 {
		return fmt.Errorf("no snapshot has a znode %s", path)
	}
	f(path, a, b)
	var children []string
	if a != 0 {
		children = childrenOf(l, a)
	}
	if b != 0 {
		children = append(children, childrenOf(r, b)...)
	}
	slices.Sort(children)
	for _, name := range slices.Compact(children) {
		if err := walkBoth(l, r, strings.TrimSuffix(path, "/")+"/"+name, f); err != nil {
			return err
		}
	}
	return nil
}

// differences names the fields of two znodes that differ.
func differences(l, r *znode.Tree, a, b znode.ID) (fields []string) {
	m, n := l.Mode(a), r.Mode(b)
	note := func(field string, equal bool) {
		if !equal {
			fields = append(fields, field)
		}
	}
	note("data", bytes.Equal(l.Data(a), r.Data(b)) && (l.Data(a) == nil) == (r.Data(b) == nil))
	note("acl", slices.Equal(l.ACL(a).All(), r.ACL(b).All()))
	note("czxid", m.Czxid == n.Czxid)
	note("mzxid", m.Mzxid == n.Mzxid)
	note("pzxid", m.Pzxid == n.Pzxid)
	note("ctime", m.Ctime == n.Ctime)
	note("mtime", m.Mtime == n.Mtime)
	note("dataVersion", m.Version == n.Version)
	note("cversion", m.Cversion == n.Cversion)
	note("aclVersion", m.Aversion == n.Aversion)
	note("ephemeralOwner", m.Owner == n.Owner)
	return fields
}

// An ApacheComparison compares the sizes of two snapshots by the depth of their znodes, as
// Apache's SnapshotComparer prints it.
type ApacheComparison struct {
	Out    io.Writer
	Bytes  int64 // a difference of more bytes is printed
	Znodes int64 // and one of more znodes
	Debug  bool  // print what is not
}

// Run reads and compares two snapshot files.
func (c *ApacheComparison) Run(left, right string) error {
	w := bufio.NewWriter(c.Out)
	fmt.Fprint(w, "Successfully parsed options!\n") // bufio keeps the error for Flush
	var layers [2][]map[string]sum
	for i, name := range []string{left, right} {
		began := time.Now()
		s, err := ReadSnapshot(name, 0)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		fmt.Fprintf(w, "Deserialized snapshot in %s in %f seconds\n", filepath.Base(name), time.Since(began).Seconds())
		began = time.Now()
		layers[i] = layersOf(s.Tree())
		fmt.Fprintf(w, "Processed data tree in %f seconds\n", time.Since(began).Seconds())
	}
	for _, l := range layers {
		printLayers(w, l)
	}
	fmt.Fprintf(w, "Printing analysis for nodes difference larger than %d bytes or node count difference larger than %d.\n", c.Bytes, c.Znodes)
	for i := range max(len(layers[0]), len(layers[1])) {
		fmt.Fprintf(w, "Analysis for depth %d\n", i)
		c.layer(w, layerAt(layers[0], i), layerAt(layers[1], i))
	}
	fmt.Fprint(w, "All layers compared.\n")
	return w.Flush()
}

func layerAt(layers []map[string]sum, i int) map[string]sum {
	if i >= len(layers) {
		return nil
	}
	return layers[i]
}

// layersOf returns the sums of all znodes by their depth. The path of the root is empty, as
// in Apache.
func layersOf(t *znode.Tree) (layers []map[string]sum) {
	for path, s := range sumsOf(t, "/") {
		path = strings.TrimSuffix(path, "/")
		at := depth(path)
		for len(layers) <= at {
			layers = append(layers, map[string]sum{})
		}
		layers[at][path] = s
	}
	return layers
}

func printLayers(w io.Writer, layers []map[string]sum) {
	root := layers[0][""]
	fmt.Fprintf(w, "Node count: %d\nTotal size: %d\nMax depth: %d\n", root.znodes+1, root.bytes, len(layers))
	for i, l := range layers {
		fmt.Fprintf(w, "Count of nodes at depth %d: %d\n", i, len(l))
	}
	fmt.Fprintln(w)
}

// layer prints the differences of two layers. It takes the znodes of each in the order of
// their paths; a debugging line shows each step.
func (c *ApacheComparison) layer(w io.Writer, left, right map[string]sum) {
	l, r := slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(right))
	for len(l) > 0 || len(r) > 0 {
		order := 0
		switch {
		case len(l) == 0:
			order = 1
		case len(r) == 0:
			order = -1
		default:
			order = cmp.Compare(l[0], r[0])
			c.debug(w, "Comparing %s to %s\n%s\n", l[0], r[0], [...]string{"left is less", "same", "right is less"}[order+1])
		}
		switch order {
		case -1:
			c.one(w, "left", l[0], left[l[0]])
			l = l[1:]
		case 1:
			c.one(w, "right", r[0], right[r[0]])
			r = r[1:]
		default:
			c.both(w, l[0], left[l[0]], right[r[0]])
			l, r = l[1:], r[1:]
		}
	}
}

func (c *ApacheComparison) debug(w io.Writer, format string, args ...any) {
	if c.Debug {
		fmt.Fprintf(w, format, args...)
	}
}

func (c *ApacheComparison) one(w io.Writer, side, path string, s sum) {
	if s.bytes > c.Bytes || int64(s.znodes) > c.Znodes {
		fmt.Fprintf(w, "Node %s found only in %s tree. Descendant size: %d. Descendant count: %d\n", path, side, s.bytes, s.znodes)
		return
	}
	c.debug(w, "Filtered %s node %s of size %d\n", side, path, s.bytes)
}

func (c *ApacheComparison) both(w io.Writer, path string, l, r sum) {
	size, znodes := r.bytes-l.bytes, int64(r.znodes-l.znodes)
	if max(size, -size) > c.Bytes || max(znodes, -znodes) > c.Znodes {
		fmt.Fprintf(w, "Node %s found in both trees. Delta: %d bytes, %d descendants\n", path, size, znodes)
		return
	}
	c.debug(w, "Filtered node %s of left size %d, right size %d\n", path, l.bytes, r.bytes)
}
