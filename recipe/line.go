package recipe

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// NodeNames says what the locks and elections of this package call the znodes that they make.
// All names are understood when they are met, whoever made them, those of the
// paper and of the recipes page ("lock-", "read-", "write-", "n_") too. But others do
// not understand all of ours: clients of one path must use one kind of name,
// that of the library among them that is not this one.
type NodeNames int

const (
	// CuratorNames are those of Apache Curator: _c_UUID-lock-NUMBER of its
	// InterProcessMutex, _c_UUID-__READ__NUMBER and _c_UUID-__WRIT__NUMBER of its
	// InterProcessReadWriteLock; for an Election _c_UUID-latch-NUMBER of its
	// LeaderLatch. They are what is used if nothing is said.
	CuratorNames NodeNames = iota
	// KazooNames are those of Python's kazoo: GUID__lock__NUMBER of its Lock and its
	// WriteLock and for its Election, GUID__rlock__NUMBER of its ReadLock.
	KazooNames
	// SelectorNames are CuratorNames, but for an Election _c_UUID-lock-NUMBER, as
	// Curator's LeaderSelector has them.
	SelectorNames
)

// The words that a contender's name has before its number, and whether it shares
// the lock with others that do.
var lockWords = [...]struct {
	word   string
	shared bool
}{
	{"__lock__", false}, {"lock-", false}, {"__WRIT__", false}, {"write-", false}, {"latch-", false}, {"n_", false},
	{"__rlock__", true}, {"__READ__", true}, {"read-", true},
}

// lockKind is what a lock's own znodes are called after.
type lockKind int

const (
	mutexKind lockKind = iota
	writeKind
	readKind
	candidateKind
)

// name is what a znode with guid is called before its number.
func (n NodeNames) name(kind lockKind, guid string) string {
	switch {
	case n == KazooNames:
		return guid + [...]string{"__lock__", "__lock__", "__rlock__", "__lock__"}[kind]
	case n == SelectorNames && kind == candidateKind:
		kind = mutexKind
	}
	return "_c_" + guid + [...]string{"-lock-", "-__WRIT__", "-__READ__", "-latch-"}[kind]
}

// newGUID is a GUID in the form that the names have.
func (n NodeNames) newGUID() string {
	g := newGUID()
	if n == KazooNames {
		return g
	}
	return strings.Join([]string{g[:8], g[8:12], g[12:16], g[16:20], g[20:]}, "-")
}

// A place is where a contender stands in the line for a lock.
type place struct {
	name   string
	seq    int32
	shared bool
}

// parsePlace understands the name of a contender.
func parsePlace(name string) (place, bool) {
	for _, k := range lockWords {
		i := strings.LastIndex(name, k.word)
		if i < 0 {
			continue
		}
		if seq, ok := parseSequence(name[i+len(k.word):]); ok {
			return place{name, seq, k.shared}, true
		}
	}
	return place{}, false
}

// parseSequence reads what servers append to the name of a sequential znode: a
// 32-bit number with ten places, the sign being one.
func parseSequence(s string) (int32, bool) {
	if len(s) < 10 || len(s) > 11 || s[0] == '+' || len(s) == 11 && s[0] != '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 32)
	return int32(n), err == nil
}

// lineOf are the contenders among the children of a lock's znode, in the order in
// which they came. Their numbers wrap after 2^31 creations, so their difference
// counts: after 2147483647 comes -2147483648.
func lineOf(names []string) []place {
	var line []place
	for _, n := range names {
		if p, ok := parsePlace(n); ok {
			line = append(line, p)
		}
	}
	slices.SortFunc(line, func(a, b place) int { return int(a.seq - b.seq) })
	return line
}

// before returns the last contender in front of name that keeps it waiting, "" if
// there is none: who shares waits only for those who do not. ok is false if name
// is not in the line.
func before(line []place, name string, shared bool) (blocker string, ok bool) {
	for _, p := range line {
		if p.name == name {
			return blocker, true
		}
		if !shared || !p.shared {
			blocker = p.name
		}
	}
	return blocker, false
}

// A Contender is somebody who holds a lock or waits for it.
type Contender struct {
	Name    string       // of its znode, below the lock's
	Shared  bool         // it wants, or has, the lock for reading
	Holds   bool         // it has the lock
	Data    []byte       // what it says of itself, see HolderData
	Session zk.SessionID // that it lives with; 0 if its znode is not ephemeral
	Token   zk.Zxid      // its fencing token
}

// contenders reads the line for the lock of base. Who leaves meanwhile is left out.
func contenders(ctx context.Context, c Client, base string) ([]Contender, error) {
	var names []string
	err := retry(ctx, func() (err error) {
		names, _, err = c.Children(ctx, base)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line := lineOf(names)
	list := make([]Contender, 0, len(line))
	for _, p := range line {
		var data []byte
		var stat zk.Stat
		err := retry(ctx, func() (err error) {
			data, stat, err = c.Get(ctx, join(base, p.name))
			return err
		})
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		blocker, _ := before(line, p.name, p.shared)
		list = append(list, Contender{
			Name: p.name, Shared: p.shared, Holds: blocker == "",
			Data: data, Session: zk.SessionID(stat.EphemeralOwner), Token: stat.Czxid,
		})
	}
	return list, nil
}
