package znode

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// TestLoaderAnyOrder: a snapshot is written depth first, and loads all the same
// in any order that has parents before their children.
func TestLoaderAnyOrder(t *testing.T) {
	var depth, breadth []bodyNode
	var below func(path string, levels int)
	below = func(path string, levels int) {
		depth = append(depth, bodyNode{path: path, acl: -1, data: []byte(path)})
		for i := range 5 {
			if levels > 0 {
				below(fmt.Sprintf("%s/n%d", path, i), levels-1)
			}
		}
	}
	below("", 4)
	for level := range 5 {
		for _, n := range depth {
			if strings.Count(n.path, "/") == level {
				breadth = append(breadth, n)
			}
		}
	}
	var trees []*Tree
	for _, nodes := range [][]bodyNode{depth, breadth} {
		l := NewLoader(extended)
		if _, done, err := l.Load(appendBody(nil, nil, nil, nodes)); !done || err != nil {
			t.Fatal(done, err)
		}
		tree := l.Tree(1)
		mustCheck(t, tree)
		trees = append(trees, tree)
	}
	if diff := firstDiff(dump(trees[0]), dump(trees[1])); diff != "" {
		t.Error(diff)
	}
}

// TestLoaderTwins: a znode that occurs twice is found wherever the second one is,
// and however many come after it or between them.
func TestLoaderTwins(t *testing.T) {
	for between := range 2 * indexBatch {
		for _, behind := range []int{0, 1, indexBatch} {
			nodes := []bodyNode{{path: ""}, {path: "/p"}, {path: "/p/a"}}
			for i := range between {
				nodes = append(nodes, bodyNode{path: fmt.Sprintf("/p/b%d", i)})
			}
			nodes = append(nodes, bodyNode{path: "/p/a"})
			for i := range behind {
				nodes = append(nodes, bodyNode{path: fmt.Sprintf("/c%d", i)})
			}
			_, _, err := NewLoader(extended).Load(appendBody(nil, nil, nil, nodes))
			if want := `"/p/a" occurs twice`; err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("%d znodes between, %d behind: %v", between, behind, err)
			}
		}
	}
}

// TestLoaderACLUses: the znodes of each ACL are counted, whatever their order.
func TestLoaderACLUses(t *testing.T) {
	nodes := []bodyNode{{path: "", acl: 3}}
	for i := range 10 {
		nodes = append(nodes, bodyNode{path: fmt.Sprintf("/a%d", i), acl: []int64{3, 9, -1, 9, 3}[i%5]})
	}
	l := NewLoader(extended)
	if _, done, err := l.Load(appendBody(nil, nil, []bodyACL{{3, zk.ReadACLUnsafe()}, {9, zk.CreatorAllACL()}}, nodes)); !done || err != nil {
		t.Fatal(done, err)
	}
	mustCheck(t, l.Tree(1))
}
