package watch

// Watch is one watch of the data table.
type Watch struct {
	Path    string
	Watcher ID
}

// Place is the position of a listing of the data table. Its zero value is the
// beginning. The tables may change between two steps: watches added or removed
// meanwhile may be missing or be listed twice; every other watch is listed once.
type Place struct {
	group uint32 // path or watcher
	entry uint32 // the next entry in the ring of the group; 0: its head
	seen  uint32 // entries of the ring before it
}

// ListPaths appends watches to dst up to its capacity, path by path, in the order of
// Paths. If dst has room and nothing is appended, the listing is complete.
func (t *Tables) ListPaths(at *Place, dst []Watch) []Watch {
	b := &t.data
	for p := max(at.group, 1); p < b.paths.next; p++ {
		rec := b.paths.at(p)
		e, seen := rec.head, uint32(0)
		if p == at.group {
			e, seen = b.resume(*at, rec.head, rec.count, onPath)
		}
		for e != 0 {
			if len(dst) == cap(dst) {
				*at = Place{p, e, seen}
				return dst
			}
			entry := b.entries.at(e)
			dst = append(dst, Watch{rec.name, t.watchers.at(entry.watcher).id})
			seen++
			e = after(entry.nextOnPath, rec.head)
		}
	}
	*at = Place{group: max(b.paths.next, 1)}
	return dst
}

// ListWatchers appends watches to dst up to its capacity, watcher by watcher, in no
// particular order. If dst has room and nothing is appended, the listing is complete.
func (t *Tables) ListWatchers(at *Place, dst []Watch) []Watch {
	b := &t.data
	for wi := max(at.group, 1); wi < t.watchers.next; wi++ {
		w := t.watchers.at(wi)
		list := w.lists[b.which]
		e, seen := list.head, uint32(0)
		if wi == at.group {
			e, seen = b.resume(*at, list.head, list.count, ofWatcher)
		}
		for e != 0 {
			if len(dst) == cap(dst) {
				*at = Place{wi, e, seen}
				return dst
			}
			entry := b.entries.at(e)
			dst = append(dst, Watch{b.paths.at(entry.path).name, w.id})
			seen++
			e = after(entry.nextOfWatcher, list.head)
		}
	}
	*at = Place{group: max(t.watchers.next, 1)}
	return dst
}

// after returns the next entry of a ring, or 0 at its end.
func after(next, head uint32) uint32 {
	if next == head {
		return 0
	}
	return next
}

// onPath and ofWatcher return the ring that an entry belongs to, and the next entry
// there.
func onPath(e *entry) (group, next uint32)    { return e.path, e.nextOnPath }
func ofWatcher(e *entry) (group, next uint32) { return e.watcher, e.nextOfWatcher }

// resume returns the entry with which a listing continues in a ring of count entries, 0
// if none is left. If the entry at which it stopped no longer exists, it continues by
// the number of entries already listed.
func (b *table) resume(at Place, head, count uint32, ring func(*entry) (group, next uint32)) (e, seen uint32) {
	if at.entry != 0 && at.entry < b.entries.next {
		entry := b.entries.at(at.entry)
		if group, _ := ring(entry); group == at.group && entry.kinds != 0 {
			return at.entry, at.seen
		}
	}
	if at.seen >= count {
		return 0, at.seen
	}
	for e = head; seen < at.seen; seen++ {
		_, e = ring(b.entries.at(e))
	}
	return e, seen
}
