package ensemble

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestRevokedMember has each member come back with a certificate that is revoked, by the list of its
// authority or by its OCSP responder, under load: every other member refuses it, those of Pinfold with a
// line that says why, and it does not serve before it has a valid one.
func TestRevokedMember(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,pinfold,apache-3.9") {
		t.Run(members, func(t *testing.T) {
			const checked = "ssl.quorum.crl=true\nssl.quorum.ocsp=true"
			issuer := certs.NewIssuer(t)
			p := &proofs{authority: issuer.Identity, own: map[int]certs.Identity{}, files: map[int][]string{}}
			for id := range 3 {
				p.give(t, id+1, issuer.Named(t, "server", "/crl", "/ocsp", of(id+1)), checked)
			}
			r := newRig(t, members, p.encrypted(t))
			r.load()
			for i, m := range r.e.Members {
				list, responder, how := "/crl", "", "list"
				if i%2 == 1 {
					list, responder, how = "", "/ocsp", "responder"
				}
				valid, revoked := p.own[m.ID], issuer.Named(t, "server", list, responder, of(m.ID))
				issuer.Revoke(revoked)
				r.must(m.Stop())
				seen := r.outputs()
				p.give(t, m.ID, revoked, checked)
				r.must(p.configure(m, true, false, true))
				r.must(m.Start())
				r.step("%v comes with a certificate that the %s revokes", m, how)
				for _, o := range r.e.Members {
					if o == m {
						continue
					}
					if !shakesHands(t, o, tls.VersionTLS12, valid) || shakesHands(t, o, tls.VersionTLS12, revoked) {
						t.Errorf("%v accepts the revoked certificate, or no certificate", o)
					}
					if o.Kind() != cluster.Pinfold {
						continue // its log has "Socket is closed"
					}
					r.must(r.e.Until(r.within(patience), func() bool {
						now, err := o.Output()
						return err == nil && strings.Contains(now[len(seen[o.ID]):], "the certificate is revoked")
					}))
				}
				r.progress()
				if s, err := m.Status(); err == nil {
					t.Errorf("%v serves, as %s", m, s.Mode)
				}
				r.must(m.Stop())
				p.give(t, m.ID, valid, checked)
				r.must(p.configure(m, true, false, true))
				r.must(m.Start())
				_, err := r.e.WaitCaughtUp(r.within(patience), m)
				r.must(err)
			}
			r.finish()
		})
	}
}

// outputs returns what the members have printed.
func (r *rig) outputs() map[int]string {
	r.t.Helper()
	all := map[int]string{}
	for _, m := range r.e.Members {
		text, err := m.Output()
		r.must(err)
		all[m.ID] = text
	}
	return all
}
