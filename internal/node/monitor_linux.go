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

// When the runtime's monitor is kept awake.
const (
	// window is how often it is decided. The process is busy if it has used a fifth of a processor since the last time.
	window   = 200 * time.Millisecond
	busyPart = 5
	// The log is written often if it was written between half of the looks of a window.
	looksAWindow = int(window / replica.LookEvery)
	// A window ends sooner if the process is not busy, and the log was not written between so many looks in a row.
	quietLooks = 4
)

// KeepMonitorAwake has a goroutine hold one processor (P) of Go in a sleep while the process is busy or the log is written
// often, so that the runtime's monitor does not fall asleep (rawio.Doze, ADR 30), until stop is called. A token of busy says
// that the log is written often. The goroutine then wakes every replica.LookEvery and calls look, which reports whether the log
// was written since the last call. When it dozes no more, and at the beginning, it calls look with again false
// (replica.Replica.Look): then each write is made so that the monitor stays asleep (ADR 32).
//
// KeepMonitorAwake adds this processor to those that the runtime has chosen, so a program calls it
// once, for its only node, or not at all. It does nothing if the environment sets GOMAXPROCS.
func KeepMonitorAwake(look func(again bool) (wrote bool), busy <-chan struct{}) (stop func()) {
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
	look      func(again bool) (wrote bool)
	busy, end <-chan struct{}
}

func (k *awakener) run() {
	for {
		k.look(false)
		busy, goOn := k.rest()
		if !goOn {
			return
		}
		for again := true; again; {
			busy, again = k.dozeAndLook(busy)
		}
	}
}

// rest waits until the process is busy, or the log written often. goOn is false at the end.
func (k *awakener) rest() (busy, goOn bool) {
	tick := time.NewTicker(window)
	defer tick.Stop()
	for used := processorTime(); ; {
		select {
		case <-k.end:
			return false, false
		case <-k.busy:
			return false, true
		case <-tick.C:
		}
		before := used
		if used = processorTime(); used-before >= window/busyPart {
			return true, true
		}
	}
}

// dozeAndLook holds a processor for a window; for less if the process is not busy and the log is not written any more. It reports
// whether the process was busy in it, and whether the goroutine is to go on.
func (k *awakener) dozeAndLook(busy bool) (busyNow, again bool) {
	used := processorTime()
	wrote, quiet := 0, 0
	for range looksAWindow {
		if quiet++; k.look(true) {
			wrote, quiet = wrote+1, 0
		}
		if quiet == quietLooks && !busy || !k.doze(replica.LookEvery) {
			return false, false
		}
	}
	busyNow = processorTime()-used >= window/busyPart
	return busyNow, busyNow || wrote > looksAWindow/2
}

// doze holds a processor for d. It returns false, sooner, at the end.
func (k *awakener) doze(d time.Duration) bool {
	for until := time.Now().Add(d); ; {
		select {
		case <-k.end:
			return false
		default:
		}
		left := time.Until(until)
		if left <= 0 {
			return true
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
