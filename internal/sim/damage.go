package sim

import (
	"bytes"
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// damage stops a member's process, damages one of its files, and has it started again. The
// member may find the damage, now or later, and then heals; it may do without the file. It
// must not use damaged data: the checks of its log and its tree stay in force. Only a member that
// the others can do without is damaged: it has no vote until it has healed. They need one that has no vote
// any more if they do not know yet that the change which took it is committed.
func (s *Sim) damage(k faultKind, m *member) bool {
	if !m.up || m.damaged || m.counted() && !s.spare(m) {
		return false
	}
	files := m.files("log.", "snapshot.")
	if k == tornEpoch {
		files = m.files("acceptedEpoch", "currentEpoch")
	}
	if len(files) == 0 {
		return false
	}
	s.crash(m, false)
	m.damaged = true
	file := files[s.rng.IntN(len(files))]
	if last := lastLog(files); last != "" && s.chance(0.5) {
		file = last // a start always reads it
	}
	switch k {
	case bitFlip:
		bit := flip(m.disk, file, func(n int64) int64 { return s.rng.Int64N(n) })
		s.say(m.who, "bit %d of %s is flipped", bit, file)
	case lostFile:
		m.remove(file)
	case tornEpoch:
		if strings.HasSuffix(file, "acceptedEpoch") && s.chance(0.3) {
			m.remove(file)
			break
		}
		s.say(m.who, "%s is torn", file)
		f, err := m.disk.Create(file)
		if err == nil {
			_, err = f.Write([]byte("\x00\x00")[:s.rng.IntN(3)])
		}
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			panic(err)
		}
	}
	return true
}

// files returns the files of the member whose names begin with one of the prefixes.
func (m *member) files(prefixes ...string) (files []string) {
	const dir = "/data/version-2"
	names, err := m.disk.List(dir)
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, ".tmp") {
				files = append(files, path.Join(dir, name))
			}
		}
	}
	return files
}

// remove durably removes a file.
func (m *member) remove(file string) {
	m.s.say(m.who, "%s is removed", file)
	if err := errors.Join(m.disk.Remove(file), m.disk.SyncDir(path.Dir(file))); err != nil {
		panic(err)
	}
}

// lastLog returns the newest log file, "" if there is none.
func lastLog(files []string) (last string) {
	var newest uint64
	for _, file := range files {
		if hex, ok := strings.CutPrefix(path.Base(file), "log."); ok {
			if z, err := strconv.ParseUint(hex, 16, 64); err == nil && z >= newest {
				last, newest = file, z
			}
		}
	}
	return last
}

// flip flips one bit of a file, durably. Mostly it is one before the zeros with which a
// log ends that is not full. It returns the bit's number.
func flip(disk *vfs.Mem, file string, draw func(n int64) int64) int64 {
	f, err := disk.OpenReadWrite(file)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	size, err := disk.Size(file)
	if err != nil {
		panic(err)
	}
	if size == 0 {
		return 0
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		panic(err)
	}
	if n := len(bytes.TrimRight(b, "\x00")); n > 0 && draw(8) > 0 {
		size = int64(n)
	}
	bit := draw(8 * size)
	b[bit/8] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[bit/8:bit/8+1], bit/8); err != nil {
		panic(err)
	}
	if err := f.Sync(); err != nil {
		panic(err)
	}
	return bit
}

// forget writes the mark of a server that has forgotten which epochs it had accepted, as an
// operator does.
func (m *member) forget() {
	m.damaged, m.heals = true, false
	f, err := m.disk.Create("/data/version-2/healing")
	if err == nil {
		_, err = f.Write([]byte("epoch-lost\n"))
		err = errors.Join(err, f.Sync(), f.Close(), m.disk.SyncDir("/data/version-2"))
	}
	if err != nil {
		panic(err)
	}
}

// damagedEnd handles a damaged member that has failed: its next start heals. It reports false for
// a member whose disk is whole.
func (m *member) damagedEnd(err error) bool {
	if !m.damaged {
		return false
	}
	m.s.say(m.who, "its disk is damaged, and it ends: %v", err)
	m.stop(false)
	m.s.after(m.s.between(0, m.s.profile.down), m.start)
	return true
}

// heals handles a member that has started to heal: it has lost its history.
func (c *checker) heals(m *member) {
	if !m.damaged {
		c.s.fail("Healing", "member %d heals, and nothing is damaged: %s", m.id, m.report.Healing)
	}
	if !m.heals {
		c.s.cover.DamageFound++
	}
	m.heals = true
	kept := m.shadow.epochs.accepted.durable
	m.shadow = shadow{known: m.shadow.known, saved: m.shadow.saved}
	h, _, _ := m.dir.Healing() // what it has read itself
	if accepted, known, err := m.dir.AcceptedEpoch(); err == nil && known && !h.Forgot {
		if accepted < kept {
			c.s.fail("Healing", "member %d begins to heal with acceptedEpoch %d, it had %d", m.id, accepted, kept)
		}
		m.shadow.epochs.accepted = bounds{accepted, accepted}
	}
}

// healed handles a member that has its vote again.
func (c *checker) healed(m *member) {
	m.damaged, m.heals = false, false
	c.s.cover.Healed++
}

// readsBack checks a damaged member that has started: each transaction that it has read
// from its log, after the snapshot that it has loaded, is as its primary has proposed it.
func (c *checker) readsBack(m *member) {
	if !m.damaged {
		return
	}
	hex, _ := strings.CutPrefix(m.report.Snapshot, "snapshot.")
	after, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return // it has loaded none
	}
	r, err := m.dir.ReadLog(zk.Zxid(after))
	for err == nil {
		var payload []byte
		if payload, err = r.Next(); err != nil {
			break
		}
		tx, err := txn.Decode(payload)
		if b, ok := c.broadcast[tx.Zxid]; err != nil || !ok || b.hash != hashBytes(payload) {
			c.s.fail("Integrity", "member %d, whose disk is damaged, has started and reads %v from its log, which nobody has broadcast (or not with this content: %v): %v",
				m.id, tx.Zxid, ok, err)
		}
	}
	if r != nil {
		_ = r.Close() // it was only read
	}
}
