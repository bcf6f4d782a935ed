package recipe

import "fmt"

// RefuseOtherNames makes a lock or an election fail with a *NamesError when it finds
// a contender whose names are not those of UseNames: the client of such a znode
// would not wait for ours, so that both could hold the lock at the same time. The
// queue is checked before a znode is added to it and whenever it is read while
// waiting. A contender that comes later is not found: a holder does not read the
// queue.
//
// Without this option, this package waits for contenders with names of any known
// library, which protects only if those clients wait for ours too: clients of this
// package do. See docs/recipes.md for which do with which names.
func RefuseOtherNames() LockOption { return func(o *lockOptions) { o.oneFamily = true } }

// A NamesError is the error of a lock or an election with RefuseOtherNames that
// found a znode with other names.
type NamesError struct {
	Znode string      // path of that znode
	Names []NodeNames // the names with which UseNames would make one queue of both; may be empty
}

// Error names the znode.
func (e *NamesError) Error() string {
	return fmt.Sprintf("the client of %s does not wait for znodes with our names", e.Znode)
}

// checkNames returns a *NamesError for the first sequential znode among names,
// children of the lock's znode, that is not of the family of ours.
func (q *queue) checkNames(names []string) error {
	ours := q.opts.names.family(q.alone)
	for _, name := range names {
		p, known := parsePlace(name)
		if known && p.family == ours || !known && !isSequential(name) {
			continue
		}
		e := &NamesError{Znode: join(q.path, name)}
		for _, n := range []NodeNames{CuratorNames, KazooNames, SelectorNames, ZooKeeperNames} {
			if known && n.family(q.alone) == p.family {
				e.Names = append(e.Names, n)
			}
		}
		return e
	}
	return nil
}

// family is the one of the names of a kind of contender.
func (n NodeNames) family(kind lockKind) family {
	p, _ := parsePlace(n.name(kind, "") + "0000000000")
	return p.family
}

// isSequential reports whether a name may end with a number from a server.
func isSequential(name string) bool {
	if len(name) < 10 {
		return false
	}
	_, ok := parseSequence(name[len(name)-10:])
	return ok
}
