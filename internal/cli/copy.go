package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func copyCommand() command {
	return command{
		name: "cp", synopsis: "[--dry-run] [--overwrite] [--no-acl] [-p] from to", short: "Copy a subtree, also to another ensemble",
		long: `Copies a node and all below it, with data and ACLs, to another path: the copy of
the node itself is at that path, not below it. Either may be in another ensemble:
host:port,host:port/path.

A node that is there already, with the same data and ACL, is left alone: a copy that
was interrupted goes on when it is run again. One that differs is an error, unless
--overwrite gives it the data and ACL of the original.

Not kept are versions, transactions, times, and the numbers of sequential nodes to
come. Ephemerals are left out. Which nodes are containers or have a time to live no
server tells: their copies are persistent. Of the root of an ensemble, /zookeeper is
left out: it is the servers' own.`,
		examples: `cp /app /app-copy
cp /app new-host:2181/app            # to another ensemble
cp -p old-host:2181/app /imported/app
cp --dry-run --overwrite /app /app-copy`,
		min: 2, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var opt transferOptions
			opt.declare(f)
			return func(ctx context.Context, s *shell, args []string) error {
				from, to, done, err := s.locateBoth(ctx, args[0], args[1])
				defer done()
				if err != nil {
					return err
				}
				return s.copy(ctx, from, to, opt, nil)
			}
		},
	}
}

// locateBoth locates the subtrees of a copy. done must be called in all cases.
func (s *shell) locateBoth(ctx context.Context, from, to string) (a, b subtree, done func(), err error) {
	a, err = s.locate(ctx, from)
	if err == nil {
		b, err = s.locate(ctx, to)
	}
	done = func() { a.close(); b.close() }
	if err == nil && a.c == b.c && (isBelow(a.root, b.root) || isBelow(b.root, a.root)) {
		err = usageError{fmt.Sprintf("%s and %s: one is within the other", a.root, b.root)}
	}
	return a, b, done, err
}

// copy copies a subtree. copied, if not nil, is called for each znode of the original
// before it is planted.
func (s *shell) copy(ctx context.Context, from, to subtree, opt transferOptions, copied func(z *znode) error) error {
	t, err := s.transferTo(ctx, to, opt)
	if err != nil {
		return err
	}
	return t.end(t.copy(ctx, from, copied))
}

// copy transfers all that a subtree has. The error is fatal; znodes that cannot be
// read are reported.
func (t *transfer) copy(ctx context.Context, from subtree, copied func(z *znode) error) error {
	sc := from.scanner(ctx, scanOptions{data: true, acl: true, depth: -1}, false)
	return sc.each(func(z *znode) error {
		if z.err != nil {
			t.bad.add(z.err)
			return nil
		}
		x := planting{path: place(t.to.root, relative(from.root, z.path)), data: z.data, acl: z.acl, kind: kindOf(z.stat)}
		if copied != nil {
			if err := copied(z); err != nil {
				return err
			}
		}
		if err := t.add(x); err != nil {
			return err
		}
		if z.depth == 0 && !t.opt.dryRun && isBelow(from.absolute(), t.to.absolute()) {
			return t.notWithin(ctx, from)
		}
		return nil
	})
}

// notWithin ends a copy that would never end, as it copies what it makes: when an
// ephemeral below the root of the copy is seen in the ensemble of the original. The
// root is deleted again if this copy has made it. Where nothing can be made below
// the root, no copy runs without end.
func (t *transfer) notWithin(ctx context.Context, from subtree) error {
	if err := t.p.flush(); err != nil {
		return err
	}
	probe := childPath(t.to.root, "pinfold-cp-"+rand.Text())
	if _, err := t.to.c.Create(ctx, probe, nil, zk.Ephemeral, nil); err != nil {
		if isFatal(err) {
			return err
		}
		return nil
	}
	if err := from.c.Sync(ctx, "/"); err != nil {
		return err
	}
	_, within, err := from.c.Exists(ctx, relative(cmp.Or(from.c.Chroot(), "/"), t.to.c.Chroot()+probe))
	if err = errors.Join(err, t.to.c.Delete(ctx, probe, -1)); err != nil || !within {
		return err
	}
	if t.p.counts[created] > 0 {
		err = t.to.c.Delete(ctx, t.to.root, -1)
	}
	return errors.Join(usageError{"the target lies within the original: they are in one ensemble"}, err)
}
