package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Host is a member of an ensemble, at an address of it.
type Host struct {
	Name string // as configured, without a port; TLS and SASL verify it
	Addr string // host:port to dial

	member string // of the connect string
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
func (s *shuffled) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.members)
}

// replace takes other members.
func (s *shuffled) replace(members []string) {
	n := newShuffled(members, s.resolver)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members, s.next = n.members, 0
}

func (s *shuffled) has(member string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.members, member)
}

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
		return Host{name, member, member}, nil
	}
	addrs, err := s.resolver.LookupHost(ctx, name)
	if err != nil {
		return Host{}, err
	}
	if len(addrs) == 0 {
		return Host{}, fmt.Errorf("%s has no address", name)
	}
	return Host{name, net.JoinHostPort(addrs[rand.IntN(len(addrs))], port), member}, nil
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

// errNotListed ends the connection to a member that UpdateServers has left out.
var errNotListed = errors.New("the member is no longer listed")

// UpdateServers replaces the members of the connect string; a chroot in it must be
// the Client's. The Client stays where it is if that member is still listed, and
// else goes to another with its session; operations under way fail with
// zk.ErrConnectionLoss then. It is an error with [Hosts], whose business this is.
func (c *Client) UpdateServers(servers string) error {
	members, chroot, err := parseConnectString(servers)
	switch list, ours := c.hosts.(*shuffled); {
	case err != nil:
		return err
	case !ours:
		return errors.New("client: update of servers: the members are those of a HostProvider")
	case len(members) == 0:
		return errors.New("client: the connect string names no server")
	case chroot != "" && chroot != c.chroot:
		return fmt.Errorf("client: update of servers: chroot %s, not %s", chroot, c.chroot)
	default:
		list.replace(members)
		c.leave(list)
	}
	return nil
}

// leave ends the connection to a member that is not in the list.
func (c *Client) leave(list *shuffled) {
	c.mu.Lock()
	l := c.link
	stay := l == nil || list.has(l.member)
	if !stay {
		l.why = errNotListed
	}
	c.mu.Unlock()
	if !stay {
		l.conn.Close()
	}
}
