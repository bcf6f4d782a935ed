package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/zk"
)

// Members is the configuration of an ensemble. The zero value is that of a server that
// is standalone.
type Members struct {
	Version zk.Zxid  // of the transaction that made it; 0 before the first change
	Members []Member // by ascending ID
	// Groups is true if the members have groups or weights: a quorum is then not a
	// majority of the participants.
	Groups bool
}

// Member is a member of an ensemble, as its server line has it.
type Member struct {
	ID        int64
	Observer  bool            // without a vote
	Addresses []MemberAddress // for the other members; one or more
	Client    string          // host:port for clients, as configured: the host may be 0.0.0.0; "" if it is not in the line
	Secure    string          // the same for clients with TLS

	line string
}

// MemberAddress is where a member listens for the other members.
type MemberAddress struct {
	Host         string
	QuorumPort   int
	ElectionPort int
}

// Line returns the member's server line, as [Reconfig] takes it:
// "server.4=host:2888:3888:participant;0.0.0.0:2181".
func (m Member) Line() string { return fmt.Sprintf("server.%d=%s", m.ID, m.line) }

// WithRole returns the member with or without a vote.
func (m Member) WithRole(observer bool) Member {
	const with, without = ":participant", ":observer"
	from, to := without, with
	if observer {
		from, to = with, without
	}
	m.Observer, m.line = observer, strings.Replace(m.line, from, to, 1)
	return m
}

// ClientAddr returns the address for clients as it can be dialled: the first host of
// Addresses if the member listens on all addresses; "" if the line has none.
func (m Member) ClientAddr() string { return m.dialled(m.Client) }

// SecureAddr is ClientAddr for clients with TLS. (Apache ZooKeeper before 3.10 and
// Pinfold have no such address in the configuration.)
func (m Member) SecureAddr() string { return m.dialled(m.Secure) }

func (m *Member) dialled(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = m.Addresses[0].Host
	}
	return net.JoinHostPort(host, port)
}

// Find returns the member with that id; nil if there is none.
func (m *Members) Find(id int64) *Member {
	for i := range m.Members {
		if m.Members[i].ID == id {
			return &m.Members[i]
		}
	}
	return nil
}

// ParseMembers reads the text of a configuration, as Client.Config returns it. An empty
// one is that of a standalone server.
func ParseMembers(text []byte) (Members, error) {
	var all Members
	if len(bytes.TrimSpace(text)) == 0 {
		return all, nil
	}
	read, err := config.ParseMembers(text)
	if err != nil {
		return all, err
	}
	all.Version, all.Groups = zk.Zxid(read.Version), read.Hierarchical()
	for i := range read.Servers {
		all.Members = append(all.Members, memberOf(&read.Servers[i]))
	}
	return all, nil
}

// ParseMember reads a server line, "server.4=host:2888:3888:participant;2181"; "server."
// and the role may be missing.
func ParseMember(text string) (Member, error) {
	number, value, ok := strings.Cut(strings.TrimPrefix(text, "server."), "=")
	id, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || id < 0 {
		return Member{}, fmt.Errorf("client: member %q: not of the form server.4=host:2888:3888;2181", text)
	}
	s, err := config.ParseMember(id, value)
	if err != nil {
		return Member{}, fmt.Errorf("client: member %q: %w", text, err)
	}
	return memberOf(&s), nil
}

func memberOf(s *config.Member) Member {
	m := Member{ID: s.ID, Observer: s.Observer, line: s.Line()}
	for _, a := range s.Addresses {
		m.Addresses = append(m.Addresses, MemberAddress(a))
	}
	if s.HasClient {
		m.Client = net.JoinHostPort(s.ClientHost, strconv.Itoa(s.ClientPort))
	}
	if s.HasSecure {
		m.Secure = net.JoinHostPort(s.SecureHost, strconv.Itoa(s.SecurePort))
	}
	return m
}

// Members returns the configuration of the ensemble: what Config returns, read. It is
// the zero value if the server is standalone.
func (c *Client) Members(ctx context.Context) (Members, error) {
	text, _, err := c.Config(ctx)
	return readMembers(text, err)
}

// MembersAsync is Members with a callback.
func (c *Client) MembersAsync(ctx context.Context, done func(m Members, err error)) {
	c.ConfigAsync(ctx, func(text []byte, _ zk.Stat, err error) { done(readMembers(text, err)) })
}

func readMembers(text []byte, err error) (Members, error) {
	if err != nil {
		return Members{}, err
	}
	m, err := ParseMembers(text)
	if err != nil {
		err = &Error{Op: "members", Path: configPath, Err: zk.ErrMarshalling, Reason: err}
	}
	return m, err
}

// followAgain is how long a Client waits that cannot read the configuration, because
// its servers have none or do not permit it, before it asks again.
const followAgain = time.Minute

// follow updates the list of members until the Client ends, as FollowMembers says.
func (c *Client) follow(list *serverList) {
	list.keepSpare()
	for version := zk.Zxid(-1); ; {
		text, _, changed, err := c.ConfigW(c.stop)
		switch {
		case c.over():
			return
		case errors.Is(err, zk.ErrConnectionLoss), errors.Is(err, zk.ErrSessionExpired):
			continue // the next call waits for a connection
		case err != nil:
			c.opts.log.Warn("the members are not known", "error", err)
			select {
			case <-time.After(followAgain):
			case <-c.stop.Done():
			}
			continue
		}
		m, err := ParseMembers(text)
		if err != nil {
			c.opts.log.Warn("the members are not followed", "error", err)
		} else if m.Version > version {
			update := list.update
			if version < 0 {
				update = list.adopt
			}
			version = m.Version
			c.followTo(update, m)
		}
		select {
		case <-changed.Events():
		case <-c.stop.Done():
		}
	}
}

// over reports whether no operation can succeed any more.
func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead != nil || c.stop.Err() != nil
}

// followTo replaces the list by the members of a configuration.
func (c *Client) followTo(update func(members []string, at func(string) bool) bool, m Members) {
	var addrs []string
	for _, member := range m.Members {
		if addr := c.opts.follow(member); addr != "" {
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		c.opts.log.Warn("the members are not followed: the configuration has no address for clients", "version", m.Version)
		return
	}
	present := c.Server()
	same := map[string]bool{} // the members that are the present one by another name
	for _, addr := range addrs {
		same[addr] = addr == present || c.resolvesTo(addr, present)
	}
	c.opts.log.Info("the members have changed", "version", m.Version, "members", addrs)
	c.goOn(func() (leave bool) { return update(addrs, func(member string) bool { return same[member] }) })
}

// lookUpTimeout bounds the look-up of a member's name that follow does.
const lookUpTimeout = time.Second

// resolvesTo reports whether a member has an address.
func (c *Client) resolvesTo(member, addr string) bool {
	name, port, err := net.SplitHostPort(member)
	if err != nil || addr == "" || net.ParseIP(name) != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(c.stop, lookUpTimeout)
	defer cancel()
	ips, err := c.opts.resolver.LookupHost(ctx, name)
	if err != nil {
		return false
	}
	for _, ip := range ips {
		if net.JoinHostPort(ip, port) == addr {
			return true
		}
	}
	return false
}
