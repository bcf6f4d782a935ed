package znode

import (
	"strconv"
	"testing"
)

// The memory grows with the znodes, by what ADR 2 says that each part takes.
func TestMemoryOfParts(t *testing.T) {
	tree := New(Options{})
	before := tree.Memory()
	const n, data = 20_000, 100
	for i := range n {
		tree.insert("/"+strconv.Itoa(i), make([]byte, data), 0, Mode{})
	}
	m := tree.Memory()
	for part, per := range map[string]float64{
		"index":    float64(m.Index-before.Index) / n,
		"nodes":    float64(m.Nodes-before.Nodes) / n,
		"data":     float64(m.Data-before.Data) / n,
		"children": float64(m.Children-before.Children) / n,
	} {
		want := map[string][2]float64{"index": {8, 32}, "nodes": {85, 110}, "data": {100, 130}, "children": {4, 5}}[part]
		if per < want[0] || per > want[1] {
			t.Errorf("%s: %.1f bytes for a znode, want %v", part, per, want)
		}
	}
}
