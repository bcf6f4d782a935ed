package clients

import (
	"errors"
	"strings"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// A feature is something that not every release of the servers has.
type feature string

const (
	create2     feature = "create2"
	containers  feature = "containers, and znodes with a time to live"
	unwatching  feature = "removeWatches"
	reconfigure feature = "reconfig, and the configuration in the tree"
	persistents feature = "persistent watches"
	reading     feature = "multiRead"
	ephemerals  feature = "getEphemerals"
	counting    feature = "getAllChildrenNumber"
	identity    feature = "whoAmI"
	localOnly   feature = "only local sessions at a member without a quorum"
)

// came is the minor release, of 3.x, that a feature came with.
func came() map[feature]int {
	return map[feature]int{
		create2: 5, containers: 5, unwatching: 5, reconfigure: 5, localOnly: 5,
		persistents: 6, reading: 6, ephemerals: 6, counting: 6,
		identity: 7,
	}
}

// release is the minor release of a kind of servers; that which Pinfold is like.
func release(k cluster.Kind) int {
	switch k {
	case cluster.Apache34:
		return 4
	case cluster.Apache:
		return 8
	}
	return 9
}

// Has reports whether all servers have a feature.
func (e *Env) Has(f feature) bool {
	for _, m := range e.s.members {
		if release(m.Kind()) < came()[f] {
			return false
		}
	}
	return true
}

// Lacks reports whether servers have no such feature, and then demands that what was
// tried with it has failed for that reason, and says so.
func (e *Env) Lacks(f feature, err error) bool {
	e.t.Helper()
	if e.Has(f) {
		return false
	}
	if !errors.Is(err, zk.ErrUnimplemented) || !strings.Contains(err.Error(), "servers know it") {
		e.t.Errorf("%s, which the servers have not: %v", f, err)
	}
	return true
}
