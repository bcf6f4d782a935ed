package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/zk"
)

// Live is a real ensemble.
type Live struct {
	Servers *member.Live // asks servers; it needs no Client
	// Open opens a session.
	Open func(ctx context.Context, servers string, opts ...client.Option) (*client.Client, error)

	StopCommand, StartCommand string   // for sh; see Member.expand
	Output                    *os.File // of the commands
}

// askTimes is how often a member is asked that closes the connection without an answer, as
// Apache ZooKeeper 3.4 mostly does on a recent JVM.
const askTimes = 30

// Status asks for the status until there is an answer.
func (l *Live) Status(ctx context.Context, m Member) (s fourletter.Status, err error) {
	for range askTimes {
		s, err = l.Servers.Status(ctx, m.Client)
		var op *net.OpError
		closed := errors.Is(err, fourletter.ErrNotServing) || errors.As(err, &op) && op.Op != "dial"
		if !closed || ctx.Err() != nil {
			break
		}
	}
	return s, err
}

// Sessions asks by the four-letter word dump.
func (l *Live) Sessions(ctx context.Context, m Member) (map[zk.SessionID]int32, error) {
	return l.Servers.Sessions(ctx, m.Client)
}

// Stop runs the stop command.
func (l *Live) Stop(ctx context.Context, m Member) error { return l.run(ctx, l.StopCommand, m) }

// Start runs the start command.
func (l *Live) Start(ctx context.Context, m Member) error { return l.run(ctx, l.StartCommand, m) }

// CanHandOver reports whether the port of the member's administration server is known.
func (l *Live) CanHandOver(m Member) bool { return l.Servers.CanHandOver(m.ID) }

// HandOver asks that.
func (l *Live) HandOver(ctx context.Context, m Member) error {
	return l.Servers.HandOver(ctx, &client.Member{ID: m.ID, Addresses: []client.MemberAddress{{Host: m.Host}}})
}

// run runs a command. Its output is that of this program, so that what it leaves running may
// keep it.
func (l *Live) run(ctx context.Context, text string, m Member) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", m.expand(text))
	cmd.Stdout, cmd.Stderr = l.Output, l.Output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", m.expand(text), err)
	}
	return nil
}

// expand replaces {id}, {host} and {client}.
func (m Member) expand(text string) string {
	return strings.NewReplacer("{id}", fmt.Sprint(m.ID), "{host}", m.Host, "{client}", m.Client).Replace(text)
}

// Dial opens a session.
func (l *Live) Dial(ctx context.Context, servers string, opts ...client.Option) (*client.Client, error) {
	return l.Open(ctx, servers, opts...)
}
