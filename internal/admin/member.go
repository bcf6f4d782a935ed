package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// lookupTimeout bounds the look-up of the leader's name.
const lookupTimeout = time.Second

// leader shows the leader of the ensemble that this server belongs to.
func (s *Server) leader(q *reply) {
	mode := s.server.Mode()
	if mode == replica.Standalone || mode == replica.ReadOnly {
		q.failWithin("server is not initialized")
		return
	}
	id, ip := s.replica.Status().Leader, ""
	if m := s.server.Members().Find(id); m != nil {
		ip = lookUp(q.r.Context(), m.Addresses[0].Host)
	}
	q.bool("is_leader", mode == replica.Leader)
	q.int("leader_id", id)
	q.text("leader_ip", ip)
}

// lookUp returns the IP address of a host, "" if it is not known.
func lookUp(ctx context.Context, host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.String()
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addrs) == 0 {
		return ""
	}
	return addrs[0].Unmap().String()
}

// resolve shows the addresses of a host that is about to become a member's. It is answered
// 422 if the name is not known here.
func (s *Server) resolve(q *reply) {
	host := q.r.URL.Query().Get("host")
	if host == "" {
		q.fail(http.StatusBadRequest, q.name, "the parameter host is missing")
		return
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), lookupTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		q.fail(http.StatusUnprocessableEntity, q.name, err.Error())
		return
	}
	q.array("addresses")
	for _, a := range addrs {
		q.text("", a)
	}
	q.end()
}

// observers shows the observers that this server serves, as the leader or as an observer master.
func (s *Server) observers(q *reply) {
	status := s.observerStatus()
	q.int("synced_observers", status.SyncedObservers())
	q.array("observers")
	for _, l := range status.Learners {
		if !l.Observer || !l.Synced {
			continue
		}
		link, ok := s.links(l.Link)
		if !ok {
			continue // it has ended since
		}
		q.object("")
		q.text("remote_socket_address", "/"+link.Remote)
		q.int("sid", l.ID)
		q.int("established", link.Established.UnixMilli())
		q.int("queued_packets", int64(link.Queued))
		q.int("queued_packets_size", int64(link.QueuedBytes))
		q.int("packets_received", link.Received)
		q.int("packets_sent", link.Sent)
		q.int("requests", link.Requests)
		q.int("last_zxid", int64(status.Committed)) // an observer is sent what is committed, at once
		q.end()
	}
	q.end()
}

// resetObservers resets the counts of the links that observers shows.
func (s *Server) resetObservers(*reply) {
	for _, l := range s.observerStatus().Learners {
		if l.Observer && l.Synced {
			s.reset(l.Link)
		}
	}
}

// observerStatus returns the status of a server that may serve observers, an empty one for others.
func (s *Server) observerStatus() *zab.Status {
	if mode := s.server.Mode(); mode != replica.Leader && mode != replica.Follower {
		return &zab.Status{}
	}
	return s.replica.Status()
}

// votingView shows the members that vote.
func (s *Server) votingView(q *reply) {
	q.object("current_config")
	if s.cfg.Quorum.Distributed() {
		members := s.server.Members()
		for _, id := range members.Voters() {
			s.member(q, members.Find(id))
		}
	}
	q.end()
}

func (s *Server) member(q *reply, m *config.Member) {
	q.object(strconv.FormatInt(m.ID, 10))
	q.array("server_addresses")
	for _, a := range m.Addresses {
		q.text("", hostPort(a.Host, a.QuorumPort))
	}
	q.end()
	q.array("election_addresses")
	for _, a := range m.Addresses {
		q.text("", hostPort(a.Host, a.ElectionPort))
	}
	q.end()
	q.text("client_address", s.clientAddress(m))
	q.text("learner_type", "participant")
	q.end()
}

// clientAddress returns the client address of a member; "" if it is not known.
func (s *Server) clientAddress(m *config.Member) string {
	switch {
	case m.HasClient:
		return hostPort(m.ClientHost, m.ClientPort)
	case m.ID != s.cfg.Quorum.MyID || s.cfg.Client.Port == 0:
		return ""
	case s.cfg.Client.Host == "":
		return hostPort("0.0.0.0", s.cfg.Client.Port)
	}
	return hostPort(s.cfg.Client.Host, s.cfg.Client.Port)
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// zabState shows where this server is in the protocol of its ensemble.
func (s *Server) zabState(q *reply) {
	quorum := &s.cfg.Quorum
	if !quorum.Distributed() {
		q.bool("voting", false)
		q.text("zabstate", "")
		return
	}
	own, status := s.server.OwnLine(), s.replica.Status()
	if status == nil { // the member has not begun to look for a leader
		status = &zab.Status{State: "election"}
	}
	zxid := s.replica.LastLogged()
	mode := s.server.Mode()
	if mode == replica.Leader { // a new epoch is visible before its first transaction
		zxid = max(zxid, zk.MakeZxid(status.Epoch, 0))
	}
	q.int("myid", own.ID)
	q.bool("is_leader", mode == replica.Leader)
	q.addresses("quorum_address", own.Addresses, func(a config.MemberAddress) int { return a.QuorumPort })
	q.addresses("election_address", own.Addresses, func(a config.MemberAddress) int { return a.ElectionPort })
	q.text("client_address", s.clientAddress(own))
	q.bool("voting", !own.Observer)
	q.text("last_zxid", "0x"+strconv.FormatUint(uint64(zxid), 16))
	q.int("zab_epoch", int64(zxid.Epoch()))
	q.int("zab_counter", int64(zxid.Counter()))
	q.text("zabstate", status.State)
}

// addresses shows the addresses of a member for one of its ports. The first is the one
// that is used.
func (q *reply) addresses(key string, all []config.MemberAddress, port func(config.MemberAddress) int) {
	one := hostPort(all[0].Host, port(all[0]))
	each := func(key string, show func(config.MemberAddress)) {
		q.array(key)
		for _, a := range all {
			show(a)
		}
		q.end()
	}
	list := func(key string) {
		each(key, func(a config.MemberAddress) { q.text("", hostPort(a.Host, port(a))) })
	}
	first := func(key string) {
		q.array(key)
		q.text("", one)
		q.end()
	}
	q.object(key)
	q.bool("empty", false)
	list("all_addresses")
	first("all_reachable_addresses")
	q.text("one", one)
	q.text("reachable_address", one)
	each("wildcard_addresses", func(a config.MemberAddress) { q.text("", hostPort("0.0.0.0", port(a))) })
	each("all_ports", func(a config.MemberAddress) { q.int("", int64(port(a))) })
	each("all_host_strings", func(a config.MemberAddress) { q.text("", a.Host) })
	first("all_reachable_addresses_or_all")
	q.text("reachable_or_one", one)
	q.end()
}
