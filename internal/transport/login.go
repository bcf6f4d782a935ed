package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// errLogin is wrapped by the reason for the end of a link whose learner has not logged in.
var errLogin = errors.New("transport: login")

// prove logs this server in at the leader that the link was dialled to. The reader calls
// it before LinkUp.
func (l *link) prove(ctx context.Context) error {
	a := l.t.o.Authority
	if a == nil || !a.LearnerRequired() {
		return nil
	}
	sock, host := l.sock.Load(), ""
	if addresses := l.t.addresses(l.peer); len(addresses) > 0 {
		host = addresses[len(addresses)-1].Host // as in Apache
	}
	until := time.Now().Add(l.t.o.HandshakeTimeout)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	_, _ = sock.SetReadDeadline(until), sock.SetWriteDeadline(until) // fail only if closed; then reading fails too
	if err := a.Prove(ctx, &l.in, sock, host); err != nil {
		l.t.noteLogin(l.peer, l.remote, err)
		return err
	}
	_, _ = sock.SetReadDeadline(time.Time{}), sock.SetWriteDeadline(time.Time{})
	return nil
}

// admit has the learner log in that has connected to the quorum port. The reader calls it
// before LinkUp; the deadline is that of the first packet.
func (l *link) admit(deadline time.Time) error {
	a := l.t.o.Authority
	if a == nil {
		return nil
	}
	sock := l.sock.Load()
	_ = sock.SetWriteDeadline(deadline) // fails only if closed; then reading fails too
	name, err := a.Admit(&l.in, sock, l.t.memberHosts)
	if err != nil {
		return fmt.Errorf("%w: %w", errLogin, err)
	}
	_ = sock.SetWriteDeadline(time.Time{}) // fails only if closed
	l.t.loggedIn(name, "quorum port", l.remote)
	return nil
}

// provePeer logs this server in at the peer that it has connected to. It does nothing for a
// peer that is not a member and has not had to log in here before it asked for the
// connection: a stranger could try passwords on what a login shows.
func (t *Transport) provePeer(id int64, link *electionLink, targets []target) error {
	a := t.o.Authority
	if a == nil || !a.LearnerRequired() || !t.member(id) && !a.ServerRequired() {
		return nil
	}
	until := time.Now().Add(t.o.ElectionTimeout)
	ctx, cancel := context.WithDeadline(t.ctx, until)
	defer cancel()
	defer context.AfterFunc(t.ctx, func() { link.nc.Close() })() // an error changes nothing: reading ends
	_ = link.nc.SetDeadline(until)                               // fails only if closed; then reading fails too
	if err := a.Prove(ctx, link.in, link.nc, targets[len(targets)-1].host); err != nil {
		t.noteLogin(id, link.remote, err)
		return err
	}
	_ = link.nc.SetDeadline(time.Time{}) // fails only if closed
	return nil
}

// loginPatience is how long a peer that need not log in may say nothing after its first
// message. A login follows at once; a notification may be due much later. It is less than
// askPause, after which this server asks for the connection again.
const loginPatience = askPause / 2

// admitPeerLogin has the peer log in whose first message was read. The deadline for that
// is the login's, too.
func (t *Transport) admitPeerLogin(id int64, link *electionLink, deadline time.Time) error {
	a := t.o.Authority
	if a == nil {
		return nil
	}
	if !a.ServerRequired() {
		_ = link.nc.SetReadDeadline(time.Now().Add(min(loginPatience, t.o.ElectionTimeout))) // fails only if closed
		if _, err := link.in.Peek(1); err != nil {
			return nil // it does not log in; the next read reports err again, unless that was the deadline
		}
		_ = link.nc.SetReadDeadline(deadline) // fails only if closed
	}
	name, err := a.Admit(link.in, link.nc, t.memberHosts)
	if err == nil {
		t.loggedIn(name, "election port", link.remote, "peer", id)
	}
	return err
}

// noteLogin logs that this server could not log in, unless it stops.
func (t *Transport) noteLogin(id int64, remote string, err error) {
	if t.ctx.Err() == nil {
		t.refused.Warn("this server could not log in at another server", "peer", id, "remote", remote, "err", err)
	}
}

// loggedIn logs that another server has logged in.
func (t *Transport) loggedIn(name, port, remote string, more ...any) {
	if name != "" {
		t.log.Debug("another server has logged in", append([]any{"user", name, "port", port, "remote", remote}, more...)...)
	}
}

// memberHosts returns the hosts of all servers of the configuration.
func (t *Transport) memberHosts() (hosts []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, addresses := range t.mu.known {
		for _, a := range addresses {
			if !slices.Contains(hosts, a.Host) {
				hosts = append(hosts, a.Host)
			}
		}
	}
	return hosts
}
