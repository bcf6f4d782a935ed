package client

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/zk"
)

// KerberosOptions are the principals of a client and of its servers. The zero value means
// the principal of the ticket cache, and servers zookeeper/HOST.
type KerberosOptions struct {
	// Principal is NAME@REALM or NAME/HOST@REALM. Without a realm it is of the default
	// realm of krb5.conf. Empty means that of the ticket cache.
	Principal string
	// Keytab is a file with the keys of Principal. Empty means a ticket cache, which
	// kinit makes and renews.
	Keytab string
	// Cache is the file of the ticket cache. Empty means that of the environment variable
	// KRB5CCNAME, or else /tmp/krb5cc_UID.
	Cache string
	// Config is krb5.conf. Empty means the file of the environment variable
	// KRB5_CONFIG, or else /etc/krb5.conf.
	Config string

	// Service is the first part of the servers' principals; empty means zookeeper. In
	// Java it is zookeeper.sasl.client.username.
	Service string
	// Realm is that of the servers. Empty means the one that krb5.conf names for the host,
	// or else the client's. In Java it is zookeeper.server.realm.
	Realm string
	// Server is the principal of every server, instead of one for each host. In Java
	// it is zookeeper.server.principal.
	Server string
	// Canonicalize asks DNS for the host's canonical name (CNAME). In Java it is
	// zookeeper.sasl.client.canonicalize.hostname, which is true by default and also
	// makes a name of an address.
	Canonicalize bool
}

// Kerberos logs in by SASL's GSSAPI, as a principal of Kerberos: with the key in a file, or
// with the tickets of kinit. Client and server prove their keys to each other. Tickets are asked for when they
// are needed: a login with a key never ends, one with a ticket cache as long as kinit renews
// it. The error reports files that are missing or cannot be used; no KDC is asked yet.
func Kerberos(o KerberosOptions) (Mechanism, error) {
	l, err := kerberos.NewLogin(kerberos.Credentials{Principal: o.Principal, Keytab: o.Keytab, Cache: o.Cache, Config: o.Config})
	if err != nil {
		return nil, err
	}
	return &gssapi{options: o, login: l}, nil
}

type gssapi struct {
	options KerberosOptions
	login   *kerberos.Login
}

// Authenticate is the exchange of RFC 4752.
func (m *gssapi) Authenticate(ctx context.Context, host string, send func(token []byte) ([]byte, error)) error {
	x, token, err := m.login.Begin(ctx, m.server(ctx, host), kerberos.InitiatorOptions{})
	if err != nil {
		return fmt.Errorf("sasl: %w", err)
	}
	for {
		answer, err := send(token)
		switch {
		case err != nil:
			return fmt.Errorf("sasl: principal %s: %w", m.login.Principal(), err)
		case x.Done():
			return nil
		case len(answer) == 0:
			return fmt.Errorf("sasl: the server has no logins: %w", zk.ErrAuthFailed)
		}
		if token, err = x.Step(answer); err != nil {
			return fmt.Errorf("sasl: the server: %w", err)
		}
	}
}

// server returns the principal of the server on a host.
func (m *gssapi) server(ctx context.Context, host string) string {
	o := &m.options
	if o.Server != "" {
		return o.Server
	}
	if o.Canonicalize && net.ParseIP(host) == nil {
		if name, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil {
			host = strings.TrimSuffix(name, ".")
		}
	}
	name := "zookeeper/"
	if o.Service != "" {
		name = o.Service + "/"
	}
	if name += strings.ToLower(host); o.Realm != "" {
		name += "@" + o.Realm
	}
	return name
}
