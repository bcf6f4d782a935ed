package server

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestSlots(t *testing.T) {
	for i, of := range timed[1:] {
		if got := int(slot(of.op)); got != i+1 {
			t.Errorf("%s has the slot %d, want %d", of.name, got, i+1)
		}
		if of.op != wire.OpError && of.op.IsWrite() != (i+1 >= readSlots) {
			t.Errorf("%s is among the wrong operations", of.name)
		}
	}
	for _, op := range []wire.OpCode{0, -17, -128, 112, 1 << 30, wire.OpWhoAmI} {
		if got := slot(op); got != 0 {
			t.Errorf("%v has the slot %d", op, got)
		}
	}
}

// Each request counts once, as its own operation; reads and updates are the sums.
func TestLatencyByOperation(t *testing.T) {
	s := newTestServer(t, nil)
	k := connect(t, s.dial(), 30000)
	k.create("/a", "x", zk.Persistent)
	k.set("/a", nil)
	k.read(wire.OpGetData, "/a", false)
	k.read(wire.OpGetData, "/a", false)
	k.read(wire.OpExists, "/a", false)
	k.mustCall(wire.OpPing, nil)
	got, total := map[string]int64{}, int64(0)
	for _, m := range s.Metrics().Snapshot() {
		for _, v := range m.Samples {
			switch m.Name {
			case "request_time":
				got[v.Key] = v.Distribution.Count
			case "readlatency", "updatelatency":
				total += v.Summary.Count
			}
		}
	}
	want := map[string]int64{"createSession": 1, "create": 1, "setData": 1, "getData": 2, "exists": 1, "ping": 1}
	if _, ok := got["create2"]; ok {
		delete(want, "create")
		want["create2"] = 1
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests by operation (-want +got):\n%s", diff)
	}
	sum := int64(0)
	for n := range maps.Values(got) {
		sum += n
	}
	if sum != total {
		t.Errorf("%d requests by operation, %d in all", sum, total)
	}
}
