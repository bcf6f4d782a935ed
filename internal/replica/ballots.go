package replica

import (
	"sync"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
)

// maxBallots bounds the servers whose messages wait. There are at most zab.MaxVoters
// voters; the rest is for observers and strangers, whose messages may be dropped.
const maxBallots = 256

// ballots holds the newest election message of each server until Order takes it. A newer
// message replaces an older one, so the memory does not grow with the messages that
// arrive while Order is busy. Any goroutine may call the methods. The zero value is
// empty.
type ballots struct {
	mu struct {
		sync.Mutex
		newest map[int64]election.Notification
	}
}

// put stores a message in place of the sender's last one. It reports whether Order must
// be told: not if Order was told of an earlier message and has not taken it, nor if there
// are too many senders and the message is dropped.
func (q *ballots) put(n election.Notification) (tell bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waits := q.mu.newest[n.From]
	if !waits && len(q.mu.newest) >= maxBallots {
		return false
	}
	if q.mu.newest == nil {
		q.mu.newest = map[int64]election.Notification{}
	}
	q.mu.newest[n.From] = n
	return !waits
}

// remove removes the newest message of a server, of which Order was told, and returns it.
func (q *ballots) remove(from int64) election.Notification {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.mu.newest[from]
	delete(q.mu.newest, from)
	return n
}
