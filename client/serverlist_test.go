package client

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var balanceSeed = flag.Uint64("balance-seed", 1, "the seed of TestLoadStaysEven")

// hostNames returns n names, from the given number on.
func hostNames(from, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("h%d:2181", from+i))
	}
	return all
}

// A fleet is clients that use one list of servers.
type fleet struct {
	clients []*serverList
	at      []string
	moved   int // connections that the last change has ended
}

func newFleet(n int, members []string, r *rand.Rand) *fleet {
	f := &fleet{at: make([]string, n)}
	for i := range n {
		s := newServerList(members, names{})
		s.draw = r.Float64
		s.members = slices.Clone(members)
		r.Shuffle(len(members), func(a, b int) { s.members[a], s.members[b] = s.members[b], s.members[a] })
		f.clients = append(f.clients, s)
		f.connect(i)
	}
	return f
}

func (f *fleet) connect(i int) {
	f.at[i] = f.clients[i].pick()
	f.clients[i].connected(f.at[i])
}

// change gives all clients another list; those that leave connect to the next server.
func (f *fleet) change(members []string) {
	f.moved = 0
	for i, s := range f.clients {
		if s.update(members, nil) {
			f.moved++
			f.connect(i)
		}
	}
}

// uneven returns by how many standard deviations a server's load differs from the mean
// at most. The load is binomial if every client is at each server with equal probability.
func (f *fleet) uneven(members []string) float64 {
	load := map[string]int{}
	for _, at := range f.at {
		load[at]++
	}
	n, p := float64(len(f.at)), 1/float64(len(members))
	worst := 0.0
	for _, m := range members {
		worst = max(worst, math.Abs(float64(load[m])-n*p)/math.Sqrt(n*p*(1-p)+1e-9))
		delete(load, m)
	}
	if len(load) > 0 {
		return math.Inf(1) // a client is at a server that is not listed
	}
	return worst
}

// After any changes of the list the load of the servers is even, and no more clients have
// moved than must. It is the property for which Apache's probabilities were chosen.
func TestLoadStaysEven(t *testing.T) {
	const clients, changes, sigmas = 5000, 60, 6
	r := rand.New(rand.NewPCG(*balanceSeed, 0))
	list := hostNames(0, 3)
	f := newFleet(clients, list, r)
	next := len(list)
	for i := range changes {
		before := list
		keep := slices.Clone(list)
		r.Shuffle(len(keep), func(a, b int) { keep[a], keep[b] = keep[b], keep[a] })
		keep = keep[:r.IntN(len(keep)+1)]
		added := hostNames(next, r.IntN(5))
		next += len(added)
		if list = append(keep, added...); len(list) == 0 {
			list = before
		}
		f.change(list)
		if worst := f.uneven(list); worst > sigmas {
			t.Fatalf("seed %d, change %d, from %v to %v: a load differs from the mean by %.1f standard deviations",
				*balanceSeed, i, before, list, worst)
		}
		must := mustMove(before, list)
		if most := must*clients + sigmas*math.Sqrt(clients*must*(1-must)+1e-9); float64(f.moved) > most {
			t.Errorf("seed %d, change %d, from %v to %v: %d clients move, of %d; want %.0f",
				*balanceSeed, i, before, list, f.moved, clients, must*clients)
		}
	}
}

// mustMove returns the least part of the clients that has to move for an even load: what
// the servers that stay have too much, and those of the servers that go.
func mustMove(from, to []string) (part float64) {
	for _, m := range from {
		have, want := 1/float64(len(from)), 0.0
		if slices.Contains(to, m) {
			want = 1 / float64(len(to))
		}
		part += max(0, have-want)
	}
	return part
}

// A client that moves tries each server once, the new ones first if the list has grown,
// and then goes around the list.
func TestMovingClientTriesAll(t *testing.T) {
	s := newServerList(hostNames(0, 2), names{})
	s.draw = func() float64 { return 0 } // always: leave, new ones first
	s.connected("h0:2181")
	if !s.update(hostNames(0, 5), nil) {
		t.Fatal("the client stays")
	}
	var tried []string
	for range 5 {
		tried = append(tried, s.pick())
	}
	slices.Sort(tried[:3])
	slices.Sort(tried[3:])
	if want := append(hostNames(2, 3), hostNames(0, 2)...); !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
	for range 5 {
		tried = append(tried, s.pick())
	}
	slices.Sort(tried[5:])
	if !slices.Equal(tried[5:], hostNames(0, 5)) {
		t.Errorf("in the next round %v", tried[5:])
	}
}

// When all members have failed, those of the connect string are tried, then all again.
func TestSpareMembersComeLast(t *testing.T) {
	s := newServerList([]string{"home:1"}, names{})
	s.keepSpare()
	s.connected("home:1")
	if !s.update(hostNames(0, 2), nil) {
		t.Fatal("the client stays at a server that is not listed, though the list has grown")
	}
	var tried []string
	for range 5 {
		tried = append(tried, s.pick())
	}
	if tried[4] != "home:1" || slices.Contains(tried[:4], "home:1") {
		t.Errorf("tried %v", tried)
	}
	if !s.connected("home:1") {
		t.Error("a member of the connect string is not accepted")
	}
	if s.update(hostNames(0, 2), nil); s.addedFirst != 0 {
		t.Errorf("at a spare server: new ones first with probability %v", s.addedFirst)
	}
}
