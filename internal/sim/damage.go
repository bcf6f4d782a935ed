package sim

import (
	"path"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// damage stops a member's process, flips a bit of its log or of a snapshot, and has
// it started again. The member may find the damage and refuse to start, now or
// later, or fail when it reads the file; it may do without the file. It must not
// believe what it reads: the checks of its log and its tree hold as ever. Only a
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
	bit := flip(m.disk, file, func(n int64) int64 { return s.rng.Int64N(n) })
	s.say(m.who, "bit %d of %s is flipped", bit, file)
	return true
}

// flip flips one bit of a file, durably. Mostly it is one of the first kilobyte,
// for a log that is not full ends with zeros. It returns the bit's number.
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
	if draw(4) > 0 {
		size = min(size, 1<<10)
	}
	bit := draw(8 * size)
	var b [1]byte
	if _, err := f.ReadAt(b[:], bit/8); err != nil {
		panic(err)
	}
	b[0] ^= 1 << (bit % 8)
	if _, err := f.WriteAt(b[:], bit/8); err != nil {
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
