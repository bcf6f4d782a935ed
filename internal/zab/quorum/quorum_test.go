package quorum

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func set(ids ...int64) *Set {
	s := &Set{}
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

func mustWeighted(t *testing.T, weights, groups map[int64]int64) *System {
	t.Helper()
	s, err := Weighted(weights, groups)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMajority(t *testing.T) {
	for _, c := range []struct {
		voters []int64
		set    []int64
		want   bool
	}{
		{nil, nil, false},
		{nil, []int64{1}, false},
		{[]int64{1}, nil, false},
		{[]int64{1}, []int64{1}, true},
		{[]int64{1, 2}, []int64{1}, false},
		{[]int64{1, 2}, []int64{1, 2}, true},
		{[]int64{3, 1, 2}, []int64{1}, false},
		{[]int64{3, 1, 2}, []int64{1, 3}, true},
		{[]int64{3, 1, 2}, []int64{1, 4}, false}, // 4 is no voter
		{[]int64{1, 2, 3, 4}, []int64{1, 2}, false},
		{[]int64{1, 2, 3, 4}, []int64{2, 3, 4}, true},
		{[]int64{1, 1, 1, 2, 3}, []int64{1}, false}, // given thrice, counts once
		{[]int64{-5, 1, 2}, []int64{-5, 2}, true},
	} {
		if got := Majority(c.voters...).Quorum(set(c.set...).Has); got != c.want {
			t.Errorf("Majority(%v).Quorum(%v) = %v", c.voters, c.set, got)
		}
	}
}

func TestVotersAndWeights(t *testing.T) {
	given := []int64{3, 1, 2}
	s := Majority(given...)
	if got := s.Voters(); !slices.Equal(got, []int64{1, 2, 3}) || given[0] != 3 {
		t.Errorf("Voters() = %v, the argument is %v", got, given)
	}
	if i, ok := s.Index(3); i != 2 || !ok {
		t.Errorf("Index(3) = %d, %v", i, ok)
	}
	if !s.Voter(2) || s.Voter(4) || s.Voter(math.MinInt64) {
		t.Error("Voter is wrong")
	}
	if s.Weight(2) != 1 || s.Weight(4) != 0 {
		t.Errorf("weights are %d, %d", s.Weight(2), s.Weight(4))
	}
	w := mustWeighted(t, map[int64]int64{1: 0, 2: 7, 9: 9}, map[int64]int64{1: 1, 2: 1, 3: 2})
	for id, want := range map[int64]int64{1: 0, 2: 7, 3: 1, 9: 0} {
		if got := w.Weight(id); got != want {
			t.Errorf("Weight(%d) = %d, want %d", id, got, want)
		}
	}
	if !w.Voter(1) || w.Voter(9) {
		t.Error("a voter is who is in a group")
	}
}

// The cases of Apache's documentation and the corners of its rule.
func TestWeighted(t *testing.T) {
	nine := map[int64]int64{1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 3, 8: 3, 9: 3}
	for _, c := range []struct {
		name            string
		weights, groups map[int64]int64
		set             []int64
		want            bool
	}{
		{"two of three in two of three groups", nil, nine, []int64{1, 2, 4, 5}, true},
		{"five servers, one majority only", nil, nine, []int64{1, 2, 3, 4, 7}, false},
		{"one group alone", nil, nine, []int64{1, 2, 3}, false},
		{"a zero group does not count against", map[int64]int64{7: 0, 8: 0, 9: 0}, nine, []int64{1, 2, 4, 5}, true},
		{"of the two groups left one is not enough", map[int64]int64{7: 0, 8: 0, 9: 0}, nine, []int64{1, 2, 3, 7, 8, 9}, false},
		{"only one group has weight", map[int64]int64{4: 0, 5: 0, 6: 0, 7: 0, 8: 0, 9: 0}, nine, []int64{2, 3}, true},
		{"half of a group's weight is not a majority", map[int64]int64{1: 2}, map[int64]int64{1: 1, 2: 1, 3: 1}, []int64{2, 3}, false},
		{"more than half of it is", map[int64]int64{1: 2}, map[int64]int64{1: 1, 2: 1, 3: 1}, []int64{1, 3}, true},
		{"weight decides, not numbers", map[int64]int64{1: 5}, map[int64]int64{1: 1, 2: 1, 3: 1}, []int64{1}, true},
		{"half of the groups is not a majority", nil, map[int64]int64{1: 1, 2: 2}, []int64{1}, false},
		{"both groups", nil, map[int64]int64{1: 1, 2: 2}, []int64{1, 2}, true},
		{"odd weight, rounded down by Apache", map[int64]int64{1: 3, 2: 4}, map[int64]int64{1: 1, 2: 1}, []int64{1}, false},
		{"odd weight, more than half", map[int64]int64{1: 3, 2: 4}, map[int64]int64{1: 1, 2: 1}, []int64{2}, true},
		{"who is in no group does not count", map[int64]int64{4: 100}, map[int64]int64{1: 1, 2: 1, 3: 1}, []int64{1, 4}, false},
		{"nobody", nil, nine, nil, false},
	} {
		s := mustWeighted(t, c.weights, c.groups)
		if got := s.Quorum(set(c.set...).Has); got != c.want {
			t.Errorf("%s: Quorum(%v) = %v", c.name, c.set, got)
		}
	}
}

func TestWeightedRefuses(t *testing.T) {
	for _, c := range []struct {
		weights, groups map[int64]int64
		want            string
	}{
		{nil, nil, "no voter has weight"},
		{map[int64]int64{1: 0}, map[int64]int64{1: 1}, "no voter has weight"},
		{map[int64]int64{1: -1}, map[int64]int64{1: 1, 2: 1}, "weight -1 of server 1 is negative"},
		{map[int64]int64{1: math.MaxInt64/2 + 1}, map[int64]int64{1: 1}, "group 1 add up"},
		{map[int64]int64{1: math.MaxInt64 / 2}, map[int64]int64{1: 8, 2: 8}, "group 8 add up"},
	} {
		_, err := Weighted(c.weights, c.groups)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Weighted(%v, %v) = %v, want %q", c.weights, c.groups, err, c.want)
		}
		if noWeight := c.want == "no voter has weight"; errors.Is(err, ErrNoWeight) != noWeight {
			t.Errorf("Is(%v, ErrNoWeight) = %v", err, !noWeight)
		}
	}
	if s := mustWeighted(t, map[int64]int64{1: math.MaxInt64/2 - 1}, map[int64]int64{1: 1, 2: 1}); !s.Quorum(set(1).Has) || s.Quorum(set(2).Has) {
		t.Error("large weights are added up wrongly")
	}
}

// naive is the rule as it is told, on maps.
func naive(weights, groups map[int64]int64, has func(int64) bool) bool {
	all, got := map[int64]int64{}, map[int64]int64{}
	for id, g := range groups {
		all[g] += weights[id]
		if has(id) {
			got[g] += weights[id]
		}
	}
	counted, won := 0, 0
	for g, w := range all {
		if w == 0 {
			continue
		}
		counted++
		if got[g] > w/2 {
			won++
		}
	}
	return won > counted/2
}

func randomSystem(rng *rand.Rand) (weights, groups map[int64]int64) {
	weights, groups = map[int64]int64{}, map[int64]int64{}
	for id := range int64(1 + rng.IntN(6)) {
		weights[id] = rng.Int64N(4)
		groups[id] = rng.Int64N(3)
	}
	return weights, groups
}

func subset(mask int64) func(int64) bool {
	return func(id int64) bool { return mask>>id&1 == 1 }
}

// Every set of voters of random systems, against the naive rule, and
// invariants 1 to 4.
func TestRandomSystems(t *testing.T) {
	for seed := range uint64(300) {
		weights, groups := randomSystem(rand.New(rand.NewPCG(seed, 1)))
		s, err := Weighted(weights, groups)
		if err != nil {
			if naive(weights, groups, func(int64) bool { return true }) {
				t.Fatalf("seed=%d: %v", seed, err)
			}
			continue
		}
		var quorums []int64
		n := len(groups)
		for mask := range int64(1) << n {
			q := s.Quorum(subset(mask))
			if want := naive(weights, groups, subset(mask)); q != want {
				t.Fatalf("seed=%d %v %v: set %b is a quorum: %v", seed, weights, groups, mask, q)
			}
			if q {
				quorums = append(quorums, mask)
			}
		}
		checkInvariants(t, seed, s, quorums)
	}
}

func checkInvariants(t *testing.T, seed uint64, s *System, quorums []int64) {
	t.Helper()
	all, weighted := int64(1)<<len(s.Voters())-1, int64(0)
	for _, id := range s.Voters() {
		if s.Weight(id) > 0 {
			weighted |= 1 << id
		}
	}
	if !slices.Contains(quorums, all) {
		t.Fatalf("seed=%d: invariant 3: all voters are no quorum", seed)
	}
	for _, a := range quorums {
		if !s.Quorum(subset(a & weighted)) {
			t.Fatalf("seed=%d: invariant 4: %b needs servers without weight", seed, a)
		}
		for more := range all + 1 {
			if !s.Quorum(subset(a | more)) {
				t.Fatalf("seed=%d: invariant 2: %b holds the quorum %b", seed, a|more, a)
			}
		}
		for _, b := range quorums {
			if a&b&weighted == 0 {
				t.Fatalf("seed=%d: invariant 1: %b and %b have nobody in common", seed, a, b)
			}
		}
	}
}

// What a quorum has reached, against the rule that defines it.
func TestReached(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		weights, groups := randomSystem(rng)
		s, err := Weighted(weights, groups)
		if err != nil {
			continue
		}
		how := map[int64]int64{}
		for _, id := range s.Voters() {
			how[id] = rng.Int64N(5) - 1
		}
		got := s.Reached(func(id int64) int64 { return how[id] })
		if !s.Quorum(func(id int64) bool { return how[id] >= got }) {
			t.Fatalf("seed=%d %v %v: no quorum of %v has reached %d", seed, weights, groups, how, got)
		}
		if naive(weights, groups, func(id int64) bool { return how[id] > got }) {
			t.Fatalf("seed=%d %v %v: a quorum of %v has reached more than %d", seed, weights, groups, how, got)
		}
	}
	if got := Majority().Reached(nil); got != math.MinInt64 {
		t.Errorf("nobody has reached %d", got)
	}
}

// A quorum of Both is one of each system, and by that invariant 5 holds; the voters
// are those of both.
func TestBoth(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		aw, ag := randomSystem(rng)
		bw, bg := randomSystem(rng)
		a, errA := Weighted(aw, ag)
		b, errB := Weighted(bw, bg)
		if errA != nil || errB != nil {
			continue
		}
		s := Both(a, b)
		n := max(len(ag), len(bg))
		for mask := range int64(1) << n {
			if got, want := s.Quorum(subset(mask)), a.Quorum(subset(mask)) && b.Quorum(subset(mask)); got != want {
				t.Fatalf("seed=%d: set %b is a quorum of both: %v", seed, mask, got)
			}
			if got, want := s.QuorumOfEither(subset(mask)), a.Quorum(subset(mask)) || b.Quorum(subset(mask)); got != want {
				t.Fatalf("seed=%d: set %b is a quorum of one: %v", seed, mask, got)
			}
			if a.QuorumOfEither(subset(mask)) != a.Quorum(subset(mask)) {
				t.Fatalf("seed=%d: set %b is a quorum of a: %v", seed, mask, a.Quorum(subset(mask)))
			}
		}
		beside := Beside(s, b) // invariant 6
		for mask := range int64(1) << n {
			if beside.Quorum(subset(mask)) != s.Quorum(subset(mask)) || beside.QuorumOfEither(subset(mask)) != s.QuorumOfEither(subset(mask)) {
				t.Fatalf("seed=%d: set %b counts otherwise beside another system", seed, mask)
			}
		}
		beside = Beside(a, b)
		for id := range int64(n) {
			for _, of := range [...]*System{s, beside} {
				if of.Voter(id) != (a.Voter(id) || b.Voter(id)) || of.Weight(id) != max(a.Weight(id), b.Weight(id)) {
					t.Fatalf("seed=%d: voter %d: %v, weight %d", seed, id, of.Voter(id), of.Weight(id))
				}
			}
			if beside.Counts(id) != (a.Weight(id) > 0) || s.Counts(id) != (s.Weight(id) > 0) {
				t.Fatalf("seed=%d: voter %d counts: %v, %v", seed, id, beside.Counts(id), s.Counts(id))
			}
			if one := func(v int64) bool { return v == id }; beside.Quorum(one) != a.Quorum(one) {
				t.Fatalf("seed=%d: voter %d alone is a quorum of a: %v", seed, id, a.Quorum(one))
			}
		}
	}
	s := Both(Majority(1, 2, 3), Majority(3, 4, 5))
	if !slices.Equal(s.Voters(), []int64{1, 2, 3, 4, 5}) || !s.Quorum(set(1, 3, 5).Has) || s.Quorum(set(1, 2, 3).Has) || s.Quorum(set(3, 4, 5).Has) {
		t.Errorf("both of {1 2 3} and {3 4 5}: voters %v", s.Voters())
	}
}

func TestQuorumDoesNotAllocate(t *testing.T) {
	s := mustWeighted(t, nil, map[int64]int64{1: 1, 2: 1, 3: 2, 4: 2, 5: 3})
	acks := set(1, 2, 3, 4)
	both := Both(s, Majority(1, 2, 3))
	if n := testing.AllocsPerRun(100, func() {
		if !s.Quorum(acks.Has) || !both.Quorum(acks.Has) {
			t.Error("no quorum")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestQuorumAsksOnce(t *testing.T) {
	asked := map[int64]int{}
	s := mustWeighted(t, map[int64]int64{2: 0}, map[int64]int64{1: 1, 2: 1, 3: 2})
	s.Quorum(func(id int64) bool { asked[id]++; return true })
	if want := map[int64]int{1: 1, 3: 1}; !maps.Equal(asked, want) {
		t.Errorf("asked %v", asked)
	}
}

func TestSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s Set
	model := map[int64]bool{}
	for range 2000 {
		id := rng.Int64N(20) - 10
		switch rng.IntN(40) {
		case 0:
			s.Clear()
			clear(model)
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
			if got := s.Remove(id); got != model[id] {
				t.Fatalf("Remove(%d) = %v", id, got)
			}
			delete(model, id)
		default:
			if got := s.Add(id); got == model[id] {
				t.Fatalf("Add(%d) = %v", id, got)
			}
			model[id] = true
		}
		if want := slices.Sorted(maps.Keys(model)); !slices.Equal(s.IDs(), want) || s.Len() != len(want) {
			t.Fatalf("IDs() = %v, want %v", s.IDs(), want)
		}
		if s.Has(id) != model[id] {
			t.Fatalf("Has(%d) = %v", id, s.Has(id))
		}
	}
}

// Invariant 7: of a majority of two Alone needs one; every other system stays as it is.
func TestInvariant7Alone(t *testing.T) {
	two, three := Majority(1, 2), Majority(1, 2, 3)
	for _, c := range []struct {
		what string
		s    *System
		set  []int64
		want bool
	}{
		{"it suffices", Alone(two, 2), []int64{2}, true},
		{"the other one does not", Alone(two, 2), []int64{1}, false},
		{"both", Alone(two, 2), []int64{1, 2}, true},
		{"no voter", Alone(two, 3), []int64{3}, false},
		{"no voter changes nothing", Alone(two, 3), []int64{1}, false},
		{"three voters", Alone(three, 2), []int64{2}, false},
		{"weights", Alone(mustWeighted(t, map[int64]int64{2: 2}, map[int64]int64{1: 1, 2: 1}), 1), []int64{1}, false},
		{"groups", Alone(mustWeighted(t, nil, map[int64]int64{1: 1, 2: 2}), 1), []int64{1}, false},
		{"two of Both with three", Alone(Both(two, three), 2), []int64{2}, false},
		{"two of Both with three, and another", Alone(Both(two, three), 2), []int64{2, 3}, true},
	} {
		if got := c.s.Quorum(set(c.set...).Has); got != c.want {
			t.Errorf("%s: Quorum(%v) = %v", c.what, c.set, got)
		}
	}
	if a := Alone(two, 2); a.Weight(1) != 1 || !slices.Equal(a.Voters(), two.Voters()) {
		t.Errorf("the other voter weighs %d, voters are %v", a.Weight(1), a.Voters())
	}
}
