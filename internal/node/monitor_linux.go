package node

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// How the runtime's monitor is kept awake.
const (
	// dozeWindow is how often it is decided whether the process is busy: whether it has used a fiftieth of a
	// processor since the last time.
	dozeWindow = 200 * time.Millisecond
	busyPart   = 50
	// quietLooks is after how many looks, one after the other, between which no write has begun, the log is not written often
	// any more.
	quietLooks = 4
)

// KeepMonitorAwake has a goroutine hold one processor (P) of Go in a sleep while the process is
// busy, so that the runtime's monitor does not fall asleep (rawio.Doze, ADR 30), until stop is
// called. A token of busy says that the log is written often. While it is, that goroutine wakes every
// replica.LookEvery, and calls look, which reports whether a write has begun since the last call: with again false
// if it does not do so any more.
//
// KeepMonitorAwake adds this processor to those that the runtime has chosen, so a program calls it
// once, for all its nodes, or not at all if they are not its main work. It does nothing if the
// environment sets GOMAXPROCS.
func KeepMonitorAwake(look func(again bool) (began bool), busy <-chan struct{}) (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { (&awakener{look, busy, end}).run() })
	return func() {
		close(end)
		ended.Wait()
		runtime.SetDefaultGOMAXPROCS()
	}
}

// awakener is the state of KeepMonitorAwake.
type awakener struct {
	look      func(again bool) (began bool)
	busy, end <-chan struct{}
}

func (k *awakener) run() {
	defer k.look(false)
	tick := time.NewTicker(dozeWindow)
	defer tick.Stop()
	used := processorTime()
	for often := false; ; { // the log is written often
		before := used
		used = processorTime()
		if !often && used-before < dozeWindow/busyPart {
			select {
			case <-k.end:
				return
			case <-tick.C:
				continue
			case <-k.busy:
				often = true
			}
		}
		if often {
			often = k.dozeAndLook()
			used = processorTime() // if the writes have ended, what they used says nothing of what follows
		} else {
			often = k.doze(dozeWindow, k.busy)
		}
		select {
		case <-k.end:
			return
		default:
		}
	}
}

// dozeAndLook holds a processor for dozeWindow, and looks. It reports whether writes began before most looks, and returns
// sooner when they end.
func (k *awakener) dozeAndLook() (again bool) {
	const looks = int(dozeWindow / replica.LookEvery)
	began, quiet := 0, 0
	for range looks {
		if quiet++; k.look(true) {
			began, quiet = began+1, 0
		}
		if quiet == quietLooks || k.doze(replica.LookEvery, nil) {
			break
		}
	}
	if again = began > looks/2 && quiet < quietLooks; !again {
		k.look(false)
	}
	return again
}

// doze holds a processor for d. It returns true, sooner, if there is a token of busy, or at the end.
func (k *awakener) doze(d time.Duration, busy <-chan struct{}) (woken bool) {
	for until := time.Now().Add(d); ; {
		select {
		case <-k.end:
			return true
		case <-busy:
			return true
		default:
		}
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		rawio.Doze(left)
	}
}

// processorTime is the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // it is never busy
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
