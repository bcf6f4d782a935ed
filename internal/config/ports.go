package config

import (
	"crypto/tls"
	"net"
	"strconv"
)

// Port is a port that a server with this configuration opens.
type Port struct {
	For        string // clients, peers, elections, admin or metrics
	Addr       string // host and port, in the form of net.Listen
	Protection string // what a connection needs, in words
}

// Ports returns the ports of the server, and how each is protected.
func (c *Config) Ports() (list []Port) {
	add := func(to, addr, protection string) { list = append(list, Port{to, addr, protection}) }
	const plain = "without TLS"
	switch {
	case c.Client.Unified:
		add("clients", c.Client.Addr(), plain+", or "+c.TLS.protection())
	case !c.Client.OnlySecure:
		add("clients", c.Client.Addr(), plain)
	}
	if c.Client.Secure {
		add("clients", c.Client.SecureAddr(), c.TLS.protection())
	}
	if c.Quorum.Distributed() {
		protection := plain
		switch t := &c.Quorum.TLS; {
		case t.Plain:
			protection += ", or " + c.QuorumTLS.protection()
		case t.Enabled:
			protection = c.QuorumTLS.protection()
			if t.Members {
				protection += " of that server"
			}
		}
		if l := &c.Quorum.Login; l.Enabled && l.ServerRequired {
			protection += ", and a login"
		}
		add("peers", c.Quorum.QuorumListen(), protection)
		if o := c.Quorum.ObserverListen(c.Quorum.Own()); o != "" {
			add("observers", o, protection)
		}
		add("elections", c.Quorum.ElectionListen(), protection)
	}
	if c.Admin.Enabled {
		protection := plain
		if c.Admin.ForceHTTPS {
			protection = c.AdminTLS().protection()
		} else if c.Admin.Unified {
			protection += ", or " + c.AdminTLS().protection()
		}
		add("admin", net.JoinHostPort(c.Admin.Host, strconv.Itoa(c.Admin.Port)), protection)
	}
	if c.Metrics.Prometheus() {
		add("metrics", c.Metrics.Addr(), plain)
	}
	return list
}

// protection says what a connection with TLS needs.
func (t *TLS) protection() string {
	text := "TLS 1.3"
	switch lowest, highest := t.Versions(); {
	case lowest < highest:
		text = "TLS 1.2 or 1.3"
	case highest == tls.VersionTLS12:
		text = "TLS 1.2"
	}
	switch t.ClientAuth {
	case "need":
		return text + " with a certificate"
	case "want":
		return text + ", with a certificate or without"
	}
	return text + " without a certificate"
}
