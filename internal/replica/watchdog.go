package replica

import (
	"sync"
	"time"
)

// watchdog sees to it that no Caller waits for the disk for long (M3): if a write that a Caller
// makes takes longer than LookEvery, it calls Reader.StandIn, at the second look at most. Another goroutine that is awake
// anyway looks (tend), or, while there is none and Callers write, the watchdog's own: each wake of that one by a timer has the
// runtime wake another thread as well.
type watchdog struct {
	sync.Mutex
	reader Reader // of the Caller that writes now; nil if none does, or it was replaced
	writes uint64 // that have begun
	seen   uint64 // writes at the last look
	tended bool   // another goroutine looks
	awake  bool   // the watchdog's goroutine looks
	closed bool
	wake   chan struct{} // holds one token
	ended  chan struct{}
}

// LookEvery is the time between two looks at a write of the log (Replica.Look).
const LookEvery = 8 * time.Millisecond

func (k *watchdog) init() {
	k.wake, k.ended = make(chan struct{}, 1), make(chan struct{})
	go k.run()
}

// begin tells that the Caller that reads reader begins to write.
func (k *watchdog) begin(reader Reader) {
	k.Lock()
	defer k.Unlock()
	k.reader = reader
	k.writes++
	k.rouse()
}

// rouse has the goroutine look if none does. REQUIRES: the lock.
func (k *watchdog) rouse() {
	if !k.awake && !k.tended {
		k.awake = true
		nudge(k.wake)
	}
}

// tend with again true is a look on the calling goroutine, which looks again after LookEvery: the watchdog's own sleeps. With
// false it looks no more.
func (k *watchdog) tend(again bool) {
	var slow Reader
	k.Lock()
	if k.tended = again; again {
		slow = k.look()
	} else if k.reader != nil {
		k.rouse()
	}
	k.Unlock()
	if slow != nil {
		slow.StandIn()
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
	nudge(k.wake)
	k.Unlock()
	<-k.ended
}

// nudge puts a token into a channel that holds one, unless there is one.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (k *watchdog) run() {
	defer close(k.ended)
	for {
		slow, awake, closed := k.lookAlone()
		switch {
		case closed:
			return
		case slow != nil:
			slow.StandIn()
		case !awake:
			<-k.wake
		default:
			time.Sleep(LookEvery)
		}
	}
}

// lookAlone is a look on the watchdog's goroutine, which sleeps if another one looks, or no write has begun since the last
// look and none is made.
func (k *watchdog) lookAlone() (slow Reader, awake, closed bool) {
	k.Lock()
	defer k.Unlock()
	began := k.writes != k.seen
	if !k.tended {
		slow = k.look()
	}
	k.awake = !k.tended && (began || slow != nil)
	return slow, k.awake, k.closed
}

// look returns the reader of the Caller that writes if it wrote at the last look as well. REQUIRES: the lock.
func (k *watchdog) look() (slow Reader) {
	if k.writes == k.seen {
		slow, k.reader = k.reader, nil
	}
	k.seen = k.writes
	return slow
}
