package load

import (
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
)

// companyEvery is how often company writes, and by that how long a lone client
// of a follower of Apache's may have to wait for an answer.
const companyEvery = time.Second

// company has a session of its own write through the last of the members now and
// then, until stop is called. Apache's servers up to 3.8.0 may sleep through a
// commit until there is another one (ZOOKEEPER-4537): a client that is alone in its
// ensemble may wait for ever for its last answer. Three servers of Apache's alone
// did so twice in 8,731 rounds of a session with 16 creates, and went on within
// 30 ms of a write by another session, after 10 s.
func company(open func(timeout, patience time.Duration) *client.Session, addrs []string) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		s := open(setupPatience, setupPatience)
		tick := time.NewTicker(companyEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				if s.Connected() {
					_, _ = s.Close() // it has left nothing behind
				}
				return
			case <-tick.C:
			}
			// Whoever it keeps company finds out what does not work.
			if !s.Connected() && s.Connect(addrs[len(addrs)-1]) != nil {
				continue
			}
			_, _ = s.Do(client.Set("/", nil, -1))
		}
	})
	var once sync.Once
	return func() {
		once.Do(func() { close(done) })
		wg.Wait()
	}
}
