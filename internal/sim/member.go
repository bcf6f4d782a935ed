package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/faultfs"
)

// member is one server of the ensemble, through all its lives.
type member struct {
	s     *Sim
	id    int
	who   string
	voter bool // in the first configuration

	disk *vfs.Mem
	life int  // counts starts and ends: what was meant for another life is dropped
	up   bool // it runs
	gone bool // it never comes back

	started time.Duration
	wall    time.Duration // how far its wall clock is off
	rate    float64       // of its clocks, 1 is right
	paused  time.Duration // until then it does nothing

	fault  *faultfs.FS
	dir    *storage.Dir
	srv    *server.Server
	rep    *replica.Replica
	report replica.Report // of the start of rep
	conns  []*clientConn
	leader zab.LinkID    // the link that it has dialled last
	slow   time.Duration // until then its disk is slow
	stall  time.Duration // until then its disk does not answer
	lag    time.Duration // until then its process is slow
	kill   bool          // a fault of the disk that is armed ends the process alone
	filled bool          // its disk has held a database

	installed time.Duration // when it was last sent a snapshot
	observed  time.Duration // when it last began to serve as an observer

	damaged bool // a file of its disk was damaged or lost, and the member has not healed since
	heals   bool // it had found the damage when it was started last
	divergence

	listed     string // the servers in its zoo.cfg, and next in the file of a proposed configuration; see list
	next       string
	configured []byte // what /zookeeper/config is set to at its start

	shadow shadow
}

func newMember(s *Sim, id int) *member {
	return &member{
		s: s, id: id, who: fmt.Sprintf("m%d", id), voter: id <= s.profile.voters, disk: vfs.NewMem(),
		wall: s.between(-time.Second, time.Second), rate: 1 + s.profile.drift*(2*s.rng.Float64()-1),
	}
}

// Now is the time since the member was started, by the member's clock, which may
// be fast or slow (replica.Clock).
func (m *member) Now() time.Duration { return time.Duration(float64(m.s.now-m.started) * m.rate) }

// when is the moment at which the member's clock shows a time, or shortly after.
func (m *member) when(now time.Duration) time.Duration {
	return m.started + time.Duration(float64(now)/m.rate) + time.Microsecond
}

// epoch is the wall clock when a run begins, in milliseconds since 1970.
const epoch = 1_700_000_000_000

// UnixMilli is the member's wall clock (replica.Clock).
func (m *member) UnixMilli() int64 {
	return epoch + (time.Duration(float64(m.s.now)*m.rate) + m.wall).Milliseconds()
}

// start begins a life: the server is started over what is on its disk.
func (m *member) start() {
	if m.up || m.gone {
		return
	}
	m.life++
	m.started = m.s.now
	m.fault = faultfs.New(m.disk, 0, faultfs.None, nil)
	m.kill = false
	m.mark()
	if err := m.open(); err != nil {
		if !m.injected(err) {
			m.s.fail("Recovery", "member %d cannot start: %v", m.id, err)
		}
		m.s.say(m.who, "start fails: %v", err)
		m.closeDir()
		m.s.after(m.s.between(time.Millisecond, m.s.profile.down), m.start)
		return
	}
	m.divergence = divergence{}
	m.up, m.filled, m.paused, m.stall, m.lag = true, true, 0, 0, 0
	m.conns = nil
	m.s.say(m.who, "starts at %v", m.rep.LastApplied())
	m.s.trace.note(uint64(m.id), 1, uint64(m.rep.LastApplied()), uint64(m.s.now))
	m.s.check.started(m)
	m.s.net.started(m)
	m.rep.Join(memberNet{m})
}

// config is the member's configuration, as an operator would write it.
func (m *member) config() *config.Config {
	p := &m.s.profile
	c := config.Default()
	c.Data.Dir, c.Data.LogDir, c.Data.DBAutoCreate = "/data", "/data", false
	c.Session = config.Session{Tick: p.tick, MinTimeout: p.minSession, MaxTimeout: p.maxSession}
	c.Tree.ExtendedTypes, c.Tree.EnforceQuota = true, p.quota != (quota{})
	c.Requests.MaxOutstanding, c.Requests.MaxInPipeline = 0, 0 // a connection cannot wait for room, see server.SteppedConn
	c.Client.MaxPerIP, c.Client.MaxTotal = 0, 0
	c.Log.PreAllocBytes, c.Log.MaxBytes, c.Log.FsyncWarnAfter = p.preallocBytes, p.logBytes, 0
	c.Log.CommitLogCount, c.Log.SnapSizeFactor, c.Log.ForceSnapSync = p.window, p.sizeFactor, p.forceSnap
	c.Snapshot.Count, c.Snapshot.SizeBytes = p.snapCount, 0
	c.Reaper.NeverUsed = neverUsed
	q := &c.Quorum
	q.MyID, q.HasMyID, q.Observer = int64(m.id), true, !m.voter
	q.Members = p.electorate.members(p.observers)
	if p.reconfigs.on {
		q.ReconfigEnabled = true
		q.Members = *parsed(m.list())
		q.Observer = q.Own().Observer
		if m.next != "" {
			q.Next = parsed(m.next)
		}
		c.Auth.SuperDigest = identity(operatorName, operatorName).ID
	}
	q.InitLimit, q.ConnectLimit, q.SyncLimit, q.MaxNotification = p.initLimit, p.initLimit, p.syncLimit, 2*time.Second
	q.LocalSessions, q.LocalUpgrading, q.ReadOnlyMode = p.localSessions, p.upgrading, p.readOnly
	return c
}

// neverUsed is how old a container must be that is deleted though it never had a
// child. That happens if clocks are set.
const neverUsed = time.Minute

// open makes the server's parts of its configuration, as node.Open does, with the same
// translation (package options). It does not call node.Open: that opens ports, and
// starts the replica on the clock of the machine and with goroutines, where a run has
// the member's clock, driver, network and disk, and connections without sockets. For the
// same reason the sweep and the purge are called by upkeep, and Close is not simulated:
// a life ends by a crash.
func (m *member) open() error {
	cfg := m.config()
	log := slog.New(slog.DiscardHandler)
	if m.s.trace.on {
		log = slog.New(traceHandler{s: m.s, who: m.who})
	}
	authority, err := auth.New(options.Auth(cfg))
	if err != nil {
		return err
	}
	disk := options.Storage(cfg)
	disk.SnapshotBuffer = 4 << 10 // small, so that it takes several writes
	if m.dir, err = storage.Open(m.fault, disk); err != nil {
		return err
	}
	o, err := options.Replica(cfg)
	if err != nil {
		return err
	}
	m.srv = server.New(server.Options{Config: cfg, Auth: authority, Logger: log})
	o.Dir, o.Auth, o.Clients, o.Logger = m.dir, authority, m.srv, log
	m.simulate(&o)
	if m.rep, m.report, err = replica.Start(o, m.UnixMilli()); err != nil {
		return err
	}
	m.srv.Attach(m.rep)
	return nil
}

// simulate sets what a replica has only in a run: virtual time, choices by the seed, an
// observer of the core, and limits that no configuration can set so low.
func (m *member) simulate(o *replica.Options) {
	p := &m.s.profile
	o.Clock, o.Driver, o.Group, o.Saw = m, &driver{m: m}, m.group, m.saw
	if p.reconfigs.on {
		o.MembersSaved, m.configured = m.membersSaved, o.ConfigText
	}
	o.Seed = m.s.o.Seed<<8 + uint64(m.life)
	o.Prefetch, o.PurgeInterval, o.DiskReserve, o.Scrub = false, 0, 0, true
	if m.s.o.Impatient {
		o.Ensemble.ProgressLimit = 2 * p.tick
	}
	o.ReadOnlyAfter = p.readOnlyAfter
	o.Ensemble.LastCounter, o.Ensemble.StallAfter, o.Ensemble.ObserverMasters = p.lastCounter, p.stallAfter, p.masters
}

func (m *member) saw(rd *zab.Ready) { m.s.check.saw(m, rd) }

// mark puts the file on the disk that allows a new database, as an operator does
// for a new member. A member that has had one must not create another by itself.
func (m *member) mark() {
	if m.filled {
		return
	}
	err := m.disk.MkdirAll("/data")
	if err == nil {
		var f vfs.File
		if f, err = m.disk.Create("/data/initialize"); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		panic(err)
	}
}

// injected reports whether an error is one that a fault has made.
func (m *member) injected(err error) bool {
	return errors.Is(err, faultfs.ErrCrashed) || m.fault.Met()
}

// stop ends a life. With power the disk loses what was not synced, and its
// writes may be torn; without, only the process has died.
func (m *member) stop(power bool) {
	if !m.up {
		return
	}
	m.up = false
	m.life++
	m.s.trace.note(uint64(m.id), 2, uint64(m.s.now))
	for _, c := range m.conns {
		c.serverGone()
	}
	m.conns = nil
	m.s.net.stopped(m)
	m.s.check.stopped(m)
	m.closeDir()
	if power {
		m.disk = m.disk.CrashClone(m.s.rng)
	}
}

func (m *member) closeDir() {
	if m.dir != nil {
		_ = m.dir.Close() // releases the lock, which a process that dies does too
		m.dir = nil
	}
}

// failed ends the life of a server whose disk has failed. What a failed fsync
// has left is as uncertain as after a crash.
func (m *member) failed() {
	err := m.rep.Failure()
	m.s.say(m.who, "fails: %v", err)
	if !m.injected(err) && m.damagedEnd(err) {
		return
	}
	if !m.injected(err) {
		m.s.fail("NoFailure", "member %d has failed: %v", m.id, err)
	}
	m.s.cover.DiskFailures++
	m.stop(!m.kill)
	m.s.after(m.s.between(time.Millisecond, m.s.profile.down), m.start)
}

// after has f called in this life of the member, not before it goes on if it is
// paused.
func (m *member) after(d time.Duration, f func()) {
	life := m.life
	var g func()
	g = func() {
		switch {
		case m.life != life:
		case m.paused > m.s.now:
			m.s.after(m.paused-m.s.now, g)
		default:
			f()
		}
	}
	m.s.after(d, g)
}

// group is how many of the jobs that wait one write makes durable.
func (m *member) group(jobs int) int { return 1 + m.s.rng.IntN(jobs) }

// turn is how long a goroutine waits for its turn.
func (m *member) turn(least, most time.Duration) time.Duration {
	if m.lag > m.s.now {
		return m.s.between(5*time.Millisecond, 50*time.Millisecond)
	}
	return m.s.between(least, most)
}

// diskDelay is how long the next write takes.
func (m *member) diskDelay() time.Duration {
	p := &m.s.profile
	switch {
	case m.stall > m.s.now:
		return m.stall - m.s.now
	case m.slow > m.s.now:
		return m.s.between(50*time.Millisecond, time.Second)
	case m.s.chance(p.slowDisk):
		return m.s.between(p.diskDelay, 20*p.diskDelay)
	}
	return m.s.between(p.diskDelay/10, p.diskDelay)
}

// stepped is what follows each turn of a worker or a task.
func (m *member) stepped(kind uint64) {
	m.s.trace.note(uint64(m.id)<<8|kind, uint64(m.s.now), uint64(m.rep.LastApplied()))
	m.poll()
	m.noteWrong()
}

// upkeep does what is due by the clock.
func (m *member) upkeep() {
	m.rep.Sweep()
	if m.s.profile.purge && m.s.chance(0.3) {
		removed, err := m.dir.Purge(storage.Retention{Snapshots: 3})
		m.s.cover.Purged += len(removed)
		if err != nil && !m.injected(err) && !m.damaged {
			m.s.fail("NoFailure", "member %d cannot purge: %v", m.id, err)
		}
	}
	m.stepped(7)
}

// poll moves the output of the clients' connections.
func (m *member) poll() {
	live := m.conns[:0]
	for _, c := range m.conns {
		if c.pollServer() {
			live = append(live, c)
		}
	}
	clear(m.conns[len(live):])
	m.conns = live
}

// digest is that of the member's tree.
func (m *member) digest() (digest uint64) {
	m.rep.View(func(tree replica.View) { digest = tree.Digest() })
	return digest
}

func (m *member) describe() string {
	if !m.up {
		return fmt.Sprintf("%s is down (gone %v)", m.who, m.gone)
	}
	st := m.rep.Status()
	if st == nil {
		return m.who + " has no status"
	}
	text := ""
	if k := m.shadow.known; k.Committed != nil {
		text = fmt.Sprintf(" configurations %q and %q, unsure %v", k.Committed.Text(), k.Seen.Text(), k.Unsure)
	}
	return fmt.Sprintf("%s serving %v applied %v logged %v status %+v%s",
		m.who, m.rep.Serving(), m.rep.LastApplied(), m.rep.LastLogged(), *st, text)
}
