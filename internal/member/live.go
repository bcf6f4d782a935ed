package member

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/zk"
)

// Live is a real ensemble.
type Live struct {
	Client *client.Client
	// Dial connects to one server, with the credentials of Client.
	Dial func(ctx context.Context, server string) (*client.Client, error)
	TLS  *tls.Config // of the client ports; nil for none

	// ClientPort is that of members whose lines have none; 0 if it is not known.
	ClientPort int

	AdminPorts    AdminPorts
	Authorization string // the header of requests to administration servers; a secret
}

// AdminPorts are the ports of administration servers.
type AdminPorts struct {
	All  int           // of the members that ByID does not have; 0: none
	ByID map[int64]int // where they differ
}

// ParseAdminPorts reads "8080", or "1=8081,2=8082".
func ParseAdminPorts(text string) (AdminPorts, error) {
	a := AdminPorts{ByID: map[int64]int{}}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		id, port, one := strings.Cut(part, "=")
		if !one {
			id, port = "0", part
		}
		number, err1 := strconv.ParseInt(id, 10, 64)
		n, err2 := strconv.ParseUint(port, 10, 16)
		if err1 != nil || err2 != nil || n == 0 {
			return a, fmt.Errorf("--admin-port %q: not of the form 8080, or 1=8081,2=8082", text)
		}
		if one {
			a.ByID[number] = int(n)
		} else {
			a.All = int(n)
		}
	}
	return a, nil
}

// Members syncs, and returns the configuration.
func (l *Live) Members(ctx context.Context) (client.Members, error) {
	if err := l.Client.Sync(ctx, "/"); err != nil {
		return client.Members{}, err
	}
	m, err := l.Client.Members(ctx)
	return l.withPorts(m), err
}

// withPorts gives the members without a client port in their lines that of ClientPort.
func (l *Live) withPorts(m client.Members) client.Members {
	for i := range m.Members {
		if one := &m.Members[i]; one.Client == "" && l.ClientPort != 0 {
			one.Client = net.JoinHostPort("0.0.0.0", strconv.Itoa(l.ClientPort))
		}
	}
	return m
}

// Status asks by the four-letter word srvr.
func (l *Live) Status(ctx context.Context, addr string) (fourletter.Status, error) {
	nc, err := l.connect(ctx, addr)
	if err != nil {
		return fourletter.Status{}, err
	}
	text, err := fourletter.AskOn(ctx, nc, "srvr")
	if err != nil {
		return fourletter.Status{}, err
	}
	return fourletter.Parse(text)
}

// Sessions asks for the sessions by the four-letter word dump.
func (l *Live) Sessions(ctx context.Context, addr string) (map[zk.SessionID]int32, error) {
	nc, err := l.connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return fourletter.SessionsOn(ctx, nc)
}

// connect opens a connection for a four-letter word.
func (l *Live) connect(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil || l.TLS == nil {
		return nc, err
	}
	config := l.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	return tls.Client(nc, config), nil
}

// MembersAt reads the configuration by a session at that server.
func (l *Live) MembersAt(ctx context.Context, addr string) (client.Members, error) {
	c, err := l.Dial(ctx, addr)
	if err != nil {
		return client.Members{}, err
	}
	m, err := c.Members(ctx)
	return l.withPorts(m), errors.Join(err, c.Close())
}

// LookUp resolves by the resolver of this machine, or by the command resolve of an
// administration server.
func (l *Live) LookUp(ctx context.Context, at *client.Member, host string) error {
	if at == nil {
		_, err := net.DefaultResolver.LookupHost(ctx, host)
		return err
	}
	return l.admin(ctx, at, "resolve?host="+url.QueryEscape(host))
}

// Reconfig asks for the change.
func (l *Live) Reconfig(ctx context.Context, change client.Reconfig) error {
	_, _, err := l.Client.Reconfig(ctx, change)
	return err
}

// Write commits a transaction of a check alone.
func (l *Live) Write(ctx context.Context) error {
	t := l.Client.Txn()
	t.Check("/", -1)
	return t.Commit(ctx)
}

// CanHandOver reports whether the port of the leader's administration server is known.
func (l *Live) CanHandOver(leader int64) bool { return l.AdminPorts.Port(leader) != 0 }

// HandOver uses the command hand_over of an administration server, which Apache's have not.
func (l *Live) HandOver(ctx context.Context, leader *client.Member) error {
	err := l.admin(ctx, leader, "hand_over")
	if errors.Is(err, ErrNotAsked) {
		return fmt.Errorf("%w: Apache ZooKeeper has no command hand_over; without --admin-port the leader is made an observer and a participant again", err)
	}
	return err
}

// Port returns the port of a member's administration server, 0 if it is not known.
func (a AdminPorts) Port(id int64) int {
	if port, ok := a.ByID[id]; ok {
		return port
	}
	return a.All
}

// maxAdminAnswer bounds the answer of an administration server, in bytes.
const maxAdminAnswer = 64 << 10

// admin runs a command of a member's administration server. The error is ErrNotAsked if its
// port is not known, or it does not know the command.
func (l *Live) admin(ctx context.Context, m *client.Member, command string) error {
	port := l.AdminPorts.Port(m.ID)
	if port == 0 {
		return ErrNotAsked
	}
	addr := net.JoinHostPort(m.Addresses[0].Host, strconv.Itoa(port))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/commands/"+command, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", l.Authorization)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return fmt.Errorf("the administration server of server %d: %w", m.ID, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAdminAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusMethodNotAllowed:
		return ErrNotAsked
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
		return fmt.Errorf("the administration server of server %d refuses the credentials: %w", m.ID, zk.ErrNoAuth)
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("server %d: %s", m.ID, strings.TrimSpace(string(text)))
	}
	return nil
}
