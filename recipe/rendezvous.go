package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// Rendezvous lets processes meet that do not know of each other (the paper, 2.4,
// "Rendezvous"). A starter opens a znode and gives its path to a master and to
// workers. The master fills in where it can be reached; the workers wait for that.
//
// The znode is empty as long as the version of its data is 0: empty data can be
// filled in, too.
type Rendezvous struct {
	c    Client
	path string
	opts RendezvousOptions
}

// RendezvousOptions are what NewRendezvous may be told.
type RendezvousOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa

	// Ephemeral makes the znode that Open creates end with the session of the
	// starter, for the others to clean up then (Gone).
	Ephemeral bool
}

// The errors of a Rendezvous.
var (
	ErrFilled = errors.New("recipe: the rendezvous has been filled in by another")
	ErrGone   = errors.New("recipe: the rendezvous is over: its znode was deleted")
)

// NewRendezvous returns the rendezvous at path. It touches nothing.
func NewRendezvous(c Client, path string, opts RendezvousOptions) *Rendezvous {
	return &Rendezvous{c, path, opts}
}

// Open creates the znode, and what is missing above it. The error is
// zk.ErrNodeExists if there is one already, of another starter or of an earlier
// run. Should the answer be lost, the znode is known by its session if it is
// ephemeral. Otherwise one that was not there before, and is empty, counts as
// made by Open.
func (r *Rendezvous) Open(ctx context.Context) error {
	mode := zk.Persistent
	if r.opts.Ephemeral {
		mode = zk.Ephemeral
	}
	v, err := readNow(ctx, r.c, r.path)
	if err == nil && v.Exists {
		err = fmt.Errorf("open %s: %w", r.path, zk.ErrNodeExists)
	}
	if err == nil {
		_, err = createNamed(ctx, r.c, r.path, nil, mode, r.opts.ACL)
	}
	return err
}

// Fill fills the znode in, once for all masters: the error of a second one is
// ErrFilled, and ErrGone when there is no znode. A second one with the very same
// data, at the moment at which the answer of the first is lost, may count as the
// first. When ErrGone follows a lost answer, the znode may have been filled in
// before it was deleted.
func (r *Rendezvous) Fill(ctx context.Context, data []byte) error {
	_, err := setVersion(ctx, r.c, r.path, data, 0)
	if errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil {
		v, lookErr := readNow(ctx, r.c, r.path)
		switch {
		case lookErr != nil:
			return lookErr
		case !v.Exists, v.Stat.Version <= 1: // it was gone, or setVersion would know; this is another run's
			return ErrGone
		}
	}
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return ErrFilled
	case errors.Is(err, zk.ErrNoNode):
		return ErrGone
	}
	return err
}

// Wait waits until the znode has been filled in, and returns the data. It waits
// for the znode, too, if that is not there; once it was, and is deleted, the error
// is ErrGone.
func (r *Rendezvous) Wait(ctx context.Context) ([]byte, error) {
	for seen := false; ; {
		v, w, err := readW(ctx, r.c, r.path)
		switch {
		case err != nil:
			return nil, err
		case v.Exists && v.Stat.Version != 0:
			forget(ctx, w)
			return v.Data, nil
		case seen && !v.Exists:
			forget(ctx, w)
			return nil, ErrGone
		}
		seen = seen || v.Exists
		if err := await(ctx, w); err != nil {
			return nil, err
		}
	}
}

// Gone waits until the znode does not exist: because it was ephemeral and the
// starter has ended, or because it was closed. Master and workers clean up then.
func (r *Rendezvous) Gone(ctx context.Context) error { return waitGone(ctx, r.c, r.path) }

// Close deletes the znode, whichever client has opened it. A missing znode is no error.
// It deletes one znode: when its answer is lost, one that another has opened in
// the meantime stays.
func (r *Rendezvous) Close(ctx context.Context) error { return deletePresent(ctx, r.c, r.path) }
