package ensemble

import (
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestTLSForClients moves the clients of a live ensemble to TLS, under load: first every client port takes both
// (client.portUnification), then the clients use TLS there, then at a port of its own. No session may be lost. Between
// the members there is TLS all the time. At the end every voter leads, and is killed then, while all clients use TLS.
func TestTLSForClients(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache-3.9,pinfold,apache") {
		t.Run(members, func(t *testing.T) {
			p := newProofs(t, 3)
			r := newRig(t, members, p.encrypted(t))
			m := &movingClients{ports: map[string]string{}, config: &tls.Config{
				RootCAs: p.authority.Pool(), Certificates: []tls.Certificate{p.authority.Issue(t, "user").TLS}, ServerName: "localhost",
			}}
			lines := map[int][]string{}
			for _, member := range r.e.Members {
				port, err := r.e.FreePort()
				r.must(err)
				m.ports[member.Client] = fmt.Sprintf("127.0.0.1:%d", port)
				own := p.own[member.ID]
				lines[member.ID] = append(p.lines(member, true, false, true),
					"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
					"secureClientPortAddress=127.0.0.1", fmt.Sprint("secureClientPort=", port), "ssl.hostnameVerification=false",
					"ssl.keyStore.location="+own.Store(t), "ssl.trustStore.location="+p.authority.Trust(t))
			}
			r.loadAt(r.e.Clients(), m.dial)
			for _, round := range []struct {
				what  string
				stage int32
				both  bool
			}{
				{"the client port takes both", 0, true},
				{"clients use TLS at the client port", 1, true},
				{"clients use the port for TLS", 2, false},
			} {
				r.step("%s", round.what)
				m.stage.Store(round.stage)
				leader, _ := r.leader()
				last := append(slices.DeleteFunc(slices.Clone(r.e.Members), func(m *cluster.Member) bool { return m == leader }), leader)
				before := m.handshakes.Load()
				for _, member := range last { // every connection ends, and the clients come back as the stage says
					r.must(member.Stop())
					r.must(member.Configure(append(slices.Clone(lines[member.ID]), fmt.Sprint("client.portUnification=", round.both))...))
					r.must(member.Start())
					_, err := r.e.WaitCaughtUp(r.within(patience), member)
					r.must(err)
				}
				r.progress()
				if done := m.handshakes.Load() - before; done > 0 != (round.stage > 0) {
					t.Errorf("%s: %d handshakes of clients", round.what, done)
				}
			}
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
			r.leadersKilled()
			r.finish()
		})
	}
}

// movingClients dials for clients that go over to TLS.
type movingClients struct {
	config     *tls.Config
	ports      map[string]string // with TLS, of each client port
	stage      atomic.Int32      // 0: plain; 1: TLS at the client port; 2: at the other one
	handshakes atomic.Int64
}

func (m *movingClients) dial(addr string, patience time.Duration) (net.Conn, error) {
	stage := m.stage.Load()
	if stage == 0 {
		return net.DialTimeout("tcp", addr, patience)
	}
	if stage == 2 {
		addr = m.ports[addr]
	}
	nc, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, m.config)
	if err != nil {
		return nil, err // not nc: a nil *tls.Conn is no nil net.Conn
	}
	m.handshakes.Add(1)
	return nc, nil
}
