package history

import (
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Filter says which transactions of a log, or which znodes of a snapshot, are printed; the
// zero value, all.
type Filter struct {
	Path          string // this znode and what is below; "" for any
	Session       zk.SessionID
	From, To      zk.Zxid   // both included; 0 for no bound
	Since, Before time.Time // Before is not included; zero for no bound
}

// Accepts reports whether tx passes.
func (f *Filter) Accepts(tx *txn.Txn) bool {
	if f.Session != 0 && tx.Session != f.Session || !f.within(tx.Zxid, tx.Time) {
		return false
	}
	if f.Path == "" {
		return true
	}
	return f.touches(&tx.Op) || slices.ContainsFunc(tx.Multi, func(o txn.Op) bool { return f.touches(&o) })
}

// acceptsZnode reports whether a znode passes whose path does: Session is the owner of an
// ephemeral, and the bounds are those of the last change of its data.
func (f *Filter) acceptsZnode(m *znode.Mode) bool {
	return (f.Session == 0 || zk.SessionID(m.Owner) == f.Session) && f.within(m.Mzxid, m.Mtime)
}

// within reports whether a zxid and a time, in milliseconds since 1970, are within the bounds.
func (f *Filter) within(zxid zk.Zxid, millis int64) bool {
	at := time.UnixMilli(millis)
	return zxid >= f.From && (f.To == 0 || zxid <= f.To) &&
		!at.Before(f.Since) && (f.Before.IsZero() || at.Before(f.Before))
}

func (f *Filter) touches(o *txn.Op) bool {
	return o.Path != "" && below(o.Path, f.Path) || slices.ContainsFunc(o.Paths, func(p string) bool { return below(p, f.Path) })
}

// below reports whether path is root or below it.
func below(path, root string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
