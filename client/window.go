package client

import "context"

// window counts the asynchronous operations whose callbacks have not run (P6).
// The Client's mu guards it.
type window struct {
	used int
	room chan struct{} // closed and replaced when waiting callers have room
}

type noWaitKey struct{}

// NoWait returns a context whose asynchronous operations take a place among the
// outstanding ones even when all are taken ([MaxOutstanding]). It is for
// callbacks: a callback that waited for a place would wait for itself.
func NoWait(ctx context.Context) context.Context { return context.WithValue(ctx, noWaitKey{}, true) }

// enterWindow takes a place, and waits for one if it must. c.mu is held, but not
// while it waits. The error is the context's, or the Client's end.
func (c *Client) enterWindow(ctx context.Context) error {
	w := &c.window
	for w.used >= c.opts.outstanding && c.dead == nil && !c.closing && ctx.Value(noWaitKey{}) == nil {
		if w.room == nil {
			w.room = make(chan struct{})
		}
		room := w.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		case <-c.stop.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if c.dead != nil || c.closing {
		return c.end()
	}
	w.used++
	return nil
}

// leave gives n places back.
func (w *window) leave(n int) {
	w.used -= n
	if w.room != nil {
		close(w.room)
		w.room = nil
	}
}
