package hostile

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// The identity with limits, and its limits on each server.
const (
	greedy           = "greedy:secret"
	greedyConns      = 20
	greedyRequests   = 200
	greedyBytes      = 2_000_000
	greedyWatches    = 100
	greedyEphemerals = 20
)

// greedyLimits are the lines of limitsFile.
func greedyLimits() string {
	sum := sha1.Sum([]byte(greedy))
	return fmt.Sprintf("identity digest:greedy:%s requests=%d bytes=%d watches=%d ephemerals=%d connections=%d\n",
		base64.StdEncoding.EncodeToString(sum[:]), greedyRequests, greedyBytes, greedyWatches, greedyEphemerals, greedyConns)
}

// beGreedy has all connections of an identity with limits send what costs most, as fast as
// the servers take it.
func beGreedy(x *scene) {
	began := time.Now()
	received := x.received()
	list := x.sessions(greedyConns)
	x.each(len(list), func(i int) { x.drain(list[i].Conn()) })
	done := make(chan struct{})
	for i, s := range list {
		go func() {
			defer func() { done <- struct{}{} }()
			if !x.post(s, authenticate("digest", greedy)) {
				return
			}
			for n := 0; x.lasts() && time.Since(began) < 20*time.Second && x.post(s, worst(i, n)...); n++ {
				// The server's pace is the attacker's.
			}
		}()
	}
	x.hold(20 * time.Second)
	if x.system.Kind == cluster.Pinfold && x.attack.name == "limited-identity" { // others attack otherwise
		x.countGreedy()
	}
	x.closeConns()
	for range list {
		<-done
	}
	span := time.Since(began).Seconds()
	each := float64(x.received()-received) / span / float64(x.members)
	x.note("%.0f requests a second of all clients on each server", each)
	if x.attack.name != "limited-identity" {
		return // others attack too
	}
	const innocents, handshakes = 130, 3 * greedyConns
	if most := innocents + greedyRequests*(span+1)/span + handshakes/span; each > most*1.3 {
		x.fault("%.0f requests a second, the limits allow %.0f", each, most)
	}
}

// countGreedy checks what the identity has.
func (x *scene) countGreedy() {
	refused, most := int64(0), int64(0)
	for _, m := range x.e.Members {
		refused += x.metric(m, "limit_requests_refused")
		most += greedyEphemerals + greedyConns + 1 // those in flight, and an innocent client's
		if n := x.metric(m, "watch_count"); n > greedyWatches+greedyConns {
			x.fault("member %v has %d watches", m, n)
		}
		if x.metric(m, "cnt_limit_wait_time") == 0 {
			x.fault("no connection of member %v has waited", m)
		}
	}
	if n := x.metric(x.leader, "ephemerals_count"); n > most {
		x.fault("there are %d ephemerals", n)
	}
	x.note("%d requests refused", refused)
}

// received is how many requests the members have received.
func (x *scene) received() (n int64) {
	for _, m := range x.e.Members {
		n += x.metric(m, "packets_received")
	}
	return n
}

// worst are the requests of a client whose number is i.
func worst(i, n int) []client.Request {
	switch i % 5 {
	case 0:
		return []client.Request{client.Set("/zookeeper/quota", make([]byte, megabyte), -1)}
	case 1:
		var ops []wire.MultiOp
		for range 5000 {
			ops = append(ops, client.SetOp("/zookeeper/quota", nil, -1))
		}
		return []client.Request{client.Multi(ops...)}
	case 2:
		return repeat(100, onPath(wire.OpGetAllChildrenNumber, "/"))
	case 3:
		return []client.Request{watchOf(fmt.Sprintf("/watched-%d-%d", i, n)), addWatch(fmt.Sprintf("/also-%d-%d", i, n), persistent)}
	}
	return []client.Request{client.Create("/e-", nil, zk.EphemeralSequential)}
}
