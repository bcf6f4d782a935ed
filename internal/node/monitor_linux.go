package node

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

// How the runtime's monitor is kept awake.
const (
	// dozeTime is how long a processor is held at once, unless the runtime wants it back.
	dozeTime = 20 * time.Millisecond
	// dozeWindow is how often it is decided whether the process is busy: whether it has used a fiftieth of a
	// processor since the last time. To keep the monitor awake takes a three hundredth.
	dozeWindow = 200 * time.Millisecond
	busyPart   = 50
)

// KeepMonitorAwake has a goroutine hold one processor (P) of Go in a sleep while the process is
// busy, so that the runtime's monitor does not fall asleep (rawio.Doze, ADR 30), until stop is
// called. It adds this processor to those that the runtime has chosen, so a program calls it
// once, for all its nodes, or not at all if they are not its main work. It does nothing if the
// environment sets GOMAXPROCS.
func KeepMonitorAwake() (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { keepAwake(end) })
	return func() {
		close(end)
		ended.Wait()
		runtime.SetDefaultGOMAXPROCS()
	}
}

func keepAwake(end <-chan struct{}) {
	tick := time.NewTicker(dozeWindow)
	defer tick.Stop()
	used := processorTime()
	for {
		before := used
		used = processorTime()
		if used-before < dozeWindow/busyPart {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			continue
		}
		for until := time.Now().Add(dozeWindow); time.Now().Before(until); {
			rawio.Doze(dozeTime)
			select {
			case <-end:
				return
			default:
			}
		}
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
