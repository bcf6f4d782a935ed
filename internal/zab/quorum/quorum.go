// Package quorum says which sets of voters are quorums: by majority, or by
// Apache's hierarchy of groups and weights (features page, section 7).
//
// Invariants, each with a test that carries its number:
//
//  1. Two quorums of one System have a voter with weight in common.
//  2. A set that contains a quorum is a quorum.
//  3. All voters together are a quorum, unless there are none.
//  4. A server without weight never makes or breaks a quorum.
//  5. A quorum of Both(a, b) has a voter in common with every quorum of a and with
//     every quorum of b.
//  6. The quorums of Beside(a, b) are those of a.
//  7. The quorums of Alone(s, id) are the sets with id, if s is a majority of two voters of which id
//     is one. Otherwise they are those of s.
//
// The package knows ids and numbers, and nothing of what servers do.
package quorum

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// A System says which sets of voters are quorums. It does not change: any
// number of goroutines may use it.
type System struct {
	voters  []int64    // ascending
	weights []int64    // of voters, in their order
	groups  []group    // those with weight, in the order of their ids; none if there are parts
	parts   [2]*System // of Both and Beside; nil otherwise
}

// group is the voters of a group that have weight. A majority system is one
// group in which each voter weighs 1.
//
// Invariant: total <= math.MaxInt64/2, so that twice a sum is a number too.
type group struct {
	voters []int // indexes into System.voters, ascending
	total  int64 // sum of their weights, not 0
}

// ErrNoWeight is the error of Weighted when no set of voters would be a quorum.
var ErrNoWeight = errors.New("quorum: no voter has weight")

// Majority returns the system whose quorums are the sets of more than half of
// the voters. An id given twice counts once. Without voters nothing is a quorum.
func Majority(voters ...int64) *System {
	s := &System{voters: slices.Clone(voters)}
	slices.Sort(s.voters)
	s.voters = slices.Compact(s.voters)
	for i := range s.voters {
		s.weights = append(s.weights, 1)
		s.join(0, i)
	}
	return s
}

// join adds voter i to group at, which it makes if it is the next.
func (s *System) join(at, i int) {
	if at == len(s.groups) {
		s.groups = append(s.groups, group{})
	}
	g := &s.groups[at]
	g.voters = append(g.voters, i)
	g.total += s.weights[i]
}

// Weighted returns Apache's hierarchical system. The voters are the servers in
// groups, by id; leave the observers out. A voter that weights does not name
// weighs 1, and a weight of a server in no group means nothing.
//
// A set is a quorum if it has a majority in more than half of the groups: more
// than half of the group's weight. A group whose weight is 0 does not count,
// neither for nor against. Half is of what there is: of two groups both are
// needed, of weight 4 a sum of 3.
//
// Errors: a negative weight, weights of a group that add up to more than
// math.MaxInt64/2, ErrNoWeight if every weight is 0 or there is no voter.
func Weighted(weights, groups map[int64]int64) (*System, error) {
	s := &System{voters: slices.Sorted(maps.Keys(groups))}
	for _, id := range s.voters {
		w, ok := weights[id]
		if !ok {
			w = 1
		}
		if w < 0 {
			return nil, fmt.Errorf("quorum: weight %d of server %d is negative", w, id)
		}
		s.weights = append(s.weights, w)
	}
	if err := s.assign(groups); err != nil {
		return nil, err
	}
	if len(s.groups) == 0 {
		return nil, ErrNoWeight
	}
	return s, nil
}

// assign puts the voters that have weight into their groups.
func (s *System) assign(groups map[int64]int64) error {
	at := make(map[int64]int) // group id -> index into s.groups
	for i, id := range s.voters {
		if s.weights[i] == 0 {
			continue
		}
		gid := groups[id]
		if _, ok := at[gid]; !ok {
			at[gid] = len(s.groups)
			s.groups = append(s.groups, group{})
		}
		if s.weights[i] > math.MaxInt64/2-s.groups[at[gid]].total {
			return fmt.Errorf("quorum: weights of group %d add up to too much", gid)
		}
		s.join(at[gid], i)
	}
	return nil
}

// Voters returns the ids of all voters, ascending. The caller must not change
// them.
func (s *System) Voters() []int64 { return s.voters }

// Index returns the place of id in Voters, false if it is no voter.
func (s *System) Index(id int64) (int, bool) { return slices.BinarySearch(s.voters, id) }

// Voter reports whether id is a voter, with weight or without.
func (s *System) Voter(id int64) bool {
	_, ok := s.Index(id)
	return ok
}

// Weight returns the weight of a voter, 1 in a majority system, and 0 for a
// server that is no voter. A server without weight is never elected.
func (s *System) Weight(id int64) int64 {
	i, ok := s.Index(id)
	if !ok {
		return 0
	}
	return s.weights[i]
}

// Counts reports whether the vote of id counts: unlike Weight, it is false for one that is a voter only
// of the second system of Beside.
func (s *System) Counts(id int64) bool {
	if s.parts[0] == nil {
		return s.Weight(id) > 0
	}
	return s.parts[0].Counts(id) || s.parts[1].Counts(id)
}

// Both returns the system whose quorums are the sets that are quorums of a and of b.
// It counts votes while one membership replaces another. A voter weighs what it
// weighs in the system where it weighs more.
func Both(a, b *System) *System { return join(a, b, [2]*System{a, b}) }

// Beside returns the system whose quorums are those of a, and whose voters are also those of
// b: of these, the ones that are no voters of a can be elected, and do not count. A voter weighs as
// in Both.
func Beside(a, b *System) *System { return join(a, b, [2]*System{a, a}) }

// Alone returns the system that counts while the voter id may go on without the other one: of two
// voters it suffices. Any other system stays as it is; so does, of Both and Beside, any other part.
func Alone(s *System, id int64) *System {
	if s.parts[0] != nil {
		return &System{voters: s.voters, weights: s.weights, parts: [2]*System{Alone(s.parts[0], id), Alone(s.parts[1], id)}}
	}
	i, ok := s.Index(id)
	if !ok || len(s.voters) != 2 || len(s.groups) != 1 || s.weights[0] != s.weights[1] {
		return s
	}
	return &System{voters: s.voters, weights: s.weights, groups: []group{{voters: []int{i}, total: s.weights[i]}}}
}

// join returns a system with the voters of two, and its parts.
func join(a, b *System, parts [2]*System) *System {
	s := &System{voters: slices.Concat(a.voters, b.voters), parts: parts}
	slices.Sort(s.voters)
	s.voters = slices.Compact(s.voters)
	for _, id := range s.voters {
		s.weights = append(s.weights, max(a.Weight(id), b.Weight(id)))
	}
	return s
}

// Quorum reports whether the voters for which has returns true are a quorum. It
// asks once for each voter with weight (twice in a system of Both) and does not
// allocate.
func (s *System) Quorum(has func(id int64) bool) bool {
	return s.Reached(func(id int64) int64 {
		if has(id) {
			return 1
		}
		return 0
	}) == 1
}

// QuorumOfEither is Quorum but in a system of Both, where a quorum of one of the two
// systems is enough. Such a set need not have a voter in common with another one.
func (s *System) QuorumOfEither(has func(id int64) bool) bool {
	if s.parts[0] == nil {
		return s.Quorum(has)
	}
	return s.parts[0].QuorumOfEither(has) || s.parts[1].QuorumOfEither(has)
}

// Reached returns the greatest number that a quorum has reached: how is how far a
// voter has come, and the voters for which it is the result or more are a quorum.
// Without voters the result is math.MinInt64. Reached calls how once for each voter
// with weight (twice in a system of Both). It does not allocate for up to 64 voters in
// up to 7 groups.
func (s *System) Reached(how func(id int64) int64) int64 {
	if s.parts[0] != nil {
		return min(s.parts[0].Reached(how), s.parts[1].Reached(how))
	}
	if len(s.groups) == 1 {
		return s.groups[0].reached(s, how)
	}
	var buf [few]share
	groups := buf[:0]
	for i := range s.groups {
		groups = insert(groups, share{s.groups[i].reached(s, how), 1})
	}
	return most(groups, int64(len(s.groups)))
}

// reached is Reached within a group.
func (g *group) reached(s *System, how func(id int64) int64) int64 {
	if len(g.voters) > few {
		var buf [many]share
		return g.most(s, how, buf[:0])
	}
	var buf [few]share
	return g.most(s, how, buf[:0])
}

// most is reached with room for the shares.
func (g *group) most(s *System, how func(id int64) int64, shares []share) int64 {
	for _, v := range g.voters {
		shares = insert(shares, share{how(s.voters[v]), s.weights[v]})
	}
	return most(shares, g.total)
}

// share is how far a voter or a group has come, and what it weighs.
type share struct{ reached, weight int64 }

// So many shares need no allocation. Room for few is cleared faster.
const few, many = 7, 64

// insert puts one share into a list in descending order.
func insert(list []share, s share) []share {
	list = append(list, s)
	i := len(list) - 1
	for ; i > 0 && list[i-1].reached < s.reached; i-- {
		list[i] = list[i-1]
	}
	list[i] = s
	return list
}

// most returns the greatest number that shares of more than half of the total weight
// have reached.
func most(list []share, total int64) int64 {
	sum := int64(0)
	for _, s := range list {
		sum += s.weight
		if 2*sum > total {
			return s.reached
		}
	}
	return math.MinInt64
}
