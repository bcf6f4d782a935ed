package load

import (
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
)

// What is there must be the state after some first part of the tail.
func TestSettle(t *testing.T) {
	old := entry{data: "old"}
	tail := []change{
		{{wire.OpCreate, "b", entry{"1", true}}},
		{{wire.OpSetData, "a", entry{data: "2"}}, {op: wire.OpDelete, name: "b"}},
		{{op: wire.OpDelete, name: "a"}},
	}
	for _, c := range []struct {
		name  string
		got   map[string]entry
		alive bool
		want  string
	}{
		{"nothing", map[string]entry{"a": old}, true, ""},
		{"the first", map[string]entry{"a": old, "b": {"1", true}}, true, ""},
		{"the first, and the session has ended", map[string]entry{"a": old}, false, ""},
		{"two", map[string]entry{"a": {data: "2"}}, true, ""},
		{"all", map[string]entry{}, true, ""},
		{"half of a multi", map[string]entry{"a": {data: "2"}, "b": {"1", true}}, true, "b is there"},
		{"the second alone", map[string]entry{"a": {data: "2"}, "c": old}, true, "c is there"},
		{"other data", map[string]entry{"a": {data: "3"}}, true, `a has "3"`},
		{"not ephemeral", map[string]entry{"a": old, "b": {"1", false}}, true, "b is there"},
		{"ephemeral left over", map[string]entry{"a": old, "b": {"1", true}}, false, "b is there"},
	} {
		k := &keep{root: "/k", state: map[string]entry{"a": old}, tail: tail}
		err := k.settle(c.got, c.alive)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "" && (!maps.Equal(visible(k.state, c.alive), c.got) || k.tail != nil):
			t.Errorf("%s: settled on %v", c.name, k.state)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A lost write is found however many changes follow it.
func TestSettleFindsALostChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		k := &keep{state: map[string]entry{}}
		state := map[string]entry{}
		var changes []change
		for range 30 {
			changes = append(changes, k.choose(rng, state))
		}
		lost := rng.IntN(len(changes))
		got := map[string]entry{}
		for i, c := range changes {
			if i != lost {
				c.apply(got)
			}
			c.apply(k.state)
		}
		if maps.Equal(got, k.state) {
			continue // what it wrote was overwritten or deleted later
		}
		if err := k.settle(got, true); err == nil {
			t.Fatalf("the loss of change %d of %d is not found", lost, len(changes))
		}
	}
}
