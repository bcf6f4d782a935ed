package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
)

// A Host is a member of an ensemble, at an address of it.
type Host struct {
	Name string // as configured, without a port; TLS and SASL verify it
	Addr string // host:port to dial
}

// A HostProvider says where the members are. Its methods are called by one
// goroutine at a time.
type HostProvider interface {
	// Next returns the member to try next. It may look up a name, for no longer
	// than ctx lasts. An error counts as a failed attempt.
	Next(ctx context.Context) (Host, error)

	// Len is the number of members. When as many attempts have failed, the
	// Client waits a little.
	Len() int
}

// A Resolver looks up the addresses of a host name; *net.Resolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) (addrs []string, err error)
}

// shuffled gives the members of a connect string in random order, round by
// round. Names are looked up at every attempt, as members may move.
type shuffled struct {
	resolver Resolver

	mu      sync.Mutex // guards what follows
	members []string   // host:port
	next    int
}

func newShuffled(members []string, r Resolver) *shuffled {
	s := &shuffled{resolver: r, members: append([]string(nil), members...)}
	rand.Shuffle(len(s.members), func(i, j int) { s.members[i], s.members[j] = s.members[j], s.members[i] })
	return s
}

// Len is the number of members.
func (s *shuffled) Len() int { return len(s.members) }

// Next returns the member after the last one, at any of its addresses.
func (s *shuffled) Next(ctx context.Context) (Host, error) {
	s.mu.Lock()
	member := s.members[s.next]
	s.next = (s.next + 1) % len(s.members)
	s.mu.Unlock()
	name, port, err := net.SplitHostPort(member)
	if err != nil {
		return Host{}, err // parseConnectString let none pass
	}
	if net.ParseIP(name) != nil {
		return Host{Name: name, Addr: member}, nil
	}
	addrs, err := s.resolver.LookupHost(ctx, name)
	if err != nil {
		return Host{}, err
	}
	if len(addrs) == 0 {
		return Host{}, fmt.Errorf("%s has no address", name)
	}
	return Host{Name: name, Addr: net.JoinHostPort(addrs[rand.IntN(len(addrs))], port)}, nil
}

// defaultPort is ZooKeeper's for clients.
const defaultPort = "2181"

// parseConnectString splits "h1:2181,h2,[::1]:2181/chroot". There may be no member.
func parseConnectString(s string) (members []string, chroot string, err error) {
	list := s
	if i := strings.IndexByte(s, '/'); i >= 0 {
		list, chroot = s[:i], s[i:]
		if chroot == "/" {
			chroot = ""
		} else if err := CheckPath(chroot); err != nil {
			return nil, "", fmt.Errorf("client: connect string %q: chroot: %w", s, err)
		}
	}
	for member := range strings.SplitSeq(list, ",") {
		member = strings.TrimSpace(member)
		if member == "" {
			continue
		}
		host, port := member, defaultPort
		if h, p, err := net.SplitHostPort(member); err == nil {
			host, port = h, p
		} else if strings.Contains(member, ":") && net.ParseIP(strings.Trim(member, "[]")) == nil {
			return nil, "", fmt.Errorf("client: connect string %q: %w", s, err)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, "", fmt.Errorf("client: connect string %q: port %q is not between 1 and 65535", s, port)
		}
		members = append(members, net.JoinHostPort(strings.Trim(host, "[]"), port))
	}
	return members, chroot, nil
}
