// Package recipe holds the recipes of ZooKeeper's documentation and of the paper's
// section 2.4, each on the operations of a client: locks, elections, barriers,
// queues, membership, configuration, and more.
//
// # What all of them share
//
// A recipe is made on a base path, which it creates with all above it when it is
// needed, with the ACL of its options (nil is world:anyone:cdrwa). Several clients
// that use the same recipe on the same path take part in the same thing.
//
// Waiting operations have a context. When it ends, they return its error, and take
// back what they had put into the tree; should the connection be lost as well,
// that happens when there is one again, or at the session's end.
//
// Connection loss is survived: a request whose answer was lost is repeated if
// repeating it does no harm, and otherwise its effect is looked for first. The
// name of a sequential znode carries a GUID of its maker (the recipes page, "A note
// about GUIDs"), so that it is found again. The end of the session is not survived:
// the operation returns an error for which errors.Is(err, zk.ErrSessionExpired),
// and what the session held (locks, memberships, a leadership) is gone.
//
// A holder of something that only one may hold learns of its loss from the
// channel that the recipe gives it, but it may learn late: a process can stop for
// longer than its session. What the holder does to other systems should carry the
// fencing token of the recipe, a zxid which grows from holder to holder, and those
// systems should refuse a smaller one than they have seen.
package recipe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Client is what the recipes need of a client; *client.Client is one.
type Client interface {
	Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, zk.Stat, error)
	Create(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, error)
	Delete(ctx context.Context, path string, version int32) error
	Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error)
	Get(ctx context.Context, path string) ([]byte, zk.Stat, error)
	GetW(ctx context.Context, path string) ([]byte, zk.Stat, *client.Watch, error)
	Exists(ctx context.Context, path string) (zk.Stat, bool, error)
	ExistsW(ctx context.Context, path string) (zk.Stat, bool, *client.Watch, error)
	Children(ctx context.Context, path string) ([]string, zk.Stat, error)
	ChildrenW(ctx context.Context, path string) ([]string, zk.Stat, *client.Watch, error)
	Sync(ctx context.Context, path string) error
	Txn() *client.Txn
	SessionID() zk.SessionID
	SessionTimeout() time.Duration
	Heard() time.Time
	States() (states <-chan client.State, cancel func())
}

// retry repeats f while its error is that of a lost connection. f must do no harm
// when it is repeated after it took effect. Operations of a client wait for a
// connection, so this does not spin. When the context ends, the error is the
// context's, and says what it ended.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
	}
}

// dataOf, statOf, childNames and syncWith are operations of the client that are repeated
// as retry does.
func dataOf(ctx context.Context, c Client, path string) (data []byte, stat zk.Stat, err error) {
	err = retry(ctx, func() error {
		data, stat, err = c.Get(ctx, path)
		return err
	})
	return data, stat, err
}

func statOf(ctx context.Context, c Client, path string) (stat zk.Stat, exists bool, err error) {
	err = retry(ctx, func() error {
		stat, exists, err = c.Exists(ctx, path)
		return err
	})
	return stat, exists, err
}

func childNames(ctx context.Context, c Client, path string) (names []string, err error) {
	err = retry(ctx, func() error {
		names, _, err = c.Children(ctx, path)
		return err
	})
	return names, err
}

func syncWith(ctx context.Context, c Client, path string) error {
	return retry(ctx, func() error { return c.Sync(ctx, path) })
}

// ended is the error of an operation that is not repeated: once the context has
// ended it is the context's, and says what that ended.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil || err == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// makePath creates a persistent znode without data, and all that are missing
// above it.
func makePath(ctx context.Context, c Client, path string, acl []zk.ACL) error {
	if path == "/" {
		return nil
	}
	err := retry(ctx, func() error {
		_, err := c.Create(ctx, path, nil, zk.Persistent, acl)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case !errors.Is(err, zk.ErrNoNode):
		return err
	}
	if err := makePath(ctx, c, parent(path), acl); err != nil {
		return err
	}
	return makePath(ctx, c, path, acl)
}

// parent is the path above one that is not the root.
func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 1)] }

// join is the path of a child.
func join(path, name string) string {
	if path == "/" {
		return path + name
	}
	return path + "/" + name
}

// newGUID is what a sequential znode is found by when the answer to its create
// was lost.
func newGUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// deleteIfThere deletes a znode; that it is not there is no error.
func deleteIfThere(ctx context.Context, c Client, path string) error {
	err := retry(ctx, func() error { return c.Delete(ctx, path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}
