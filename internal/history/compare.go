package history

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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
