package recipe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// createFindable creates an ephemeral sequential znode below base and returns its
// name, though answers be lost: name must contain guid, which no other znode's name
// may (the recipes page, "Recoverable Errors and the GUID"). base is created if it is
// missing.
//
// The znode that is returned lives with the present session. If the one that was
// found lives with an earlier session, which has ended, the error is
// zk.ErrSessionExpired.
//
// With an error nothing stays: a znode that was made all the same, or will be when
// a request that is still on its way is carried out, is deleted in the background
// (takeBack).
func createFindable(ctx context.Context, c Client, base, name, guid string, data []byte, acl []zk.ACL) (created string, stat zk.Stat, err error) {
	open := false // whether a znode may be there, or come to be
	defer func() {
		if err != nil && open {
			takeBack(ctx, c, base, guid)
		}
	}()
	var m maker
	for {
		path, stat, err := m.create(ctx, c, join(base, name), data, zk.EphemeralSequential, acl)
		open = open || err != nil && maybe(err)
		switch {
		case err == nil:
			return path[strings.LastIndexByte(path, '/')+1:], stat, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := makePath(ctx, c, base, acl); err != nil {
				return "", stat, err
			}
			continue
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return "", stat, ended(ctx, err)
		case !maybe(err):
			continue
		}
		found, stat, err := find(ctx, c, base, guid)
		switch {
		case err != nil:
			return "", stat, err
		case found != "" && stat.EphemeralOwner != int64(c.SessionID()):
			return "", stat, fmt.Errorf("%s is of session %v: %w", found, zk.SessionID(stat.EphemeralOwner), zk.ErrSessionExpired)
		case found != "":
			return found, stat, nil
		}
		open = false // servers refuse requests that are still on the closed connection
	}
}

// maybe reports whether the request that failed with err may have been, or may
// yet be, carried out.
func maybe(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Maybe
}

// A maker creates znodes. It remembers that the servers are older than 3.5, which
// know no create2.
type maker struct{ old bool }

// create is Create2 of the client. The error of a lost connection says whether
// the znode may have been made.
func (m *maker) create(ctx context.Context, c Client, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (made string, stat zk.Stat, err error) {
	if !m.old {
		made, stat, err = c.Create2(ctx, path, data, mode, acl)
		if m.old = errors.Is(err, zk.ErrUnimplemented); !m.old {
			return made, stat, err
		}
	}
	if made, err = c.Create(ctx, path, data, mode, acl); err != nil {
		return "", zk.Stat{}, err
	}
	var exists bool
	stat, exists, err = statOf(ctx, c, made)
	switch {
	case err != nil:
		return "", stat, &client.Error{Op: "create", Path: path, Err: err, Maybe: true}
	case !exists:
		return "", stat, fmt.Errorf("%s was deleted by another: %w", made, zk.ErrNoNode)
	}
	return made, stat, nil
}

// find returns the child of base whose name contains guid; "" if there is none.
func find(ctx context.Context, c Client, base, guid string) (name string, stat zk.Stat, err error) {
	err = retry(ctx, func() error {
		if err := c.Sync(ctx, base); err != nil { // this server may not have applied the create yet
			return err
		}
		names, _, err := c.Children(ctx, base)
		if err != nil {
			return err
		}
		for _, n := range names {
			if strings.Contains(n, guid) {
				s, exists, err := c.Exists(ctx, join(base, n))
				if err != nil {
					return err
				}
				if exists {
					name, stat = n, s
				}
				return nil
			}
		}
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return name, stat, err
}
