package client

import (
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// cacheTree is the znodes of a Cache. The Cache's mu guards it.
type cacheTree struct {
	root  string
	nodes map[string]*cacheNode
	bytes int64 // as CacheMaxBytes counts
}

type cacheNode struct {
	data  []byte
	stat  zk.Stat
	names map[string]struct{} // of the children that are held; nil for none
	pzxid zk.Zxid             // the children were all asked for at this Pzxid; 0 for never

	dataWatch, childWatch *Watch // without a recursive watch
}

// nodeCost is what a znode costs beside its path and data, more or less.
const nodeCost = 256

func (t *cacheTree) init(root string) {
	t.root, t.nodes, t.bytes = root, map[string]*cacheNode{}, 0
}

// split returns the path of the parent, and the name.
func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// below is the path of a child.
func below(path, name string) string {
	if path == "/" {
		return path + name
	}
	return path + "/" + name
}

// anchored reports whether path can be held: it is the top, or its parent is held.
func (t *cacheTree) anchored(path string) bool {
	if path == t.root {
		return true
	}
	parent, _ := split(path)
	return t.nodes[parent] != nil
}

// insert adds a znode that is not there.
//
// REQUIRES: t.anchored(path).
func (t *cacheTree) insert(path string, data []byte, stat zk.Stat) *cacheNode {
	n := &cacheNode{data: data, stat: stat}
	t.nodes[path] = n
	t.bytes += int64(len(path)+len(data)) + nodeCost
	if path != t.root {
		parent, name := split(path)
		p := t.nodes[parent]
		if p.names == nil {
			p.names = map[string]struct{}{}
		}
		p.names[name] = struct{}{}
	}
	return n
}

// update replaces the data of a znode.
func (t *cacheTree) update(n *cacheNode, data []byte, stat zk.Stat) {
	t.bytes += int64(len(data) - len(n.data))
	n.data, n.stat = data, stat
}

// remove takes a znode away with all below it, and calls gone for each, children
// before their parents.
func (t *cacheTree) remove(path string, gone func(path string, n *cacheNode)) {
	n := t.nodes[path]
	if n == nil {
		return
	}
	for name := range n.names {
		t.remove(below(path, name), gone)
	}
	delete(t.nodes, path)
	t.bytes -= int64(len(path)+len(n.data)) + nodeCost
	if path != t.root {
		parent, name := split(path)
		p := t.nodes[parent]
		if delete(p.names, name); len(p.names) == 0 {
			p.names = nil
		}
	}
	gone(path, n)
}

// walk calls visit for every znode, parents before their children.
func (t *cacheTree) walk(visit func(path string, n *cacheNode)) {
	if t.nodes[t.root] == nil {
		return
	}
	todo := []string{t.root}
	for len(todo) > 0 {
		path := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		n := t.nodes[path]
		visit(path, n)
		for name := range n.names {
			todo = append(todo, below(path, name))
		}
	}
}
