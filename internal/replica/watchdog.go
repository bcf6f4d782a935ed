package replica

import (
	"sync"
	"time"
)

// watchdog sees to it that no Caller waits for the disk for long (M3): if a write that a Caller
// makes takes longer than watchdogTick, it calls Reader.StandIn. Its own goroutine runs while
// Callers write, and looks twice at most before it does that.
type watchdog struct {
	sync.Mutex
	reader Reader // of the Caller that writes now; nil if none does, or it was replaced
	writes uint64 // that have begun
	awake  bool   // the goroutine looks
	closed bool
	wake   chan struct{} // holds one token
	ended  chan struct{}
}

// watchdogTick is the time between two looks.
const watchdogTick = 8 * time.Millisecond

func (k *watchdog) init() {
	k.wake, k.ended = make(chan struct{}, 1), make(chan struct{})
	go k.run()
}

// begin tells that the Caller that reads reader begins to write.
func (k *watchdog) begin(reader Reader) {
	k.Lock()
	defer k.Unlock()
	k.reader = reader
	if k.writes++; !k.awake {
		k.awake = true
		k.nudge()
	}
}

// end tells that the Caller has written. goOn is false if it was replaced.
func (k *watchdog) end() (goOn bool) {
	k.Lock()
	defer k.Unlock()
	goOn = k.reader != nil
	k.reader = nil
	return goOn
}

// close ends the goroutine. REQUIRES: no Caller writes.
func (k *watchdog) close() {
	k.Lock()
	k.closed = true
	k.nudge()
	k.Unlock()
	<-k.ended
}

// nudge wakes the goroutine.
func (k *watchdog) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *watchdog) run() {
	defer close(k.ended)
	for seen := uint64(0); ; {
		slow, awake, closed := k.look(&seen)
		switch {
		case closed:
			return
		case slow != nil:
			slow.StandIn()
		case !awake:
			<-k.wake
		default:
			time.Sleep(watchdogTick)
		}
	}
}

// look returns the reader of the Caller that writes if it wrote at the last look as well. seen is the
// write of the last look. If none has begun since then, and none is made, the goroutine sleeps.
func (k *watchdog) look(seen *uint64) (slow Reader, awake, closed bool) {
	k.Lock()
	defer k.Unlock()
	if k.writes != *seen {
		*seen = k.writes
		return nil, k.awake, k.closed
	}
	slow, k.reader = k.reader, nil
	k.awake = slow != nil
	return slow, k.awake, k.closed
}
