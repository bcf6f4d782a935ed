package migrate

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Sessions is the comparison of the members' sessions, with ephemeral znodes or without.
type Sessions struct {
	Asked     []int64           `json:"members"`  // that have shown their sessions
	Compared  int               `json:"compared"` // sessions of which all of these have shown the same
	Timeouts  int               `json:"timeouts"` // of them those whose timeouts two members or more have shown
	Ended     int               `json:"ended"`    // meanwhile: not compared
	Undecided []string          `json:"undecided"`
	Differ    []string          `json:"differences"`
	Errors    map[string]string `json:"errors,omitempty"` // of members that have not shown them, by id
}

const (
	// sessionRounds is how often the members are asked for their sessions while some are not
	// decided.
	sessionRounds = 20
	// missedRounds is in how many rounds, without an exception, one member must show a session
	// and another not until they differ. Between the first and the last, each time that the
	// second did not show it is between two at which the first did, and was after a sync. One
	// such time would prove the difference if each list were whole, but a leader of Apache's
	// misses a session in its list that it moves to another time of expiry meanwhile.
	missedRounds = 6
	// sessionPause is the time between two rounds: a closing session ends in it.
	sessionPause = 200 * time.Millisecond
	// sessionsWithin bounds the answer of one member.
	sessionsWithin = 30 * time.Second
)

// A sessionRound is what the members show in turn, each after a sync; nil of a member that does
// not show its sessions.
type sessionRound []map[zk.SessionID]int32

// sessions compares the sessions of the members. A session is equal if all members show it in
// one round. One that is not on all lists is looked for again: it may begin or end at the moment.
func (v *verification) sessions(ctx context.Context) error {
	s := &v.report.Sessions
	*s = Sessions{Asked: []int64{}, Undecided: []string{}, Differ: []string{}, Errors: map[string]string{}}
	first, err := v.sessionRound(ctx, nil)
	if err != nil {
		return err
	}
	for i, shown := range first {
		if shown != nil {
			s.Asked = append(s.Asked, v.readers[i].member.ID)
		}
	}
	if len(s.Asked) < 2 {
		return nil
	}
	left := newSuspects(first)
	for n, round := 1, first; ; n++ {
		for _, id := range slices.Sorted(maps.Keys(left)) {
			if v.settleSession(id, left[id], round, n) {
				delete(left, id)
			}
		}
		if len(left) == 0 || n == sessionRounds {
			break
		}
		select {
		case <-time.After(sessionPause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if round, err = v.sessionRound(ctx, first); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		s.Undecided = append(s.Undecided, id.String())
	}
	return nil
}

// A suspect is a session that is not decided yet: which members have shown it in each round,
// and which in none.
type suspect struct{ always, never []bool }

// newSuspects returns all sessions of a round.
func newSuspects(round sessionRound) map[zk.SessionID]*suspect {
	all := map[zk.SessionID]*suspect{}
	for _, shown := range round {
		for id := range shown {
			if all[id] != nil {
				continue
			}
			c := &suspect{make([]bool, len(round)), make([]bool, len(round))}
			for i := range round {
				c.always[i], c.never[i] = round[i] != nil, round[i] != nil
			}
			all[id] = c
		}
	}
	return all
}

// settleSession enters what the nth round shows of a session, and reports whether it is decided.
func (v *verification) settleSession(id zk.SessionID, c *suspect, round sessionRound, n int) bool {
	s := &v.report.Sessions
	has, lacks := 0, 0
	for i, shown := range round {
		if shown == nil {
			continue
		}
		if _, ok := shown[id]; ok {
			has++
			c.never[i] = false
		} else {
			lacks++
			c.always[i] = false
		}
	}
	switch {
	case lacks == 0:
		s.Compared++
		v.timeouts(id, round)
		return true
	case has == 0:
		s.Ended++
		return true
	}
	a := slices.Index(c.always, true)
	if n < missedRounds || a < 0 || !slices.Contains(c.never, true) {
		return false
	}
	for b, never := range c.never {
		if never {
			s.Differ = append(s.Differ, fmt.Sprintf("%v: server %d has it, and server %d does not", id, v.readers[a].member.ID, v.readers[b].member.ID))
		}
	}
	return true
}

// timeouts compares the timeouts that members have shown of a session: it has one for life.
func (v *verification) timeouts(id zk.SessionID, round sessionRound) {
	s := &v.report.Sessions
	first, others := -1, false
	for i, shown := range round {
		timeout := shown[id]
		switch {
		case timeout == 0:
		case first < 0:
			first = i
		default:
			others = true
			if want := round[first][id]; timeout != want {
				s.Differ = append(s.Differ, fmt.Sprintf("%v: its timeout is %d ms at server %d, and %d ms at server %d",
					id, want, v.readers[first].member.ID, timeout, v.readers[i].member.ID))
			}
		}
	}
	if others {
		s.Timeouts++
	}
}

// sessionRound asks the members one after the other. Those that did not show their sessions in
// the first round are not asked again. The error is that of a connection, or of a member that
// does not answer any more.
func (v *verification) sessionRound(ctx context.Context, first sessionRound) (sessionRound, error) {
	round := make(sessionRound, len(v.readers))
	for i, r := range v.readers {
		if first != nil && first[i] == nil {
			continue
		}
		if err := r.c.Sync(ctx, "/"); err != nil {
			return nil, fmt.Errorf("server %d: %w", r.member.ID, err)
		}
		shown, err := v.askSessions(ctx, r.member)
		switch {
		case err == nil:
			round[i] = shown
		case first == nil && ctx.Err() == nil:
			v.report.Sessions.Errors[strconv.FormatInt(r.member.ID, 10)] = err.Error()
		default:
			return nil, fmt.Errorf("server %d: %w", r.member.ID, err)
		}
	}
	return round, nil
}

func (v *verification) askSessions(ctx context.Context, m Member) (map[zk.SessionID]int32, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionsWithin)
	defer cancel()
	return v.e.Sessions(ctx, m)
}

// summary is the result in a few words.
func (s *Sessions) summary() string {
	text := fmt.Sprintf("%d sessions of %d members compared, %d timeouts: %d differ", s.Compared, len(s.Asked), s.Timeouts, len(s.Differ))
	if len(s.Errors) > 0 {
		text += fmt.Sprintf("; sessions of %d members not compared", len(s.Errors))
	}
	return text
}

// print prints what differs, and what was not compared.
func (s *Sessions) print(out io.Writer) {
	for _, text := range s.Differ {
		fmt.Fprintf(out, "DIFFERS the session %s\n", text)
	}
	for _, id := range s.Undecided {
		fmt.Fprintf(out, "NOT COMPARED the session %s: not all members always show it\n", id)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Errors)) {
		fmt.Fprintf(out, "NOT COMPARED the sessions of server %s: %s\n", id, s.Errors[id])
	}
}
