package admin

import (
	"net/http"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// healthz answers 200 as long as the process works. A server without a quorum is alive;
// to restart it would not help.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	q := newReply(w, r)
	alive := !s.replica.Stopping()
	q.bool("alive", alive)
	q.status = statusOf(alive)
	q.end()
	q.flush()
}

// readyz answers 200 if clients can connect and write: the server is standalone, or has a
// leader and is in sync with it. Otherwise it answers 503, with the reasons.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	q := newReply(w, r)
	reasons := s.unready()
	q.bool("ready", len(reasons) == 0)
	if s.replica.Healing() {
		q.bool("healing", true)
	}
	q.text("mode", s.server.Mode().String())
	q.text("last_zxid", "0x"+strconv.FormatUint(uint64(s.replica.LastApplied()), 16))
	q.array("reasons")
	for _, reason := range reasons {
		q.text("", reason)
	}
	q.end()
	q.status = statusOf(len(reasons) == 0)
	q.end()
	q.flush()
}

func statusOf(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

// unready returns why clients cannot connect and write; nothing if they can.
func (s *Server) unready() (reasons []string) {
	stopping := s.replica.Stopping()
	if stopping {
		reasons = append(reasons, "the server is stopping")
	}
	if s.replica.DiskShort() {
		reasons = append(reasons, "the disk is nearly full, and writes are refused")
	}
	switch mode := s.server.Mode(); {
	case s.server.ServesClients(), stopping:
	case mode == replica.Leader:
		reasons = append(reasons, "the leader serves no clients (leaderServes=no)")
	case mode == replica.ReadOnly:
		reasons = append(reasons, "the server has no quorum and is read-only")
	case s.replica.Healing():
		reasons = append(reasons, "the member has lost data and heals: "+s.lookingReason())
	case s.replica.DiskAway():
		reasons = append(reasons, "the disk finishes no write")
	default:
		reasons = append(reasons, s.lookingReason())
	}
	return reasons
}

// lookingReason returns what a member without a quorum is doing.
func (s *Server) lookingReason() string {
	status := s.replica.Status()
	if status == nil {
		return "the server is starting"
	}
	switch status.State {
	case "election":
		return "the server has no quorum: it looks for a leader"
	case "broadcast":
		return "the server is leaving its role"
	}
	return "the server is not in sync with its leader yet: " + status.State
}
