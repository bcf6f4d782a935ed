package cli

import (
	"context"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// watchByCache is watchChanges on servers before 3.6, which only have watches for the
// next event of one znode: a client.Cache sees by those what happens to all, and holds
// what it watches. With o.single that is the znode and its children.
func (s *shell) watchByCache(ctx context.Context, c *client.Client, path string, o watchOptions) error {
	opts := []client.CacheOption{client.CacheOneShot()}
	if o.single {
		opts = append(opts, client.CacheDepth(1))
	}
	k, err := client.NewCache(ctx, c, path, opts...)
	if err != nil {
		return unlessDone(ctx, err)
	}
	defer k.Close()
	r := s.rows("time", "event", "path", "data")
	defer r.end()
	seen, began := 0, k.Zxid()
	for change := range k.Changes(ctx) {
		e := happened(change, began)
		if o.single {
			e = ofParent(e, path)
		}
		if e.Type == zk.EventNone {
			continue
		}
		if err := s.printChange(ctx, c, r, e, o.data); err != nil {
			return err
		}
		if seen++; seen == o.count {
			return nil
		}
	}
	if err := k.Err(); err != nil {
		return unlessDone(ctx, err)
	}
	return unlessDone(ctx, client.ErrClosed)
}

// unlessDone is err, or nil if ctx has ended, as a watch does.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// happened returns the event for a change of a cache. The changes that describe the
// state at the start of the watch are no events, unless the data is newer than that.
func happened(c client.Change, began zk.Zxid) zk.Event {
	e := zk.Event{Type: c.Type, State: zk.StateSyncConnected, Path: c.Path, Zxid: -1}
	if c.Type == zk.EventNodeCreated && c.Stat.Czxid <= began {
		if e.Type = zk.EventNodeDataChanged; c.Stat.Mzxid <= began {
			e.Type = zk.EventNone
		}
	}
	return e
}

// ofParent is what an event means for a znode that it befell, or a child of which.
func ofParent(e zk.Event, parent string) zk.Event {
	switch {
	case e.Path == parent:
	case e.Type == zk.EventNodeCreated, e.Type == zk.EventNodeDeleted:
		e.Type, e.Path = zk.EventNodeChildrenChanged, parent
	default:
		e.Type = zk.EventNone
	}
	return e
}
