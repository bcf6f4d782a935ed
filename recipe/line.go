package recipe

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// NodeNames says what the locks and elections of this package call their znodes.
// They recognize the znodes of every other client by the names of Curator, kazoo, the
// paper and the recipes page ("lock-", "read-", "write-", "n_"), and wait for them.
// Other libraries recognize their own names only. If another library uses the same
// path, all clients must use its names; RefuseOtherNames checks that.
type NodeNames int

const (
	// CuratorNames are those of Apache Curator: _c_UUID-lock-NUMBER of its
	// InterProcessMutex, _c_UUID-__READ__NUMBER and _c_UUID-__WRIT__NUMBER of its
	// InterProcessReadWriteLock; for an Election _c_UUID-latch-NUMBER of its
	// LeaderLatch. They are the default.
	CuratorNames NodeNames = iota
	// KazooNames are those of Python's kazoo: GUID__lock__NUMBER of its Lock and its
	// WriteLock and for its Election, GUID__rlock__NUMBER of its ReadLock.
	KazooNames
	// SelectorNames are CuratorNames, but for an Election _c_UUID-lock-NUMBER, as
	// Curator's LeaderSelector has them.
	SelectorNames
	// ZooKeeperNames are those of the recipes page: GUID-lock-NUMBER,
	// GUID-write-NUMBER and GUID-read-NUMBER; for an Election GUID-n_NUMBER.
	ZooKeeperNames
)

// A family is a set of names that one library reads as one queue: its clients wait
// for contenders with these names and ignore, or sort wrongly, all others.
type family int

const (
	otherFamily      family = iota // no known library's
	kazooFamily                    // kazoo's Lock, ReadLock, WriteLock, Election
	lockFamily                     // Curator's InterProcessMutex and LeaderSelector; locks of the recipes page
	curatorRWFamily                // Curator's InterProcessReadWriteLock
	pageRWFamily                   // read/write locks of the recipes page
	latchFamily                    // Curator's LeaderLatch
	pageLeaderFamily               // elections of the recipes page
)

// lockWords are the words before the number in a contender's name.
// Contenders whose word is shared hold the lock together.
var lockWords = [...]struct {
	word   string
	shared bool
	family family
}{
	{"__lock__", false, kazooFamily}, {"lock-", false, lockFamily},
	{"__WRIT__", false, curatorRWFamily}, {"write-", false, pageRWFamily},
	{"latch-", false, latchFamily}, {"n_", false, pageLeaderFamily},
	{"__rlock__", true, kazooFamily}, {"__READ__", true, curatorRWFamily}, {"read-", true, pageRWFamily},
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
	case n == ZooKeeperNames:
		return guid + [...]string{"-lock-", "-write-", "-read-", "-n_"}[kind]
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

// A place is a contender's position in the queue for a lock.
type place struct {
	name   string
	seq    int32
	shared bool
	family family
}

// parsePlace parses the name of a contender's znode; ok is false for any other name.
func parsePlace(name string) (p place, ok bool) {
	for _, k := range lockWords {
		i := strings.LastIndex(name, k.word)
		if i < 0 {
			continue
		}
		if seq, ok := parseSequence(name[i+len(k.word):]); ok {
			return place{name, seq, k.shared, k.family}, true
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
// there is none: shared contenders wait only for those that are not. ok is false if name
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

// A Contender is a client that holds a lock or waits for it.
type Contender struct {
	Name    string       // of its znode, below the lock's
	Shared  bool         // it wants, or has, the lock for reading
	Holds   bool         // it has the lock
	Data    []byte       // what it says of itself, see HolderData
	Session zk.SessionID // that it lives with; 0 if its znode is not ephemeral
	Token   zk.Zxid      // its fencing token
}

// contenders reads the queue for the lock at base. Those that leave meanwhile are left
// out.
func contenders(ctx context.Context, c Client, base string) ([]Contender, error) {
	names, err := childNames(ctx, c, base)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line := lineOf(names)
	list := make([]Contender, 0, len(line))
	for _, p := range line {
		data, stat, err := dataOf(ctx, c, join(base, p.name))
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
