package recipe

import (
	"context"
	"reflect"
	"strconv"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// await returns when a watch has fired or its session is over; the caller
// reads again then. The error is the context's.
func await(ctx context.Context, w *client.Watch) error {
	select {
	case <-w.Events():
		return nil
	case <-ctx.Done():
		forget(ctx, w)
		return context.Cause(ctx)
	}
}

// awaitAny returns the name of a watch that has fired, of several. The error is the
// context's; no watch is forgotten.
func awaitAny(ctx context.Context, watches map[string]*client.Watch) (string, error) {
	names := make([]string, 0, len(watches))
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(ctx.Done())}}
	for name, w := range watches {
		names = append(names, name)
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.Events())})
	}
	i, _, _ := reflect.Select(cases)
	if i == 0 {
		return "", context.Cause(ctx)
	}
	return names[i-1], nil
}

// waitGone returns when a znode does not exist, or has been deleted since.
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
		select {
		case e := <-w.Events():
			if e.Type == zk.EventNodeDeleted {
				return nil
			}
		case <-ctx.Done():
			forget(ctx, w)
			return context.Cause(ctx)
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
