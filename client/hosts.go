package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
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

// lookUp finds an address of a member of the connect string, at random if its name
// has several. Names are looked up at every attempt, as members may move.
func lookUp(ctx context.Context, r Resolver, member string) (Host, error) {
	name, port, err := net.SplitHostPort(member)
	if err != nil {
		return Host{}, err // parseConnectString let none pass
	}
	if net.ParseIP(name) != nil {
		return Host{name, member, member}, nil
	}
	addrs, err := r.LookupHost(ctx, name)
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

// errRebalanced ends the connection to a member because the list of members has changed.
var errRebalanced = errors.New("the client goes to another member of the new list")

// UpdateServers replaces the members of the connect string; a chroot in it must be
// the Client's. The Client stays connected, or goes to another member with its session,
// by Apache's rule, which spreads all clients evenly over the new list: it leaves a
// member that is not listed any more, and, if the list has become longer, one that is
// listed with the probability 1 - old length / new length, for a new member. When it
// leaves, operations under way fail with zk.ErrConnectionLoss. It is an error with
// [Hosts], which chooses the members itself.
func (c *Client) UpdateServers(servers string) error {
	members, chroot, err := parseConnectString(servers)
	switch list, ours := c.hosts.(*serverList); {
	case err != nil:
		return err
	case !ours:
		return errors.New("client: update of servers: the members are those of a HostProvider")
	case len(members) == 0:
		return errors.New("client: the connect string names no server")
	case chroot != "" && chroot != c.chroot:
		return fmt.Errorf("client: update of servers: chroot %s, not %s", chroot, c.chroot)
	default:
		c.goOn(func() (leave bool) { return list.update(members, nil) })
	}
	return nil
}

// goOn changes the list of members by update, and ends the connection if the Client is to
// leave. It is closed without the lock: with TLS, Close may wait for the server.
func (c *Client) goOn(update func() (leave bool)) {
	c.mu.Lock()
	l := c.link
	leave := update() && l != nil
	if leave {
		l.why = errRebalanced
	}
	c.mu.Unlock()
	if leave {
		l.conn.Close()
	}
}
