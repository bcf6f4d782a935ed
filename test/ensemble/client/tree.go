package client

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Node is all that a client can know of a znode.
type Node struct {
	Data  string
	Null  bool // the data is null, not empty
	ACL   string
	Stat  zk.Stat
	Names string // of the children, sorted
}

// A Tree is the znodes by path.
type Tree map[string]Node

// treeBatch is how many znodes are asked for at once.
const treeBatch = 100

// ReadTree syncs and reads every znode of one server, as the session sees it.
// Nobody must write meanwhile.
func (s *Session) ReadTree() (Tree, error) {
	replies, err := s.Do(Sync("/"))
	if err != nil {
		return nil, err
	}
	if replies[0].Code != zk.OK {
		return nil, fmt.Errorf("client: sync: %w", replies[0].Code)
	}
	t := Tree{}
	todo := []string{"/"}
	for len(todo) > 0 {
		batch := todo[:min(len(todo), treeBatch)]
		todo = todo[len(batch):]
		below, err := s.readNodes(t, batch)
		if err != nil {
			return nil, err
		}
		todo = append(todo, below...)
	}
	return t, nil
}

// readNodes adds the znodes to t and returns the paths of their children.
func (s *Session) readNodes(t Tree, paths []string) (below []string, err error) {
	var reqs []Request
	for _, p := range paths {
		reqs = append(reqs, Get(p), GetACL(p), Children(p))
	}
	replies, err := s.Do(reqs...)
	if err != nil {
		return nil, err
	}
	for i, p := range paths {
		r := replies[3*i : 3*i+3]
		for _, one := range r {
			if one.Code != zk.OK {
				return nil, fmt.Errorf("client: read %s: %w", p, one.Code)
			}
		}
		data, st, err := r[0].Data()
		if err != nil {
			return nil, fmt.Errorf("client: read %s: %w", p, err)
		}
		d := jute.NewDecoder(r[1].Body)
		acl := fmt.Sprint(wire.DecodeACL(&d))
		names, again, err := r[2].Names()
		if err != nil || d.Err() != nil || again != st {
			return nil, fmt.Errorf("client: read %s: two Stats, %+v and %+v: %v %v", p, st, again, err, d.Err())
		}
		slices.Sort(names)
		t[p] = Node{Data: string(data), Null: data == nil, ACL: acl, Stat: st, Names: strings.Join(names, " ")}
		for _, n := range names {
			below = append(below, strings.TrimSuffix(p, "/")+"/"+strings.Clone(n))
		}
	}
	return below, nil
}

// maxDifferences bounds a report.
const maxDifferences = 20

// Differences compares two trees znode by znode, Stats included; "" if they are
// equal. a and b name them in the report. Paths for which skip holds are not
// looked at.
func (t Tree) Differences(other Tree, a, b string, skip func(path string) bool) string {
	all := map[string]bool{}
	for p := range t {
		all[p] = true
	}
	for p := range other {
		all[p] = true
	}
	var out []string
	for _, p := range slices.Sorted(maps.Keys(all)) {
		x, inA := t[p]
		y, inB := other[p]
		switch {
		case skip != nil && skip(p):
		case !inA:
			out = append(out, fmt.Sprintf("%s: not in %s, in %s %.200s", p, a, b, fmt.Sprintf("%+v", y)))
		case !inB:
			out = append(out, fmt.Sprintf("%s: not in %s, in %s %.200s", p, b, a, fmt.Sprintf("%+v", x)))
		case x != y:
			out = append(out, fmt.Sprintf("%s:\n  in %s %.300s\n  in %s %.300s", p, a, fmt.Sprintf("%+v", x), b, fmt.Sprintf("%+v", y)))
		}
	}
	if len(out) > maxDifferences {
		out = append(out[:maxDifferences], fmt.Sprintf("… and %d more", len(out)-maxDifferences))
	}
	return strings.Join(out, "\n")
}
