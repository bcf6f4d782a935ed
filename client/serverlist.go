package client

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
)

// A serverList is the members of a connect string, in random order, round by round. Its
// members can be replaced while the Client runs; update decides then whether the Client
// stays at its member.
//
// The rule is that of Apache's StaticHostProvider.updateServerList (ZOOKEEPER-1355). All
// clients follow it independently; if their load was even before, it is expected to be
// even after, and no more of them move than that takes. S is the length of the old list,
// old is how many of the new list were in it, new how many were not:
//
//   - old + new > S, and the client's member is listed: with the probability
//     1 - S/(old+new) the client leaves it, for one of the new members; else it stays.
//   - old + new > S, and the member is not listed: to one of the new members.
//   - old + new <= S, and the member is listed: the client stays.
//   - old + new <= S, and the member is not listed: to one of the old members with the
//     probability old*(S-(old+new)) / ((old+new)*(S-old)), else to a new one.
//
// A client that moves draws before each attempt whether a new or an old member is next,
// and tries each one once. After that, or after a connection, it goes around the list.
type serverList struct {
	resolver Resolver
	draw     func() float64 // at random, from 0 to below 1

	mu      sync.Mutex // guards what follows; may be acquired while the Client's mu is held
	members []string   // host:port
	spare   []string   // tried when all members have failed
	next    int        // of members, then of spare
	last    string     // the member of the last connection; "" before the first

	moving     bool     // the client moves: added and kept come before members
	added      []string // members that the list before did not have, and that were not tried
	kept       []string // members that it had
	addedFirst float64  // the probability that one of added is next
}

func newServerList(members []string, r Resolver) *serverList {
	return &serverList{resolver: r, draw: rand.Float64, members: inRandomOrder(members)}
}

// inRandomOrder returns a copy without what is there twice.
func inRandomOrder(members []string) []string {
	members = slices.Clone(members)
	slices.Sort(members)
	members = slices.Compact(members)
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// Len is the number of members.
func (s *serverList) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// Next returns the member to try next, at any of its addresses.
func (s *serverList) Next(ctx context.Context) (Host, error) {
	s.mu.Lock()
	member := s.pick()
	s.mu.Unlock()
	return lookUp(ctx, s.resolver, member)
}

// pick returns the member to try next; s.mu is held.
func (s *serverList) pick() string {
	if s.moving {
		if member, ok := s.pickMoving(); ok {
			return member
		}
		s.moving = false
	}
	i := s.next
	s.next = (s.next + 1) % (len(s.members) + len(s.spare))
	if i < len(s.members) {
		return s.members[i]
	}
	return s.spare[i-len(s.members)]
}

// pickMoving draws one of the members that a moving client has not tried; s.mu is held.
func (s *serverList) pickMoving() (member string, ok bool) {
	from := &s.kept
	if len(s.kept) == 0 || len(s.added) > 0 && s.draw() < s.addedFirst {
		from = &s.added
	}
	if len(*from) == 0 {
		return "", false
	}
	member, *from = (*from)[0], (*from)[1:]
	return member, true
}

// connected notes the member that accepted the session, and reports whether it is still
// listed. The next one to try is the member after it.
func (s *serverList) connected(member string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.moving, s.next = member, false, 0
	if i := slices.Index(s.members, member); i >= 0 {
		s.members = slices.Concat(s.members[i+1:], s.members[:i+1])
		return true
	}
	return slices.Contains(s.spare, member)
}

// keepSpare makes the present members those that are tried when all others have failed.
func (s *serverList) keepSpare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = slices.Clone(s.members)
}

// adopt is update with the first list that the ensemble itself gives: a client whose
// member is in it stays, whatever its connect string has left out.
func (s *serverList) adopt(members []string, at func(member string) bool) (leave bool) {
	s.mu.Lock()
	s.members = append(s.members, members...) // nothing is new
	s.mu.Unlock()
	return s.update(members, at)
}

// update replaces the members and reports whether the client leaves the one that it is
// connected to. at reports whether a member is that one by another name; nil: none is.
func (s *serverList) update(members []string, at func(member string) bool) (leave bool) {
	members = inRandomOrder(members)
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.last
	if s.moving || mine == "" {
		mine = s.pick() // not connected yet: the member that it would have gone to
	}
	here := slices.IndexFunc(members, func(m string) bool { return m == mine || at != nil && at(m) })
	isNew := func(m string) bool { return !slices.Contains(s.members, m) }
	s.added = slices.DeleteFunc(slices.Clone(members), func(m string) bool { return !isNew(m) })
	s.kept = slices.DeleteFunc(slices.Clone(members), isNew)
	size, old, all := float64(len(s.members)), float64(len(s.kept)), float64(len(members))
	switch listed := here >= 0; {
	case all > size && listed:
		s.moving, s.addedFirst = s.draw() < 1-size/all, 1
	case all > size:
		s.moving, s.addedFirst = true, 1
	case listed:
		s.moving = false
	case old == size: // the client is at a spare one, which counts for none of the list
		s.moving, s.addedFirst = true, 0
	default:
		s.moving, s.addedFirst = true, 1-old*(size-all)/(all*(size-old))
	}
	s.members, s.next = members, 0
	if !s.moving {
		s.rename(here)
	}
	return s.moving
}

// rename makes members[here] the member that the client is at, or, if it was never
// connected, the one to try first; s.mu is held.
func (s *serverList) rename(here int) {
	if s.last != "" {
		s.last = s.members[here]
		here++
	}
	s.members = slices.Concat(s.members[here:], s.members[:here])
}
