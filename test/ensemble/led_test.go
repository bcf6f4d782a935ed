package ensemble

import "slices"

// A ledChange is whose member led when a member joined, or when one left.
type ledChange struct{ apache, leaving bool }

// noteLeader notes who led a change. One that was made before change asked for it has no entry.
func (m *membership) noteLeader(leaving bool) {
	m.t.Helper()
	if m.asked == nil {
		return
	}
	m.t.Logf("the change was led by %v", m.asked)
	if m.led == nil {
		m.led = map[ledChange]int{}
	}
	m.led[ledChange{m.asked.Kind().IsApache(), leaving}]++
}

// programs are those of the members: Apache's or not.
func (m *membership) programs() (apache []bool) {
	for _, e := range m.e.Members {
		if is := e.Kind().IsApache(); !slices.Contains(apache, is) {
			apache = append(apache, is)
		}
	}
	return apache
}

// leadBy kills leaders, which come back, until one of Apache's leads, or one of Pinfold's.
func (m *membership) leadBy(apache bool) {
	m.t.Helper()
	const most = 12
	for range most {
		leader := m.leader()
		if leader.Kind().IsApache() == apache {
			return
		}
		m.step("kill -9 of the leader %v: another program is to lead", leader)
		leader.Kill()
		m.progress()
		m.must(leader.Start())
		m.await(leader.ID)
	}
	m.t.Fatalf("after the loss of %d leaders none leads with apache=%v", most, apache)
}

// ledByAll demands that each program has led when a member joined, and when one left.
func (m *membership) ledByAll() {
	m.t.Helper()
	m.t.Logf("changes, by who led: %v", m.led)
	for _, apache := range m.programs() {
		for _, leaving := range []bool{false, true} {
			if m.led[ledChange{apache, leaving}] == 0 {
				m.t.Errorf("no change with leaving=%v was led by a member with apache=%v", leaving, apache)
			}
		}
	}
}
