package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

func moveCommand() command {
	return command{
		name: "mv", synopsis: "[--large] [-p] from to", short: "Move a subtree",
		long: fmt.Sprintf(`Moves a node and all below it to another path of the same ensemble, which must not
exist. That is one transaction: all moves or nothing does, and nothing is lost that
others write meanwhile, but it must fit into one request: at most %d nodes and
%s of data. With --large, more is copied as cp does, and then deleted, each node
only if it has not changed; others may see both, or a part.

Data and ACLs are kept; versions, transactions, times, the numbers of sequential
nodes to come and times to live are not. A subtree with ephemerals is not moved.`, maxMoved, humanBytes(maxMovedBytes)),
		examples: `mv /app/draft /app/live
mv --large /archive /old/archive`,
		min: 2, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			large := f.Bool("large", false, "move what does not fit into a transaction by a copy and deletions")
			parents := f.BoolP("parents", "p", false, "make what is missing above the target")
			return func(ctx context.Context, s *shell, args []string) error {
				from, to, done, err := s.locateBoth(ctx, args[0], args[1])
				defer done()
				if err != nil {
					return err
				}
				if from.own || to.own {
					return usageError{"mv works within one ensemble: cp, then deleteall"}
				}
				if *parents {
					if err := to.makeParents(ctx); err != nil {
						return err
					}
				}
				return s.move(ctx, from, to, *large)
			}
		},
	}
}

// What a move may have in a transaction. A request is bounded by the servers'
// jute.maxbuffer, 1 MiB if it has not been changed.
const (
	maxMoved      = 2000
	maxMovedBytes = 768 << 10
	movedOverhead = 60 // bytes of a request for a node, beside paths, data and ACL
)

// errLarge says that a subtree does not fit into a transaction.
var errLarge = errors.New("too large for a transaction: --large moves it by a copy and deletions")

func (s *shell) move(ctx context.Context, from, to subtree, large bool) error {
	nodes, err := s.collect(ctx, from, to)
	switch {
	case errors.Is(err, errLarge) && large:
		return s.moveLarge(ctx, from, to)
	case err != nil:
		return err
	}
	txn := from.c.Txn()
	for _, z := range nodes {
		txn.Create(place(to.root, relative(from.root, z.path)), z.data, zk.Persistent, z.acl)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		txn.Delete(nodes[i].path, nodes[i].stat.Version)
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	return s.moved(len(nodes))
}

func (s *shell) moved(n int) error {
	return s.print([]string{"moved"}, row{plain: count(n, "node") + " moved", cells: []string{fmt.Sprint(n)}, value: map[string]int{"moved": n}})
}

// collect reads a subtree that is to be moved in a transaction.
func (s *shell) collect(ctx context.Context, from, to subtree) (nodes []*znode, err error) {
	bytes := 0
	sc := from.scanner(ctx, scanOptions{data: true, acl: true, depth: -1}, true)
	err = sc.each(func(z *znode) error {
		switch {
		case z.err != nil:
			return z.err
		case kindOf(z.stat) == ephemeral:
			return fmt.Errorf("%s is ephemeral, and cannot be moved: it lives with its session", z.path)
		}
		bytes += 2*len(z.path) + len(to.root) + len(z.data) + movedOverhead
		for _, a := range z.acl {
			bytes += len(a.ID.Scheme) + len(a.ID.ID) + 12
		}
		if nodes = append(nodes, z); len(nodes) > maxMoved || bytes > maxMovedBytes {
			return errLarge
		}
		return nil
	})
	return nodes, err
}

// original is a znode that has been copied.
type original struct {
	path    string
	version int32
}

// moveLarge copies, and deletes what has been copied from below, if it has not
// changed. Paths and versions are held meanwhile.
func (s *shell) moveLarge(ctx context.Context, from, to subtree) error {
	if _, exists, err := to.c.Exists(ctx, to.root); err != nil || exists {
		if err == nil {
			err = &client.Error{Op: "mv", Path: to.root, Err: zk.ErrNodeExists}
		}
		return err
	}
	var list []original
	err := s.copy(ctx, from, to, transferOptions{}, func(z *znode) error {
		if kindOf(z.stat) == ephemeral {
			return fmt.Errorf("%s is ephemeral, and cannot be moved: it lives with its session", z.path)
		}
		list = append(list, original{z.path, z.stat.Version})
		return nil
	})
	if err != nil {
		fmt.Fprintln(s.errs, "(nothing has been deleted: what has been copied is at both places)")
		return err
	}
	if err := s.deleteListed(ctx, from.c, list); err != nil {
		fmt.Fprintln(s.errs, "(the copy is whole; of the original, not all is deleted)")
		return err
	}
	return s.moved(len(list))
}

// deleteListed deletes znodes, which come parents first in the list, many at a
// time. A znode that is already gone is no error. After a lost connection it starts
// again.
func (s *shell) deleteListed(ctx context.Context, c *client.Client, list []original) error {
	p := s.progress("nodes deleted")
	defer p.stop()
	p.expect(len(list))
	for try := 1; ; try++ {
		err := deleteOnce(ctx, c, list, p)
		if !errors.Is(err, zk.ErrConnectionLoss) || try == maxTries || ctx.Err() != nil {
			return err
		}
		p.done = 0
	}
}

// deleteOnce is one attempt. An error of a lost connection comes before others,
// which may be its consequences.
func deleteOnce(ctx context.Context, c *client.Client, list []original, p *progress) (wrong error) {
	done, waits := newAnswers[error](), 0
	for i := len(list) - 1; waits > 0 || i >= 0 && wrong == nil; {
		if i >= 0 && wrong == nil && waits < maxPlanted {
			c.DeleteAsync(ctx, list[i].path, list[i].version, done.put)
			waits++
			i--
			continue
		}
		answers, err := done.take(ctx)
		if err != nil {
			return err
		}
		for _, e := range answers {
			waits--
			p.add(1)
			if e != nil && !errors.Is(e, zk.ErrNoNode) && (wrong == nil || errors.Is(e, zk.ErrConnectionLoss)) {
				wrong = e
			}
		}
	}
	return wrong
}
