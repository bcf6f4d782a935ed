package server

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func allWords(_ int64, s *rigSetup) { s.cfg.Commands.Allowed = []string{"*"} }

// srvr on each member, byte for byte except the version and three numbers.
func TestServerStatsOfMembers(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		c := e.leader().open()
		c.create("/a", "0123456789", zk.Persistent)
		pass(rigTick)
		for _, m := range []replica.Mode{replica.Leader, replica.Follower, replica.Observer} {
			for _, r := range e.in(m) {
				_, got, _ := strings.Cut(r.word("srvr"), "\n")
				got = regexp.MustCompile(`(?m)^(Latency.*: |Received: |Sent: ).*$`).ReplaceAllString(got, "${1}N")
				want := "Latency min/avg/max: N\nReceived: N\nSent: N\nConnections: 1\nOutstanding: 0\n" +
					"Zxid: 0x100000002\nMode: " + m.String() + "\nNode count: 6\n"
				if m == replica.Leader {
					want = strings.Replace(want, "Connections: 1", "Connections: 2", 1) + "Proposal sizes last/min/max: 96/48/96\n"
				}
				if got != want {
					t.Errorf("%v:\n%s\nwant:\n%s", m, got, want)
				}
			}
		}
	}, allWords)
}

// The leader shows a new epoch before the epoch's first transaction.
func TestZxidOfAFreshEpoch(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		for _, r := range e.rigs {
			want := "Zxid: 0x0\n"
			if r == e.leader() {
				want = "Zxid: 0x100000000\n"
			}
			if got := r.word("srvr"); !strings.Contains(got, want) {
				t.Errorf("%v: no %q in %s", r.rep.Mode(), want, got)
			}
		}
	}, allWords)
}

// A learner knows the sessions of the whole ensemble, but not when they expire.
func TestDumpOfMembers(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		var want strings.Builder
		want.WriteString("SessionTracker dump:\nGlobal Sessions(4):\n")
		for id := range int64(4) {
			c := e.rigs[id+1].open()
			c.create(fmt.Sprintf("/e%d", id), "", zk.Ephemeral)
			fmt.Fprintf(&want, "0x%x\t10000ms\n", uint64(c.resp.SessionID))
		}
		pass(rigTick)
		want.WriteString("ephemeral nodes dump:\nSessions with Ephemerals (4):\n")
		for id, r := range e.rigs {
			got := r.word("dump")
			switch r.rep.Mode() {
			case replica.Leader:
				if !regexp.MustCompile(`^SessionTracker dump:\nSession Sets \(\d\)/\(4\):\n`).MatchString(got) {
					t.Errorf("leader: %s", got)
				}
			default:
				if !strings.HasPrefix(got, want.String()) {
					t.Errorf("%d:\n%s\nwant:\n%s", id, got, want.String())
				}
			}
		}
	}, allWords)
}

func TestConfOfMembers(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		for id, r := range e.rigs {
			want := fmt.Sprintf("serverId=%d\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\npeerType=%d\n"+
				"membership: \n%s", id, max(0, id-3), e.members.Text())
			if got := r.word("conf"); !strings.HasSuffix(got, want) || strings.HasSuffix(got, "\n") {
				t.Errorf("%d: %s", id, got)
			}
		}
	}, allWords)
}

// gauge returns a value of mntr, "" if there is no such key.
func gauge(mntr, key string) string {
	_, rest, _ := strings.Cut("\n"+mntr, "\nzk_"+key+"\t")
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

func TestMonitoringOfMembers(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		c := e.in(replica.Follower)[0].open()
		for i := range 4 {
			c.create(fmt.Sprintf("/n%d", i), "", zk.Persistent)
		}
		pass(rigTick)
		lead := fmt.Sprint(e.id(e.leader()))
		for _, want := range []struct {
			mode replica.Mode
			want map[string]string
		}{
			{replica.Leader, map[string]string{
				"server_state": "leader", "peer_state": "leading - broadcast", "quorum_size": "3", "learners": "3",
				"synced_followers": "2", "synced_observers": "1", "synced_non_voting_followers": "0", "pending_syncs": "0",
				"observer_master_id": "", "global_sessions": "1", "proposal_count": "5", "commit_count": "5",
				"learner_commit_received_count": "0", "looking_count": "1", "cnt_election_time": "1", "diff_count": "3", "snap_count": "0",
				"cnt_leader_unavailable_time": "1", "cnt_unavailable_time": "1", "cnt_quorum_ack_latency": "5", "cnt_propagation_latency": "5",
				"cnt_follower_sync_time": "0", "min_proposal_size": "48", "cnt_4_learner_handler_qp_size": "0", "p50_4_learner_handler_qp_time_ms": "0",
			}},
			{replica.Follower, map[string]string{
				"server_state": "follower", "peer_state": "following - broadcast", "quorum_size": "3", "learners": "", "synced_followers": "",
				"synced_observers": "0", "leader_uptime": "", "last_proposal_size": "", "observer_master_id": "",
				"global_sessions": "1", "proposal_count": "0", "commit_count": "0", "learner_proposal_received_count": "5",
				"learner_commit_received_count": "5", "cnt_proposal_latency": "5", "cnt_commit_propagation_latency": "5",
				"cnt_propagation_latency": "5", "cnt_follower_sync_time": "1", "cnt_leader_unavailable_time": "0", "cnt_unavailable_time": "1",
				"cnt_n3_write_per_namespace": "1", "cnt_zookeeper_write_per_namespace": "1", "sync_processor_request_queued": "5",
				"cnt_om_proposal_process_time_ms": "0", "cnt_om_commit_process_time_ms": "0",
			}},
			{replica.Observer, map[string]string{
				"server_state": "observer", "peer_state": "observing - broadcast", "observer_master_id": lead, "quorum_size": "3",
				"learner_proposal_received_count": "0", "learner_commit_received_count": "5", "cnt_observer_sync_time": "1", "global_sessions": "1",
			}},
		} {
			for _, r := range e.in(want.mode) {
				got := r.word("mntr")
				for key, value := range want.want {
					if g := gauge(got, key); g != value {
						t.Errorf("%v: %s is %q, want %q", want.mode, key, g, value)
					}
				}
			}
		}
	}, allWords)
}

// Observer masters count what they take from the leader, with an observer or without; the leader and
// the observers count nothing.
func TestObserverMastersCount(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		c := e.in(replica.Follower)[0].open()
		for i := range 4 {
			c.create(fmt.Sprintf("/n%d", i), "", zk.Persistent)
		}
		pass(rigTick)
		for _, r := range e.rigs {
			want := "0"
			if r.rep.Mode() == replica.Follower {
				want = "5"
			}
			for _, what := range []string{"proposal", "commit"} {
				key := "cnt_om_" + what + "_process_time_ms"
				if g := gauge(r.word("mntr"), key); g != want {
					t.Errorf("%v: %s is %q, want %q", r.rep.Mode(), key, g, want)
				}
			}
		}
	}, allWords, func(_ int64, s *rigSetup) { s.cfg.Quorum.ObserverMasterPort = 2191 })
}

// The words of a server that has no quorum, and of a leader that does not serve clients.
func TestWordsOfServerWithoutClients(t *testing.T) {
	silent := func(t *testing.T, r *rig) {
		t.Helper()
		for _, w := range []string{"srvr", "stat", "cons", "crst", "srst", "conf", "dirs", "dump", "mntr", "wchs", "wchc", "wchp"} {
			if got := r.word(w); got != notServing {
				t.Errorf("%s: %q", w, got)
			}
		}
		for w, want := range map[string]string{"ruok": "imok", "isro": "null", "gtmk": "306", "hash": strings.TrimSuffix(notServing, "\n")} {
			if got := r.word(w); got != want {
				t.Errorf("%s: %q, want %q", w, got, want)
			}
		}
		if got := r.word("envi"); !strings.HasPrefix(got, "Environment:\nzookeeper.version=") {
			t.Errorf("envi: %q", got)
		}
	}
	inEnsemble(t, 3, 1, func(e *ensemble) {
		left := []*rig{e.leader(), e.in(replica.Observer)[0]}
		for _, r := range e.in(replica.Follower) {
			e.stop(r)
		}
		pass(10 * rigTick)
		for _, r := range left {
			silent(t, r)
		}
	}, allWords)
	inEnsemble(t, 3, 0, func(e *ensemble) {
		silent(t, e.leader())
		c := e.in(replica.Follower)[0].open()
		c.create("/a", "", zk.Ephemeral)
		no, took := refused(e.leader().pipe(), func(k *wireClient) error {
			return k.connect(wire.ConnectRequest{TimeoutMillis: 10000})
		}, t)
		if !no || took != 0 {
			t.Errorf("the leader refuses: %v, after %v", no, took)
		}
	}, allWords, func(_ int64, s *rigSetup) { s.cfg.Quorum.LeaderServes = false })
}
