package sim

// scheduleHandOver queues the next time that the leader is asked to hand over, by an
// operator that restarts members in turn, or by a command.
func (s *Sim) scheduleHandOver() {
	every := s.profile.handOvers
	if every == 0 {
		return
	}
	s.after(s.between(every/10, 2*every), func() {
		if !s.faulting {
			return
		}
		if l := s.leader(); l != nil && l.paused <= s.now {
			l.handOver()
		}
		s.scheduleHandOver()
	})
}

// handOver asks the member to hand over. In half of the cases its process then ends, and
// is started again.
func (m *member) handOver() {
	s, life := m.s, m.life
	lives := make([]int, len(s.members))
	for _, o := range s.members[1:] {
		lives[o.id] = o.life
	}
	restarts := s.chance(0.5)
	s.say(m.who, "is asked to hand over")
	s.trace.note(9, uint64(m.id), uint64(s.now))
	s.cover.HandOversAsked++
	m.rep.HandOver(func(err error) {
		s.say(m.who, "has handed over: %v", err)
		if err != nil {
			return
		}
		s.cover.HandOvers++
		s.check.handedOver(m, lives)
		if !restarts {
			return
		}
		s.after(0, func() {
			if m.life == life {
				m.stop(false)
				s.after(s.between(0, s.profile.down), m.start)
			}
		})
	})
}

// handedOver checks a member that has handed the leadership over: all that it has proposed
// is delivered, by it and by a quorum of the others. Of a member that was not there all
// the time, since lives, or has lost its history since, nothing is known.
func (c *checker) handedOver(m *member, lives []int) {
	h := &m.shadow
	if h.delivered < len(h.log) {
		c.s.fail("HandOver", "member %d hands over, and %v is not committed", m.id, h.log[h.delivered].z)
	}
	if !c.s.holds(func(id int) bool {
		o := c.s.members[id]
		return o != m && (o.life != lives[id] || o.damaged || o.shadow.delivered >= h.delivered)
	}) {
		c.s.fail("HandOver", "member %d hands over, and no quorum of the others has delivered %v", m.id, h.last())
	}
}
