package recipe

import (
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/zk"
)

// Names is a name service (the recipes page, "Name Service, Configuration, Group
// Membership"): it binds names to data, such as addresses. A name is a path below
// the base, "db/primary": each part is a znode, and may have data and names below
// it.
type Names struct {
	c    Client
	path string
	opts NamesOptions
}

// NamesOptions are what NewNames may be told.
type NamesOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa

	// Ephemeral makes the names that Bind binds end with the session. They can
	// have no names below them.
	Ephemeral bool
}

// NewNames returns the name service below path. It touches nothing.
func NewNames(c Client, path string, opts NamesOptions) *Names { return &Names{c, path, opts} }

// Bind binds a name that is free. One that is taken is zk.ErrNodeExists; one
// becomes taken, without data, by a name that is bound below it. Should the answer
// be lost, an ephemeral name is known by its session, and another by its data: two
// that bind it to the same data at the same moment cannot be distinguished, and both
// have. An error for which errors.Is(err, zk.ErrConnectionLoss) says that this is
// not known, because the name was bound, and bound again to something else since.
func (n *Names) Bind(ctx context.Context, name string, data []byte) error {
	mode := zk.Persistent
	if n.opts.Ephemeral {
		mode = zk.Ephemeral
	}
	_, err := createNamed(ctx, n.c, join(n.path, name), data, mode, n.opts.ACL)
	return err
}

// Rebind binds a name whether it is free or not; free, it becomes a name that
// lives until Unbind. It takes effect once, as Config.Set does; but if it has bound a free name,
// its answer is lost, and another has freed the name meanwhile, it binds the name again.
func (n *Names) Rebind(ctx context.Context, name string, data []byte) error {
	_, err := put(ctx, n.c, join(n.path, name), data, n.opts.ACL)
	return err
}

// Unbind frees a name. One that is free is no error; one with names below it is
// zk.ErrNotEmpty. When the answer is lost, a name that another has bound in the
// meantime stays bound.
func (n *Names) Unbind(ctx context.Context, name string) error {
	return deletePresent(ctx, n.c, join(n.path, name))
}

// Resolve returns what a name is bound to, as it is when Resolve is called, or
// newer. A free name has a Value that does not exist. The fencing token is
// Stat.Czxid, which tells a binding from an earlier one; Stat.Mzxid grows with
// Rebind, too.
func (n *Names) Resolve(ctx context.Context, name string) (Value, error) {
	return readNow(ctx, n.c, join(n.path, name))
}

// List returns the names directly below a name, "" for the first ones, in no
// order, as they are when List is called, or newer.
func (n *Names) List(ctx context.Context, name string) (names []string, err error) {
	path := n.path
	if name != "" {
		path = join(path, name)
	}
	err = retry(ctx, func() error {
		if err := n.c.Sync(ctx, path); err != nil {
			return err
		}
		names, _, err = n.c.Children(ctx, path)
		return err
	})
	if errors.Is(err, zk.ErrNoNode) && name == "" {
		return nil, nil
	}
	return names, err
}

// Watch calls f with what a name is bound to, and again whenever that changes, as
// Config.Watch does.
func (n *Names) Watch(ctx context.Context, name string, f func(v Value)) error {
	return watchData(ctx, n.c, join(n.path, name), f)
}
