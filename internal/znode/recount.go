package znode

import "slices"

// The usage of a quota is counted when its stats znode is created. A small subtree is
// counted at once. A large one is counted by Recount, in pieces, all that are due in one
// pass over the node table: clients may create stats znodes as often as they like. Until
// then the stats znode has the data that it was created with. It is not part of the digest.
//
// Each znode is counted once: znodes before recounts.next have been counted, and noteUsage
// adds their later changes; the pass reads the others in their state at that time.

// recounts is what is being counted.
type recounts struct {
	work    int            // left for counts within the current transaction
	due     []string       // quotas whose count has not begun
	targets map[ID]*target // what the current pass counts, by znode; nil: there is no pass
	missing []string       // quotas of the pass whose znode did not exist when it began
	next    ID             // the first znode that the pass has not counted
}

// target is a quota that is being counted.
type target struct {
	path string
	use  Quota
}

// recount sets the stats of the quota at path to the actual usage, at once or later.
func (t *Tree) recount(path string) {
	id := t.Lookup(path)
	if id == 0 || path == "" {
		t.changeStats(path, func(s *Quota) { *s = Quota{} })
		return
	}
	if use, ok := t.usage(id, &t.recounts.work); ok {
		t.changeStats(path, func(s *Quota) { *s = use })
	} else if !slices.Contains(t.recounts.due, path) {
		t.recounts.due = append(t.recounts.due, path)
	}
}

// usage counts the subtree of id. It gives up when it has done *work units.
func (t *Tree) usage(id ID, work *int) (u Quota, ok bool) {
	if *work--; *work < 0 {
		return Quota{}, false
	}
	n := t.nodes.at(id)
	u = Quota{Count: 1, Bytes: int64(max(n.dataLen, 0))}
	for _, k := range t.kids[n.kids] {
		v, ok := t.usage(k, work)
		if !ok {
			return Quota{}, false
		}
		u.Count += v.Count
		u.Bytes += v.Bytes
	}
	return u, true
}

// RecountWork is the work of counts within the last transaction.
func (t *Tree) RecountWork() int { return PieceUnits - t.recounts.work }

// RecountDue reports whether Recount has something to do.
func (t *Tree) RecountDue() bool { return len(t.recounts.due) > 0 || t.recounts.targets != nil }

// Recount counts for about limit units of work. done means that the pass is complete: the
// caller then calls EndRecount. Recount needs the tree's read lock and is called by one
// goroutine.
func (t *Tree) Recount(limit int) (done bool) {
	c := &t.recounts
	if c.targets == nil {
		t.beginRecount()
	}
	for work := 0; c.next < t.nodes.fresh; c.next++ {
		if work >= limit {
			return false
		}
		if n := t.nodes.at(c.next); c.next == rootID || n.slot != freeSlot {
			work += t.addUsage(c.next, int64(max(n.dataLen, 0)), 1)
		}
		work++
	}
	return true
}

// beginRecount begins a pass for all quotas that are due.
func (t *Tree) beginRecount() {
	c := &t.recounts
	c.targets, c.next = map[ID]*target{}, rootID
	for _, path := range c.due {
		if id := t.Lookup(path); id != 0 {
			c.targets[id] = &target{path: path}
		} else {
			c.missing = append(c.missing, path)
		}
	}
	c.due = nil
}

// FinishRecount counts everything that is due. REQUIRES: no other goroutine uses the tree.
func (t *Tree) FinishRecount() {
	for t.RecountDue() {
		for !t.Recount(PieceUnits) {
		}
		t.EndRecount()
	}
}

// EndRecount sets the stats of the quotas that the pass has counted. It needs the tree's
// write lock.
func (t *Tree) EndRecount() {
	for _, q := range t.recounts.targets {
		t.changeStats(q.path, func(s *Quota) { *s = q.use })
	}
	missing := t.recounts.missing
	t.recounts.targets, t.recounts.missing, t.recounts.next = nil, nil, 0
	for _, path := range missing {
		t.recount(path)
	}
}

// dropTarget ends the count of the quota of the znode id, which is being deleted.
func (t *Tree) dropTarget(id ID) {
	if q := t.recounts.targets[id]; q != nil {
		delete(t.recounts.targets, id)
		t.changeStats(q.path, func(s *Quota) { *s = Quota{} })
	}
}

// noteUsage adds a change of the znode id to the counts of the pass, if the pass has
// counted the znode.
func (t *Tree) noteUsage(id ID, bytes, count int64) {
	if id < t.recounts.next {
		t.addUsage(id, bytes, count)
	}
}

// addUsage adds to the targets at and above id, and returns the work.
func (t *Tree) addUsage(id ID, bytes, count int64) (work int) {
	for ; id != 0; id = t.nodes.at(id).parent {
		work++
		if q := t.recounts.targets[id]; q != nil {
			q.use.Count += count
			q.use.Bytes += bytes
		}
	}
	return work
}
