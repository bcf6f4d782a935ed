package history

import (
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Filter says which transactions are printed; the zero value, all.
type Filter struct {
	Path          string // this znode and what is below; "" for any
	Session       zk.SessionID
	From, To      zk.Zxid   // both included; 0 for no bound
	Since, Before time.Time // Before is not included; zero for no bound
}

// Accepts reports whether tx passes.
func (f *Filter) Accepts(tx *txn.Txn) bool {
	at := time.UnixMilli(tx.Time)
	switch {
	case f.Session != 0 && tx.Session != f.Session,
		f.From != 0 && tx.Zxid < f.From,
		f.To != 0 && tx.Zxid > f.To,
		!f.Since.IsZero() && at.Before(f.Since),
		!f.Before.IsZero() && !at.Before(f.Before):
		return false
	}
	if f.Path == "" {
		return true
	}
	return f.touches(&tx.Op) || slices.ContainsFunc(tx.Multi, func(o txn.Op) bool { return f.touches(&o) })
}

func (f *Filter) touches(o *txn.Op) bool {
	return o.Path != "" && below(o.Path, f.Path) || slices.ContainsFunc(o.Paths, func(p string) bool { return below(p, f.Path) })
}

// below reports whether path is root or below it.
func below(path, root string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
