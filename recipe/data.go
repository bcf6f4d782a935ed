package recipe

import (
	"bytes"
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Value is what a znode holds.
type Value struct {
	Data   []byte
	Stat   zk.Stat // Mzxid grows with every value: it is the fencing token
	Exists bool    // false: there is no znode, and the rest is empty
}

// readNow reads a znode as it is, or later than that, when readNow is called.
func readNow(ctx context.Context, c Client, path string) (v Value, err error) {
	err = retry(ctx, func() error {
		if err := c.Sync(ctx, path); err != nil {
			return err
		}
		data, stat, err := c.Get(ctx, path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			v = Value{}
			return nil
		case err != nil:
			return err
		}
		v = Value{data, stat, true}
		return nil
	})
	return v, err
}

// readW reads a znode, and leaves a watch for its next change, also if it does not
// exist.
func readW(ctx context.Context, c Client, path string) (v Value, w *client.Watch, err error) {
	for {
		data, stat, w, err := c.GetW(ctx, path)
		switch {
		case err == nil:
			return Value{data, stat, true}, w, nil
		case errors.Is(err, zk.ErrNoNode):
			var exists bool
			if _, exists, w, err = c.ExistsW(ctx, path); err == nil && !exists {
				return Value{}, w, nil
			}
			forget(ctx, w) // it has been created meanwhile
		}
		if err != nil && (!errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil) {
			return Value{}, nil, ended(ctx, err)
		}
	}
}

// watchData calls f with what a znode holds, and again whenever it holds something
// else. Values that follow each other quickly may be left out, never the newest.
func watchData(ctx context.Context, c Client, path string, f func(v Value)) error {
	var last Value
	for first := true; ; first = false {
		v, w, err := readW(ctx, c, path)
		if err != nil {
			return err
		}
		if first || v.Exists != last.Exists || v.Stat.Mzxid != last.Stat.Mzxid {
			f(v)
		}
		last = v
		if err := await(ctx, w); err != nil {
			return err
		}
	}
}

// setVersion replaces the data of a znode that has a version, though answers be
// lost: then it looks at the znode. The version it had says that nothing was done,
// and the next one, with the same data, that it was; with other data, that another
// was first: zk.ErrBadVersion. After more changes the outcome is unknown,
// and the error is the lost connection's.
func setVersion(ctx context.Context, c Client, path string, data []byte, version int32) (zk.Stat, error) {
	for {
		stat, err := c.Set(ctx, path, data, version)
		switch {
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return stat, ended(ctx, err)
		case !maybe(err): // it was never sent
			continue
		}
		v, lookErr := readNow(ctx, c, path)
		switch {
		case lookErr != nil:
			return stat, &client.Error{Op: "set", Path: path, Err: lookErr, Maybe: true}
		case v.Exists && v.Stat.Version == version:
		case !v.Exists || v.Stat.Version != version+1:
			return stat, err
		case bytes.Equal(v.Data, data):
			return v.Stat, nil
		default:
			return stat, &client.Error{Op: "set", Path: path, Err: zk.ErrBadVersion}
		}
	}
}

// createNamed creates a znode with a name of its own, and what is missing above
// it, though answers be lost: then it looks for the znode. An ephemeral one is told
// by its session. A persistent one whose data was never changed is told by its
// data: another that has made it with the same data cannot be told apart, and
// makes no difference. If the data was changed the outcome is unknown, and the error is
// the lost connection's. A znode that was made, and deleted by another before it
// was looked for, is made again.
func createNamed(ctx context.Context, c Client, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (zk.Stat, error) {
	var m maker
	for {
		session := c.SessionID()
		_, stat, err := m.create(ctx, c, path, data, mode, acl)
		switch {
		case errors.Is(err, zk.ErrNoNode) && ctx.Err() == nil && path != "/":
			if err := makePath(ctx, c, parent(path), acl); err != nil {
				return stat, err
			}
			continue
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return stat, ended(ctx, err)
		case !maybe(err): // it was never sent
			continue
		}
		v, lookErr := readNow(ctx, c, path)
		switch {
		case lookErr != nil:
			return stat, &client.Error{Op: "create", Path: path, Err: lookErr, Maybe: true}
		case !v.Exists:
			continue
		case mode.IsEphemeral() && ours(c, session, v.Stat):
			return v.Stat, nil
		case !mode.IsEphemeral() && v.Stat.EphemeralOwner == 0 && v.Stat.Version == 0 && bytes.Equal(v.Data, data):
			return v.Stat, nil
		case !mode.IsEphemeral() && v.Stat.EphemeralOwner == 0 && v.Stat.Version > 0:
			return stat, err
		}
		return stat, &client.Error{Op: "create", Path: path, Err: zk.ErrNodeExists}
	}
}

// ours reports whether an ephemeral znode is of the session in which a request was
// begun, or of the one that there is now: a request between two sessions is served
// in the second.
func ours(c Client, began zk.SessionID, stat zk.Stat) bool {
	owner := zk.SessionID(stat.EphemeralOwner)
	return owner != 0 && (owner == began || owner == c.SessionID())
}

// put makes data what a persistent znode holds, and creates it if it is missing.
// It takes effect once, though answers be lost, and others change the znode at the
// same time; for the case in which the outcome is unknown, see setVersion. But data that it
// has created the znode with, and that another has deleted before put looked for it, is
// put again.
func put(ctx context.Context, c Client, path string, data []byte, acl []zk.ACL) (zk.Stat, error) {
	for {
		stat, exists, err := statOf(ctx, c, path)
		if err != nil {
			return stat, err
		}
		again := zk.ErrNodeExists
		if exists {
			again = zk.ErrBadVersion
			stat, err = setVersion(ctx, c, path, data, stat.Version)
		} else {
			stat, err = createNamed(ctx, c, path, data, zk.Persistent, acl)
		}
		if !errors.Is(err, again) && !errors.Is(err, zk.ErrNoNode) {
			return stat, err
		}
		if err := c.Sync(ctx, path); err != nil && !errors.Is(err, zk.ErrConnectionLoss) { // the read was outdated
			return stat, err
		}
	}
}

// deletePresent deletes the znode that path is when deletePresent is called, though
// answers be lost: one that is made afterwards stays, but for the moment between
// the look and the deletion. That there is none is no error.
func deletePresent(ctx context.Context, c Client, path string) error {
	v, err := readNow(ctx, c, path)
	if err != nil || !v.Exists {
		return err
	}
	return deleteMade(ctx, c, path, v.Stat.Czxid)
}

// AsyncClient is a Client with the operations that recipes pipeline;
// *client.Client is one. Data is done's only while that runs.
type AsyncClient interface {
	Client
	GetAsync(ctx context.Context, path string, done func(data []byte, stat zk.Stat, err error))
}

// got is what a pipelined read has returned.
type got struct {
	data []byte
	stat zk.Stat
	err  error
}

// getAll reads children of base, all at once. Each has its own error; that of
// getAll is the context's.
func getAll(ctx context.Context, c AsyncClient, base string, names []string) ([]got, error) {
	list := make([]got, len(names))
	answers := make(chan struct{}, len(names))
	for i, n := range names {
		c.GetAsync(ctx, join(base, n), func(data []byte, stat zk.Stat, err error) {
			list[i] = got{bytes.Clone(data), stat, err}
			answers <- struct{}{}
		})
	}
	for range names {
		select {
		case <-answers:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return list, nil
}
