package recipe

import (
	"context"
	"strconv"

	"github.com/pinfold-zk/pinfold/client"
)

// await returns when a watch has fired or its session is over; whoever waits looks
// again then. The error is the context's.
func await(ctx context.Context, w *client.Watch) error {
	select {
	case <-w.Events():
		return nil
	case <-ctx.Done():
		forget(ctx, w)
		return context.Cause(ctx)
	}
}

// waitGone returns when a znode does not exist.
func waitGone(ctx context.Context, c Client, path string) error {
	for {
		var exists bool
		var w *client.Watch
		err := retry(ctx, func() (err error) {
			_, exists, w, err = c.ExistsW(ctx, path)
			return err
		})
		switch {
		case err != nil:
			return err
		case !exists:
			forget(ctx, w)
			return nil
		}
		if err := await(ctx, w); err != nil {
			return err
		}
	}
}

// sequence is the number at the end of a sequential znode's name; -1 without one.
func sequence(name string) int {
	if len(name) < 10 {
		return -1
	}
	n, err := strconv.ParseUint(name[len(name)-10:], 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}
