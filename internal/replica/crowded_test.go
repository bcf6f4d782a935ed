package replica

import (
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// pipeOnly is a replica of which only the pipe is used.
func pipeOnly() *Replica {
	r := &Replica{failed: make(chan struct{}), clock: wallClock{}}
	r.pipe.init(new(batchPool), nil)
	return r
}

// P6: packets count with their own memory, even those without data.
func TestP6PacketsWithoutDataCount(t *testing.T) {
	r := pipeOnly()
	commits := make([]zab.Packet, maxPacketBytes/50)
	r.putPackets(1, commits, nil)
	if !r.crowded() {
		t.Errorf("%d packets that wait count as %d bytes", len(commits), r.pipe.packetBytes)
	}
}

// P6: a learner reads no more from its leader while it has very many transactions to
// write or to apply. A leader goes on reading.
func TestP6BacklogIsBounded(t *testing.T) {
	for name, stage := range map[string]pipeline.Stage{"log": pipeline.Log, "apply": pipeline.Apply} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipeOnly()
				order, done := &Turn{}, &Turn{}
				order.Stage, done.Stage = pipeline.Order, stage
				switch stage {
				case pipeline.Log:
					order.jobs, done.group = []job{{txns: maxBacklog + 1}}, []job{{txns: 2}}
				default:
					order.steps, done.due = []step{{end: maxBacklog + 1}}, []step{{end: 2}}
				}
				r.pipe.put(order)
				read := false
				go func() {
					r.putPackets(1, make([]zab.Packet, 1), nil)
					read = true
				}()
				synctest.Wait()
				if read {
					t.Error("packets are taken")
				}
				r.decides.Store(true)
				if r.crowded() {
					t.Error("a leader reads no acknowledgements")
				}
				r.decides.Store(false)
				r.pipe.Lock()
				r.pipe.put(done)
				r.pipe.Unlock()
				synctest.Wait()
				if !read {
					t.Error("no packet is taken when there is room")
				}
			})
		})
	}
}

// A turn of Log that is to be continued has written nothing yet.
func TestBacklogOfATurnThatIsOverdue(t *testing.T) {
	r := pipeOnly()
	order, late := &Turn{}, &Turn{}
	order.Stage, late.Stage = pipeline.Order, pipeline.Log
	order.jobs, late.group = []job{{txns: 5}}, []job{{txns: 5}}
	r.pipe.put(order)
	late.Overdue = true
	if r.pipe.put(late); r.pipe.backlog != 5 {
		t.Errorf("%d transactions are left", r.pipe.backlog)
	}
	late.Overdue = false
	if r.pipe.put(late); r.pipe.backlog != 0 {
		t.Errorf("%d transactions are left in the end", r.pipe.backlog)
	}
}
