package sim

import (
	"bytes"
	"path"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// damage stops a member's process, flips a bit of its log or of a snapshot, and has
// it started again. The member may find the damage and refuse to start, now or
// later, or fail when it reads the file; it may do without the file. It must not
// use damaged data: the checks of its log and its tree stay in force. Only a
// member that the others can do without is damaged: it may be lost.
func (s *Sim) damage(m *member) bool {
	if !m.up || m.damaged || m.voter && !s.spare(m) {
		return false
	}
	const dir = "/data/version-2"
	names, err := m.disk.List(dir)
	if err != nil {
		panic(err)
	}
	var files []string
	for _, name := range names {
		if strings.HasPrefix(name, "log.") || strings.HasPrefix(name, "snapshot.") {
			files = append(files, path.Join(dir, name))
		}
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
	bit := flip(m.disk, file, func(n int64) int64 { return s.rng.Int64N(n) })
	s.say(m.who, "bit %d of %s is flipped", bit, file)
	return true
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

// damagedEnd handles a damaged member that has refused to start, or has failed. A
// voter is lost; an observer gets an empty disk from its operator. It reports false
// for a member whose disk is whole.
func (m *member) damagedEnd(err error) bool {
	if !m.damaged {
		return false
	}
	m.s.say(m.who, "its disk is damaged, and it ends: %v", err)
	m.s.cover.DamageFound++
	m.stop(false)
	m.closeDir()
	m.gone = m.voter
	if !m.voter {
		m.disk, m.filled, m.damaged = vfs.NewMem(), false, false
		m.s.check.wiped(m)
		m.s.after(m.s.between(0, m.s.profile.down), m.start)
	}
	return true
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
