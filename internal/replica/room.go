package replica

import (
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// A server whose disk is nearly full refuses the writes of its clients before the disk is
// full, when the server could only end: reads, pings, the beginnings and the ends of
// sessions go on, and so do the writes that the leader sends. A leader hands over, to a
// member that may have room.

// roomEvery is the shortest time between two looks at the disk. What is written meanwhile
// must be much less than Options.DiskReserve.
const roomEvery = 100 * time.Millisecond

// leaveFullEvery is the shortest time between two hand-overs because of the disk: the disks
// of all members may be full.
const leaveFullEvery = time.Minute

// reserveShare is the part of a small disk that is kept free.
const reserveShare = 20

// room is what a server knows of the room on its disk.
type room struct {
	free    atomic.Int64 // bytes
	short   atomic.Bool
	looking atomic.Bool

	lookAt  time.Duration // Order's: when the disk is looked at next
	leaveAt time.Duration // Order's: not before this the leadership is handed over
}

// DiskShort reports whether the disk is nearly full, so that writes of clients are refused.
func (r *Replica) DiskShort() bool { return r.room.short.Load() }

// diskShort is DiskShort as a metric.
func (r *Replica) diskShort() int64 {
	if r.DiskShort() {
		return 1
	}
	return 0
}

// watchRoom has a task look at the disk if it is time, and a leader without room hand over.
func (o *orderer) watchRoom() {
	if o.o.DiskReserve <= 0 {
		return
	}
	now := o.turn.began
	if now >= o.room.lookAt && o.room.looking.CompareAndSwap(false, true) {
		o.room.lookAt = now + roomEvery
		o.driver.Spawn(o.look)
	}
	if o.DiskShort() && o.role == zab.Leading && o.serving.Load() && now >= o.room.leaveAt {
		o.room.leaveAt = now + leaveFullEvery
		o.beginHandOvers([]func(error){func(error) {}})
	}
}

// look looks at the disk. It is a task.
func (r *Replica) look() (again bool) {
	defer r.room.looking.Store(false)
	free, all, err := r.o.Dir.Room()
	if err != nil {
		return false // the next write will tell
	}
	r.room.free.Store(free)
	reserve := min(r.o.DiskReserve, all/reserveShare)
	switch short := r.DiskShort(); {
	case !short && free < reserve:
		r.room.short.Store(true)
		r.log.Error("the disk is nearly full: writes of clients are refused until there is room", "free_bytes", free, "reserve_bytes", reserve)
	case short && free > reserve+reserve/4:
		r.room.short.Store(false)
		r.log.Info("the disk has room again: writes of clients are taken", "free_bytes", free)
	}
	return false
}
