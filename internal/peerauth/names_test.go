package peerauth

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/tickets"
)

// dns is a DNS for tests: the addresses of names, and the names of addresses. What it lacks does
// not exist. fails is the error of all its answers.
type dns struct {
	of    map[string][]string
	fails error
}

// names looks names up there.
func (d *dns) names() *Names {
	look := func(name string) ([]string, error) {
		switch {
		case d.fails != nil:
			return nil, d.fails
		case d.of[name] == nil:
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		}
		return d.of[name], nil
	}
	return &Names{
		Resolve: func(_ context.Context, host string) ([]string, error) {
			if _, err := netip.ParseAddr(host); err == nil {
				return []string{host}, nil
			}
			return look(host)
		},
		Reverse: func(_ context.Context, address string) ([]string, error) { return look(address) },
	}
}

// zone is the DNS of an ensemble whose server lines have aliases and addresses.
func zone() *dns {
	return &dns{of: map[string][]string{
		"alias":            {"::7", "10.0.0.7", "10.0.0.8"},
		"10.0.0.7":         {"Host.example.com.", "other.example.com."},
		"Host.example.com": {"::7", "10.0.0.7"},
		"10.0.0.8":         {"zk8.example.com."},
		"zk8.example.com":  {"10.0.0.8"},
		"nameless":         {"10.0.0.9"},
		"forged":           {"10.0.0.6"},
		"10.0.0.6":         {"zk8.example.com."},
		"six":              {"::5"},
		"::5":              {"zk5.example.com."},
		"zk5.example.com":  {"::5"},
		"gone":             {"10.0.0.3"},
		"10.0.0.3":         {"nowhere.example.com."},
	}}
}

// The canonical name is that of Java's InetAddress.getCanonicalHostName, or the host itself.
func TestCanonicalName(t *testing.T) {
	n := zone().names()
	for host, want := range map[string]string{
		"alias":            "Host.example.com",
		"10.0.0.8":         "zk8.example.com",
		"six":              "zk5.example.com",
		"zk8.example.com":  "zk8.example.com",
		"nameless":         "nameless",
		"10.0.0.9":         "10.0.0.9",
		"forged":           "forged", // the name does not have this address
		"gone":             "gone",   // the name does not exist
		"Host.example.com": "Host.example.com",
	} {
		if got, err := n.canonical(t.Context(), host); got != want || err != nil {
			t.Errorf("%s is %q, %v; want %q", host, got, err, want)
		}
	}
	if got, err := n.canonical(t.Context(), "unknown"); err == nil {
		t.Errorf("a host that does not resolve is %q", got)
	}
}

// While DNS does not answer, the last answer counts; without one there is no name.
func TestCanonicalNameWithoutDNS(t *testing.T) {
	d := zone()
	n := d.names()
	if _, err := n.canonical(t.Context(), "alias"); err != nil {
		t.Fatal(err)
	}
	d.fails = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	if got, err := n.canonical(t.Context(), "alias"); got != "Host.example.com" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, host := range []string{"six", "10.0.0.8"} {
		if got, err := n.canonical(t.Context(), host); !errors.Is(err, d.fails) {
			t.Errorf("%s: %q, %v", host, got, err)
		}
	}
}

// Servers log in with the principals of canonical names, whatever the server lines say.
func TestKerberosByCanonicalName(t *testing.T) {
	for _, c := range []struct {
		host    string // to which the learner has connected
		client  string // the learner's principal
		members []string
		names   *Names
		err     string
	}{
		{"alias", "zkquorum/zk8.example.com", []string{"alias", "10.0.0.8", "unknown"}, zone().names(), ""},
		{"10.0.0.7", "zkquorum/ZK8.example.com", []string{"10.0.0.8"}, zone().names(), ""},
		{"alias", "zkquorum/10.0.0.8", []string{"10.0.0.8"}, zone().names(), "names a host that no server line has (the canonical name of 10.0.0.8 is zk8.example.com)"},
		{"alias", "zkquorum/alias", []string{"alias"}, zone().names(), "names a host that no server line has"},
		{"alias", "zkquorum/zk8.example.com", []string{"unknown"}, zone().names(), "the canonical name of unknown: lookup unknown: no such host"},
		{"alias", "zkquorum/zk8.example.com", nil, zone().names(), "names a host that no server line has"},
		{"host.example.com", "zkquorum/zk8.example.com", []string{"10.0.0.8"}, nil, "names a host that no server line has"},
	} {
		both := byKerberos(t, c.client, "", c.names)
		o := connectHost(t, both, both, c.host, c.members...)
		switch {
		case c.err == "" && (o.proved != nil || o.admitted != nil || o.name != c.client+"@"+tickets.Realm):
			t.Errorf("%s of %v: %+v", c.client, c.members, o)
		case c.err != "" && (!errors.Is(o.admitted, ErrRefused) || !strings.Contains(o.admitted.Error(), c.err)):
			t.Errorf("%s of %v: %v; want %q", c.client, c.members, o.admitted, c.err)
		}
	}
	d := zone()
	d.fails = errors.New("DNS is away")
	err := New(byKerberos(t, "zkquorum/zk8.example.com", "", d.names())).Prove(t.Context(), strings.NewReader(""), nil, "alias")
	if !errors.Is(err, d.fails) || errors.Is(err, ErrRefused) {
		t.Errorf("without DNS: %v", err)
	}
}
