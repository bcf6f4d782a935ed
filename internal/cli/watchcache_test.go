package cli

import (
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// What a cache tells of, as the events that newer servers would send. The real thing
// runs on a server of 3.4, in test/clients.
func TestEventsOfCache(t *testing.T) {
	const began = 10
	for _, test := range []struct {
		kind         zk.EventType
		path         string
		czxid, mzxid zk.Zxid
		want, single zk.EventType
	}{
		{zk.EventNodeCreated, "/a", 3, 10, zk.EventNone, zk.EventNone},
		{zk.EventNodeCreated, "/a", 3, 11, zk.EventNodeDataChanged, zk.EventNodeDataChanged},
		{zk.EventNodeCreated, "/a/b", 11, 11, zk.EventNodeCreated, zk.EventNodeChildrenChanged},
		{zk.EventNodeDataChanged, "/a/b", 11, 12, zk.EventNodeDataChanged, zk.EventNone},
		{zk.EventNodeDeleted, "/a/b", 11, 12, zk.EventNodeDeleted, zk.EventNodeChildrenChanged},
		{zk.EventNodeDeleted, "/a", 3, 12, zk.EventNodeDeleted, zk.EventNodeDeleted},
	} {
		e := happened(client.Change{Type: test.kind, Path: test.path, Stat: zk.Stat{Czxid: test.czxid, Mzxid: test.mzxid}}, began)
		if e.Type != test.want || e.Path != test.path {
			t.Errorf("%v of %s is %v of %s, want %v", test.kind, test.path, e.Type, e.Path, test.want)
		}
		if e = ofParent(e, "/a"); e.Type != test.single || e.Type != zk.EventNone && e.Path != "/a" {
			t.Errorf("%v of %s is %v of %s for /a alone, want %v", test.kind, test.path, e.Type, e.Path, test.single)
		}
	}
}
