package migrate

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// listing servers show sessions as a test says.
type listing struct {
	servers
	list   func(id int64, round int) (map[zk.SessionID]int32, error)
	rounds map[int64]int
}

func (l *listing) Sessions(_ context.Context, m Member) (map[zk.SessionID]int32, error) {
	l.rounds[m.ID]++
	return l.list(m.ID, l.rounds[m.ID])
}

// verifySessions verifies a server that three members are, which show sessions as list says.
func verifySessions(t *testing.T, list func(id int64, round int) (map[zk.SessionID]int32, error)) (*Report, error) {
	t.Helper()
	s := inproc.Start(t)
	e := &listing{servers{byAddr: map[string]*inproc.Server{"127.0.0.1:1": s, "127.0.0.2:1": s, "127.0.0.3:1": s}}, list, map[int64]int{}}
	c := configOf(t, "clientPort=1\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.2:1:2\nserver.3=127.0.0.3:1:2\n")
	return Verify(t.Context(), e, c, func(int64) int { return 0 }, func(string) {})
}

func TestVerifySessions(t *testing.T) {
	type list = map[zk.SessionID]int32
	both := list{1: 4000, 2: 6000}
	for _, tt := range []struct {
		name string
		list func(id int64, round int) list
		want Sessions // what its zero fields say is not compared
	}{
		{"equal", func(int64, int) list { return both }, Sessions{Compared: 2, Timeouts: 2}},
		{"a leader shows no timeouts", func(id int64, _ int) list {
			if id == 2 {
				return list{1: 0, 2: 0}
			}
			return both
		}, Sessions{Compared: 2, Timeouts: 2}},
		{"one lacks a session", func(id int64, _ int) list {
			if id == 2 {
				return list{2: 6000}
			}
			return both
		}, Sessions{Compared: 1, Timeouts: 1, Differ: []string{"0x1: server 1 has it, and server 2 does not"}}},
		{"one has a session too many", func(id int64, _ int) list {
			if id == 2 {
				return both
			}
			return list{2: 6000}
		}, Sessions{Compared: 1, Timeouts: 1, Differ: []string{
			"0x1: server 2 has it, and server 1 does not", "0x1: server 2 has it, and server 3 does not",
		}}},
		{"a timeout differs", func(id int64, _ int) list {
			if id == 3 {
				return list{1: 4000, 2: 6001}
			}
			return both
		}, Sessions{Compared: 2, Timeouts: 2, Differ: []string{"0x2: its timeout is 6000 ms at server 1, and 6001 ms at server 3"}}},
		{"a session begins", func(id int64, round int) list {
			if id == 1 || round > 1 {
				return both
			}
			return list{2: 6000}
		}, Sessions{Compared: 2, Timeouts: 2}},
		{"a session ends", func(id int64, round int) list {
			if id == 1 && round < missedRounds {
				return both
			}
			return list{2: 6000}
		}, Sessions{Compared: 1, Timeouts: 1, Ended: 1}},
		{"another member's list misses it, but for once", func(id int64, round int) list {
			if id != 3 || round == missedRounds-1 {
				return both
			}
			return list{2: 6000}
		}, Sessions{Compared: 2, Timeouts: 2}},
		{"no member always shows it", func(id int64, round int) list {
			if (id == 1) == (round%2 == 0) {
				return both
			}
			return list{2: 6000}
		}, Sessions{Compared: 1, Timeouts: 1, Undecided: []string{"0x1"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, err := verifySessions(t, func(id int64, round int) (list, error) { return tt.list(id, round), nil })
			if errors.Is(err, ErrDiffer) != (len(tt.want.Differ) > 0) || err != nil && !errors.Is(err, ErrDiffer) {
				t.Fatalf("%s: %v", tt.name, err)
			}
			want := tt.want
			want.Asked, want.Errors = []int64{1, 2, 3}, map[string]string{}
			want.Undecided, want.Differ = append([]string{}, want.Undecided...), append([]string{}, want.Differ...)
			if !reflect.DeepEqual(r.Sessions, want) {
				t.Errorf("%s: %+v, want %+v", tt.name, r.Sessions, want)
			}
		})
	}
}

// A member that does not list its sessions is left out, and named; one that stops to do so
// ends the comparison.
func TestVerifySessionsNotListed(t *testing.T) {
	refused := errors.New("dump is not executed because it is not in the whitelist")
	synctest.Test(t, func(t *testing.T) {
		lists := map[int64]map[zk.SessionID]int32{1: {1: 4000}, 3: {1: 5000}}
		r, err := verifySessions(t, func(id int64, _ int) (map[zk.SessionID]int32, error) {
			if id == 2 {
				return nil, refused
			}
			return lists[id], nil
		})
		s := r.Sessions
		if !errors.Is(err, ErrDiffer) || !slices.Equal(s.Asked, []int64{1, 3}) || s.Compared != 1 || s.Errors["2"] != refused.Error() {
			t.Errorf("%v, %+v", err, s)
		}
		_, err = verifySessions(t, func(id int64, round int) (map[zk.SessionID]int32, error) {
			if round > 1 {
				return nil, refused
			}
			return map[zk.SessionID]int32{zk.SessionID(id): 4000}, nil
		})
		if !errors.Is(err, refused) {
			t.Error(err)
		}
		r, err = verifySessions(t, func(int64, int) (map[zk.SessionID]int32, error) { return nil, refused })
		if err != nil || len(r.Sessions.Asked) != 0 || len(r.Sessions.Errors) != 3 {
			t.Errorf("%v, %+v", err, r.Sessions)
		}
	})
}
