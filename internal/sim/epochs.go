package sim

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// epochs is what a member's epoch files must hold: at least what its core was told
// to be durable, at most what it has asked for.
type epochs struct {
	accepted, current bounds
	cut               bool // the log was cut or replaced since the current epoch was written
}

type bounds struct{ durable, asked uint32 }

// asked notes a write that is asked for.
func (e *epochs) asked(w *zab.Write) {
	switch w.Kind {
	case zab.WriteAcceptedEpoch:
		e.accepted.asked = w.Epoch
	case zab.WriteCurrentEpoch:
		e.current.asked = w.Epoch
	case zab.WriteTruncate, zab.WriteInstall:
		e.cut = true
	}
}

// wrote notes that a write is durable. later are the writes that are not yet.
func (e *epochs) wrote(op *logOp, later []logOp) {
	switch op.kind {
	case zab.WriteAcceptedEpoch:
		e.accepted.durable = op.epoch
	case zab.WriteCurrentEpoch:
		e.current.durable = op.epoch
		e.cut = false
		for i := range later {
			e.cut = e.cut || later[i].kind == zab.WriteTruncate || later[i].kind == zab.WriteInstall
		}
	}
}

// epochFile reads an epoch file, without the server's code. A file that is missing
// means the epoch of the last transaction.
func (m *member) epochFile(name string, last zk.Zxid) uint32 {
	f, err := m.disk.Open("/data/version-2/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return last.Epoch()
	}
	if err != nil {
		m.s.fail("EpochFile", "member %d: %v", m.id, err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	epoch, err2 := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
	if err != nil || err2 != nil {
		m.s.fail("EpochFile", "member %d: %s holds %q: %v", m.id, name, text, errors.Join(err, err2))
	}
	return uint32(epoch)
}

// epochFiles checks a member that has started: its epoch files hold what it has
// promised, and the current epoch is one whose beginning is in its log, unless a
// newer leader has cut the log meanwhile.
func (c *checker) epochFiles(m *member, last zk.Zxid) {
	h := &m.shadow
	e := &h.epochs
	accepted, current := m.epochFile("acceptedEpoch", last), m.epochFile("currentEpoch", last)
	for _, f := range [...]struct {
		name string
		got  uint32
		b    bounds
	}{{"acceptedEpoch", accepted, e.accepted}, {"currentEpoch", current, e.current}} {
		if f.got < f.b.durable || f.got > max(f.b.asked, f.b.durable, last.Epoch()) {
			c.s.fail("EpochFile", "member %d starts with %s %d, it has written %d and asked for %d, its log ends with %v",
				m.id, f.name, f.got, f.b.durable, f.b.asked, last)
		}
	}
	if accepted < current {
		c.s.fail("EpochFile", "member %d starts with acceptedEpoch %d, older than currentEpoch %d", m.id, accepted, current)
	}
	e.accepted, e.current = bounds{accepted, accepted}, bounds{current, current}
	if !e.cut {
		c.epochHistory(m, current)
	}
}
