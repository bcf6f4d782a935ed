package znode

import "unsafe"

// Memory is what the parts of a tree take, in bytes.
type Memory struct {
	Index    int64
	Nodes    int64 // the node table
	Data     int64 // names and data, with what their slots waste
	Children int64 // the lists, without their spare room
}

// Memory returns what the tree takes. It costs some hundred additions, whatever the number
// of znodes is.
func (t *Tree) Memory() (m Memory) {
	for i := range t.index.parts {
		m.Index += int64(len(t.index.parts[i].entries)) * int64(unsafe.Sizeof(indexEntry{}))
	}
	m.Nodes = int64(len(t.nodes.blocks)) * int64(unsafe.Sizeof([nodesPerBlock]node{}))
	m.Data = t.arena.inUse
	m.Children = int64(t.count)*int64(unsafe.Sizeof(rootID)) + int64(cap(t.kids))*int64(unsafe.Sizeof([]ID(nil)))
	return m
}
