package replica

import (
	"sync"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
)

// maxBallots bounds the servers whose messages wait. There are at most zab.MaxVoters
// voters; the rest is for observers and for strangers, who may be lost.
const maxBallots = 256

// ballots holds the newest message of the election of each server until the loop has
// time for it. An older one means nothing any more, so that the memory does not
// grow with the messages that come while the loop is busy. Any goroutine may call
// its methods. The zero value is empty.
type ballots struct {
	mu struct {
		sync.Mutex
		newest map[int64]election.Notification
	}
}

// put keeps a message in place of the sender's last one. It reports whether the
// loop must be told to take it: not if it was told of one that it has not taken, nor
// if there are too many senders, when the message is dropped.
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
