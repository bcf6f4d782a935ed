package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func diffCommand() command {
	return command{
		name: "diff", synopsis: "[--acl] [--owner] [-q] path path", short: "Compare two subtrees, or two ensembles",
		long: `Compares a node and all below it with another: which nodes there are, their data,
and whether they are ephemeral; ACLs and the sessions of ephemerals if asked for.
Either path may be in another ensemble: host:port,host:port/path.

Prints "- path" for a node that only the first has, "+ path" for one that only the
second has, and "! path" with what differs for others. The exit status is 0 if there
is no difference, 1 if there is one, 2 if something could not be read. Of the root
of an ensemble, /zookeeper is left out: it is the servers' own.`,
		examples: `diff /app /app-copy
diff --acl zk1:2181/ zk2:2181/   # two ensembles
diff -q /app new:2181/app && echo the same`,
		min: 2, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var d difference
			f.BoolVarP(&d.acl, "acl", "a", false, "compare ACLs too")
			f.BoolVar(&d.owner, "owner", false, "compare the sessions of ephemerals too")
			f.BoolVarP(&d.quiet, "quiet", "q", false, "print nothing: only the exit status counts")
			return func(ctx context.Context, s *shell, args []string) error {
				differ, err := d.run(ctx, s, args[0], args[1])
				switch {
				case err != nil:
					s.tell(err)
					return statusError{statusTrouble}
				case differ:
					return statusError{statusFailed}
				}
				return nil
			}
		},
	}
}

// difference compares two subtrees. Both are scanned side by side, in the same
// order, so that nothing needs to be kept.
type difference struct {
	acl, owner, quiet bool

	out    *rows
	differ bool
	bad    complaints
}

// errEnough ends a comparison whose result is known.
var errEnough = errors.New("enough")

// changed is a difference in JSON.
type changed struct {
	Change string   `json:"change"` // "-", "+" or "!"
	Path   string   `json:"path"`   // in the first subtree, for "+" in the second
	What   []string `json:"what,omitempty"`
}

func (d *difference) run(ctx context.Context, s *shell, first, second string) (differ bool, err error) {
	a, err := s.locate(ctx, first)
	if err != nil {
		return false, err
	}
	defer a.close()
	b, err := s.locate(ctx, second)
	if err != nil {
		return false, err
	}
	defer b.close()
	p := s.progress("nodes compared")
	defer p.stop()
	d.out = s.rows("change", "path", "what")
	defer d.out.end()
	d.bad = complaints{s: s}
	opt := scanOptions{data: true, acl: d.acl, depth: -1, visited: p.add}
	err = d.merge(&side{scanner: a.scanner(ctx, opt, false)}, &side{scanner: b.scanner(ctx, opt, false)})
	if err != nil && !errors.Is(err, errEnough) {
		return d.differ, err
	}
	return d.differ, d.bad.end()
}

// A side is one of two scans that are merged.
type side struct {
	*scanner
	at   *znode // nil after the last
	path string // of at, from the root of the scan
}

func (s *side) advance() error {
	z, err := s.next()
	if errors.Is(err, io.EOF) {
		s.at = nil
		return nil
	}
	if err != nil {
		return err
	}
	s.at, s.path = z, relative(s.root, z.path)
	return nil
}

// merge goes through both sides. A difference of roots alone is none: they have
// different names already.
func (d *difference) merge(a, b *side) error {
	if err := errors.Join(a.advance(), b.advance()); err != nil {
		return err
	}
	for a.at != nil || b.at != nil {
		order := 0
		switch {
		case a.at == nil:
			order = 1
		case b.at == nil:
			order = -1
		default:
			order = comparePaths(a.path, b.path)
		}
		var err error
		switch {
		case order < 0:
			err = errors.Join(d.found("-", a.at.path, nil), a.advance())
		case order > 0:
			err = errors.Join(d.found("+", b.at.path, nil), b.advance())
		default:
			err = errors.Join(d.compare(a.at, b.at), a.advance(), b.advance())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *difference) compare(a, b *znode) error {

	for _, z := range []*znode{a, b} {
		if z.err != nil {
			d.bad.add(z.err)
		}
	}
	if a.err != nil || b.err != nil {
		return nil
	}
	var what []string
	if !bytes.Equal(a.data, b.data) {
		what = append(what, "data: "+describeData(a.data, b.data))
	}
	if d.acl && !slices.Equal(a.acl, b.acl) {
		what = append(what, "acl: "+formatACL(a.acl)+" -> "+formatACL(b.acl))
	}
	ka, kb := kindOf(a.stat), kindOf(b.stat)
	switch {
	case ka != kb:
		what = append(what, fmt.Sprintf("%v -> %v", ka, kb))
	case d.owner && a.stat.EphemeralOwner != b.stat.EphemeralOwner:
		what = append(what, fmt.Sprintf("owner: %v -> %v", zk.SessionID(a.stat.EphemeralOwner), zk.SessionID(b.stat.EphemeralOwner)))
	}
	if what == nil {
		return nil
	}
	return d.found("!", a.path, what)
}

// describeData says how two data differ.
func describeData(a, b []byte) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return fmt.Sprintf("%d -> %d bytes, from byte %d on", len(a), len(b), at)
}

// found reports a difference.
func (d *difference) found(change, path string, what []string) error {
	d.differ = true
	if d.quiet {
		return errEnough
	}
	text := change + " " + path
	if what != nil {
		text += "  (" + strings.Join(what, "; ") + ")"
	}
	return d.out.add(row{
		plain: text, cells: []string{change, path, strings.Join(what, "; ")}, value: changed{change, path, what},
	})
}

// formatACL is a list as zkCli.sh's setAcl takes it.
func formatACL(acl []zk.ACL) string {
	var texts []string
	for _, a := range acl {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}
