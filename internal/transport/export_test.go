package transport

import "net"

// Addrs returns the addresses that Start listens on.
func (t *Transport) Addrs() (quorum, election []net.Addr) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, l := range t.mu.quorumPorts {
		quorum = append(quorum, l.Addr())
	}
	for _, l := range t.mu.electionPorts {
		election = append(election, l.Addr())
	}
	return quorum, election
}
