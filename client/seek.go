package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// How long a Client that is at a read-only member waits before it asks another
// member whether it has a quorum: first, and at most. The wait doubles.
const (
	firstSeek = 100 * time.Millisecond
	lastSeek  = time.Minute
)

// errQuorumFound ends the connection to a read-only member.
var errQuorumFound = errors.New("a member with a quorum was found")

// A seeker looks for a member with a quorum while a read-only one answers. It asks
// HostProvider for members; connect does not run meanwhile.
type seeker struct {
	client *Client
	link   *link
	ctx    context.Context // ends with the link
}

func (s *seeker) seek() {
	for wait := firstSeek; ; wait = min(2*wait, lastSeek) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.ctx.Done():
			t.Stop()
			return
		}
		host, err := s.ask()
		if err != nil {
			s.client.opts.log.Debug("no quorum found", "error", err)
			continue
		}
		s.client.prefer(s.link, host)
		return
	}
}

// ask asks the next member, by the four-letter word that servers answer for this
// purpose. The error says why it is of no use.
func (s *seeker) ask() (Host, error) {
	c := s.client
	ctx, cancel := context.WithTimeout(s.ctx, c.patience())
	defer cancel()
	host, err := c.hosts.Next(ctx)
	if err != nil {
		return host, err
	}
	conn, err := c.open(ctx, host)
	if err != nil {
		return host, err
	}
	defer conn.Close()
	ended := context.AfterFunc(ctx, func() { conn.Close() })
	defer ended()
	if _, err := conn.Write([]byte("isro")); err != nil {
		return host, err
	}
	answer := make([]byte, 2)
	if _, err := io.ReadFull(conn, answer); err != nil {
		return host, err
	}
	if string(answer) != "rw" {
		return host, fmt.Errorf("%s answers isro by %q", host.Addr, answer)
	}
	return host, nil
}

// prefer makes a host the next one to try, and ends the connection.
func (c *Client) prefer(l *link, host Host) {
	c.mu.Lock()
	c.preferred, l.why = host, errQuorumFound
	c.mu.Unlock()
	l.conn.Close()
}

// nextHost is the preferred host, once, or the next one.
func (c *Client) nextHost(ctx context.Context) (Host, error) {
	c.mu.Lock()
	host := c.preferred
	c.preferred = Host{}
	c.mu.Unlock()
	if host.Addr != "" {
		return host, nil
	}
	return c.hosts.Next(ctx)
}

// patience is how long an attempt to connect may take. For a new session, which
// the servers must agree on, it is the timeout divided by the number of members.
// One that lives is only looked up, and time presses: a member that accepts
// connections and never answers (an Apache that is still starting may do so) must
// not cost a lock's holder the third of the timeout for which it can be sure. So all
// members are tried twice while the session lives, a few of them six times; but a
// busy member has a second, if there is one.
func (c *Client) patience() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	members := time.Duration(max(c.hosts.Len(), 1))
	if c.session.timeout == 0 || c.session.local {
		return c.opts.timeout / members
	}
	d := c.session.timeout
	return max(d/max(2*members, 6), min(time.Second, d/members))
}

// open connects to a host, with TLS if it is asked for.
func (c *Client) open(ctx context.Context, host Host) (net.Conn, error) {
	conn, err := c.opts.dial(ctx, "tcp", host.Addr)
	if err != nil || c.opts.tls == nil {
		return conn, err
	}
	config := c.opts.tls.Clone()
	if config.ServerName == "" {
		config.ServerName = host.Name
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}
