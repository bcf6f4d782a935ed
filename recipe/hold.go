package recipe

import (
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A hold is a znode of a session that represents a lock, a lease or a membership. It
// reports its loss.
type hold struct {
	path   string
	czxid  zk.Zxid
	lost   chan struct{} // closed when the znode is gone, for whatever cause
	ended  context.Context
	cancel context.CancelFunc
}

// keep begins to watch a znode that was made by transaction czxid, until the hold
// is given up. The context lends its values only.
func keep(ctx context.Context, c Client, path string, czxid zk.Zxid) *hold {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &hold{path: path, czxid: czxid, lost: make(chan struct{}), ended: ctx, cancel: cancel}
	go h.watch(ctx, c)
	return h
}

// rely closes lost also when v gives up, which was begun before the znode was known
// to be there.
func (h *hold) rely(v *vigil) {
	if !v.report(func(error) { h.cancel() }) {
		h.cancel()
	}
	context.AfterFunc(h.ended, v.stop)
}

// watch returns when the znode is gone, when the session has ended, or when the
// hold was given up. An operation that fails permanently means that the session is
// not usable any more.
func (h *hold) watch(ctx context.Context, c Client) {
	defer close(h.lost)
	defer h.cancel()
	for {
		stat, exists, w, err := c.ExistsW(ctx, h.path)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return
		case !exists || stat.Czxid != h.czxid:
			forget(ctx, w)
			return
		}
		select {
		case e := <-w.Events():
			if e.Type == zk.EventNone { // the session's end
				return
			}
		case <-ctx.Done():
			forget(ctx, w)
			return
		}
	}
}

// give deletes the znode, and closes lost. The error is that of the session's end,
// which deletes it too, or the context's: then it is deleted in the background.
func (h *hold) give(ctx context.Context, c Client) error {
	err := deleteMade(ctx, c, h.path, h.czxid)
	if ctx.Err() != nil {
		background(ctx, func(ctx context.Context) { deleteMade(ctx, c, h.path, h.czxid) }) // fails at the session's end alone
	}
	h.cancel()
	<-h.lost
	return err
}

// forget removes a watch that is no longer needed; w may be nil. The server
// is not told, which would take its time, and which one older than 3.5 does not
// understand: the Client discards the one event that may still come.
func forget(ctx context.Context, w *client.Watch) {
	if w != nil {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		w.Remove(ctx) // the error is the context's
	}
}

// takeBack deletes what the create of a znode whose name contains guid may have
// made, or will make when its request is executed. It does so in the background,
// as soon as there is a connection; the session's end ends it.
func takeBack(ctx context.Context, c Client, base, guid string) {
	background(ctx, func(ctx context.Context) {
		if name, _, err := find(ctx, c, base, guid); err == nil && name != "" {
			deleteIfThere(ctx, c, join(base, name)) // fails at the session's end alone
		}
	})
}

// background runs f, which ends with the session at the latest, with a context
// that does not end.
func background(ctx context.Context, f func(ctx context.Context)) {
	go f(context.WithoutCancel(ctx))
}

// deleteMade deletes the znode that transaction czxid made. It leaves alone one
// that was made later under the same name, unless that is made between the look
// and the deletion.
func deleteMade(ctx context.Context, c Client, path string, czxid zk.Zxid) error {
	return retry(ctx, func() error {
		stat, exists, err := c.Exists(ctx, path)
		if err != nil || !exists || stat.Czxid != czxid {
			return err
		}
		if err := c.Delete(ctx, path, -1); !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		return nil
	})
}
