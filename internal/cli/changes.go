package cli

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// liveCommands are those that last: they watch, hold, or wait for people.
func liveCommands() []command {
	return []command{watchCommand(), lockCommand(), electCommand(), txnCommand(), editCommand()}
}

func watchCommand() command {
	return command{
		name: "watch", synopsis: "[--data] [--single] [-n count] [path]", short: "Print changes as they happen",
		long: `Prints what happens to a node and all below it: that nodes are created or deleted,
and that data is set; until it is interrupted. An event says that a node has changed,
not how often: changes in quick succession are printed as one. After a lost
connection, "Unknown" says that events may have been missed.

Servers know this kind of watch from 3.6 on. With older ones, all nodes are read
and kept in memory, a watch is left on each, and what was missed is found out.`,
		examples: `watch /app
watch --data /app/config          # with the data as it is when the event has come
watch -n 1 /app/ready             # wait for one change, in a script
watch --output json / | jq .path`,
		max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var o watchOptions
			f.BoolVarP(&o.data, "data", "d", false, "read and print the data of nodes that are created or set")
			f.BoolVar(&o.single, "single", false, "only the node itself: its data and its list of children")
			f.IntVarP(&o.count, "count", "n", 0, "end after so many events; 0 for never")
			return func(ctx context.Context, s *shell, args []string) error {
				return s.watchChanges(ctx, pathsOf(args)[0], o)
			}
		},
	}
}

type watchOptions struct {
	data, single bool
	count        int
}

// seenChange is an event in JSON.
type seenChange struct {
	Time  string `json:"time"`
	Event string `json:"event"`
	Path  string `json:"path"`
	Zxid  string `json:"zxid,omitempty"`
	*jsonData
	Version *int32 `json:"version,omitempty"` // of the data
}

func (s *shell) watchChanges(ctx context.Context, path string, o watchOptions) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	mode := zk.AddWatchPersistentRecursive
	if o.single {
		mode = zk.AddWatchPersistent
	}
	w, err := c.AddWatch(ctx, path, mode)
	if errors.Is(err, zk.ErrUnimplemented) {
		return s.watchByCache(ctx, c, path, o)
	}
	if err != nil {
		return err
	}
	defer func() { // the session may be over, or the connection away
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		w.Remove(stop)
	}()
	r := s.rows("time", "event", "path", "data")
	defer r.end()
	for seen := 0; o.count == 0 || seen < o.count; seen++ {
		select {
		case <-ctx.Done():
			return nil // that is how it ends
		case e, open := <-w.Events():
			if err := ended(e, open); err != nil {
				return err
			}
			if err := s.printChange(ctx, c, r, e, o.data); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended is the error of a watch that an event says to be over.
func ended(e zk.Event, open bool) error {
	switch {
	case !open || e.Type == zk.EventNone && e.State == zk.StateClosed:
		return client.ErrClosed
	case e.Type == zk.EventNone && e.State == zk.StateExpired:
		return zk.ErrSessionExpired
	case e.Type == zk.EventNone && e.State == zk.StateAuthFailed:
		return zk.ErrAuthFailed
	}
	return nil
}

func (s *shell) printChange(ctx context.Context, c *client.Client, r *rows, e zk.Event, withData bool) error {
	change := seenChange{Time: isoTime(time.Now().UnixMilli()), Event: e.Type.String(), Path: e.Path}
	if e.Type == zk.EventNone {
		change.Event = "Unknown"
	}
	if e.Zxid > 0 {
		change.Zxid = e.Zxid.String()
	}
	text := ""
	if withData && (e.Type == zk.EventNodeCreated || e.Type == zk.EventNodeDataChanged) {
		data, stat, err := c.Get(ctx, e.Path)
		switch {
		case err == nil:
			value := dataJSON(data)
			change.jsonData, change.Version = &value, &stat.Version
			if text = string(data); binary(data) {
				text = strconv.Quote(text)
			}
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, zk.ErrNoNode):
			text = "(gone already)"
		case isFatal(err):
			return err
		default:
			text = "(" + err.Error() + ")"
		}
	}
	plain := change.Time + " " + change.Event + " " + change.Path
	if text != "" {
		plain += " " + text
	}
	if err := r.add(row{plain: plain, cells: []string{change.Time, change.Event, change.Path, text}, value: change}); err != nil {
		return err
	}
	return r.show()
}
