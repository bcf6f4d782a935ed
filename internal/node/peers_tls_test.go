package node

import (
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// memberHost is the host of a member's server line.
func memberHost(id int64) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{net.IPv4(10, 0, 0, byte(id))} }
}

// Three members with TLS on both ports elect a leader, and another one when it stops. A
// fourth process with the certificate of a member, but the id of another, gets nowhere.
func TestEnsembleOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authority := certs.New(t, "authority")
		claimed := func(id int64) int64 { return id }
		p := &peers{t: t, net: newPeersNet(), size: 3, nodes: map[int64]*peerNode{}, disks: map[int64]vfs.FS{}}
		p.more = func(id int64) map[string]string {
			return map[string]string{
				"sslQuorum": "true", "ssl.quorum.verifyPeers": "true",
				"ssl.quorum.keyStore.location":   authority.Issue(t, fmt.Sprint("server", id), memberHost(claimed(id))).Store(t),
				"ssl.quorum.trustStore.location": authority.Trust(t),
			}
		}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for id := range p.size {
			p.start(id + 1)
		}
		check(p.serves(3, peersPatience))
		check(p.stop(3))
		check(p.serves(2, peersPatience))
		claimed = func(int64) int64 { return 2 }
		p.start(3)
		check(p.serves(2, peersPatience))
		pass(10 * peersTick)
		if m := p.nodes[3].Replica().Mode(); m.Writable() {
			t.Errorf("a server with the certificate of another is %v", m)
		}
		check(p.stop(3))
		claimed = func(id int64) int64 { return id }
		p.start(3)
		check(p.serves(3, peersPatience))
		check(p.holds())
		for id := range maps.Clone(p.nodes) {
			check(p.stop(id))
		}
	})
}
