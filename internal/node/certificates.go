package node

import (
	"crypto/rsa"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/keystore"
)

const (
	// renewal is how long before its end a certificate should be replaced.
	renewal = 30 * 24 * time.Hour
	// minRSABits is the length of keys that are not weak.
	minRSABits = 2048
)

// Certificates returns what is wrong with the server's own certificates at some time. Stores that
// cannot be read are left out: Check reports them.
func Certificates(cfg *config.Config, now time.Time) (risks []config.Risk) {
	for _, s := range []struct {
		key  string
		of   *config.Store
		used bool
	}{
		{"ssl.keyStore.location", &cfg.TLS.KeyStore, cfg.Client.Secure || cfg.Client.Unified},
		{"ssl.quorum.keyStore.location", &cfg.QuorumTLS.KeyStore, cfg.Quorum.TLS.Ports() || cfg.Admin.HTTPS()},
	} {
		if !s.used {
			continue
		}
		store := keystore.Store(*s.of)
		files, err := store.Read()
		if err != nil {
			continue
		}
		keys, err := files.Keys()
		if err != nil {
			continue
		}
		for i := range keys {
			leaf := keys[i].Leaf
			add := func(danger, advice string) {
				risks = append(risks, config.Risk{Where: cfg.Place(s.key), Key: s.key, Danger: danger, Advice: advice})
			}
			if end := leaf.NotAfter; end.Sub(now) < renewal {
				add(fmt.Sprintf("the certificate of %s is valid until %s: no connection is made afterwards", leaf.Subject, end.UTC().Format(time.DateTime)),
					"Replace the file, in the steps of security.md")
			}
			if key, ok := leaf.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
				add(fmt.Sprintf("the RSA key of %s has %d bits", leaf.Subject, key.N.BitLen()), "Make one of 2048 bits at least, or of ECDSA")
			}
		}
	}
	return risks
}
