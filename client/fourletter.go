package client

import (
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrNotServing is the error of Srvr for a server that is alive and serves no clients,
// such as a member without a quorum.
var ErrNotServing = fourletter.ErrNotServing

// ServerStatus is what a server reports in answer to srvr.
type ServerStatus struct {
	Version string // up to the first comma: "3.9.4-2d3f..."
	Mode    string // leader, follower, observer, read-only or standalone
	Zxid    zk.Zxid
}

// FourLetter sends a four-letter word, such as "mntr", to the client port of a server, host:port, and
// returns the whole answer, at most 1 MiB. It needs no session. A server answers only the
// words that its 4lw.commands.whitelist has; its answer to another one says so. The error
// is that of the connection, or of ctx.
func FourLetter(ctx context.Context, addr, word string) (string, error) {
	return fourletter.Ask(ctx, addr, word)
}

// Srvr asks a server for its status by the word srvr, which every server answers unless
// its whitelist leaves the word out. See ErrNotServing.
func Srvr(ctx context.Context, addr string) (ServerStatus, error) {
	s, err := fourletter.Srvr(ctx, addr)
	return ServerStatus(s), err
}

// Ruok asks a server whether its process works. A server without a quorum answers that it
// does; whether clients can write, only Srvr tells, or the page /readyz of Pinfold's
// administration server.
func Ruok(ctx context.Context, addr string) error {
	switch answer, err := fourletter.Ask(ctx, addr, "ruok"); {
	case err != nil:
		return err
	case answer != "imok":
		return errors.New("ruok: the server does not say imok: is the word in its 4lw.commands.whitelist?")
	}
	return nil
}
