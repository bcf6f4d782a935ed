package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Group is a set of processes that are alive (the paper, 2.4, "Group Membership";
// the recipes page, "Name Service, Configuration, Group Membership"). Each member
// is an ephemeral znode below the group's, with data of its own.
//
// The name of a member that joins by name is that of its znode, as Curator's
// GroupMember has it.
type Group struct {
	c    AsyncClient
	path string
	opts GroupOptions
}

// GroupOptions are what NewGroup may be told.
type GroupOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa

	// WaitForName makes Join wait when its name is taken, instead of failing: a
	// process that starts again finds its name taken until the session of the one
	// before it has ended.
	WaitForName bool
}

// NewGroup returns the group at path. It touches nothing.
func NewGroup(c AsyncClient, path string, opts GroupOptions) *Group { return &Group{c, path, opts} }

// Membership is a member's own. It ends with the session and is not begun again.
type Membership struct {
	group *Group
	name  string
	hold  *hold
}

// Join makes this session a member. Without a name the member gets one from the
// server: "member-", a GUID, and a number that grows. A name that is taken is
// zk.ErrNodeExists, or is waited for (WaitForName); a session must not join twice
// by one name at the same time.
func (g *Group) Join(ctx context.Context, name string, data []byte) (*Membership, error) {
	var stat zk.Stat
	var err error
	if name == "" {
		guid := newGUID()
		name, stat, err = createFindable(ctx, g.c, g.path, "member-"+guid+"-", guid, data, g.opts.ACL)
	} else {
		stat, err = g.joinNamed(ctx, name, data)
	}
	if err != nil {
		return nil, err
	}
	return &Membership{g, name, keep(ctx, g.c, join(g.path, name), stat.Czxid)}, nil
}

func (g *Group) joinNamed(ctx context.Context, name string, data []byte) (stat zk.Stat, err error) {
	if strings.Contains(name, "/") {
		return stat, fmt.Errorf("recipe: %q cannot be a member's name", name)
	}
	path := join(g.path, name)
	for {
		if g.opts.WaitForName {
			if err := waitGone(ctx, g.c, path); err != nil {
				return stat, err
			}
		}
		session := g.c.SessionID()
		stat, err = g.createOwn(ctx, path, data)
		switch {
		case errors.Is(err, zk.ErrNodeExists) && g.opts.WaitForName:
			continue
		case err != nil && !errors.Is(err, zk.ErrNodeExists) && maybe(err):
			background(ctx, func(ctx context.Context) { // fails at the session's end alone
				if v, err := readNow(ctx, g.c, path); err == nil && ours(g.c, session, v.Stat) {
					deleteMade(ctx, g.c, path, v.Stat.Czxid)
				}
			})
		}
		return stat, err
	}
}

// createOwn creates the znode of a name, unless there is one: what is found after
// an answer was lost is of this Join then.
func (g *Group) createOwn(ctx context.Context, path string, data []byte) (zk.Stat, error) {
	v, err := readNow(ctx, g.c, path)
	switch {
	case err != nil:
		return v.Stat, &client.Error{Op: "create", Path: path, Err: err}
	case v.Exists:
		return v.Stat, &client.Error{Op: "create", Path: path, Err: zk.ErrNodeExists}
	}
	return createNamed(ctx, g.c, path, data, zk.Ephemeral, g.opts.ACL)
}

// Name is the name of the member.
func (m *Membership) Name() string { return m.name }

// Token is the fencing token: it grows from a member to the next one of the same
// name.
func (m *Membership) Token() zk.Zxid { return m.hold.czxid }

// Lost is closed when the membership is over: at Leave, at the session's end, or
// because another client has deleted the znode.
func (m *Membership) Lost() <-chan struct{} { return m.hold.lost }

// Leave ends the membership. When the context ends first, it is ended in the
// background, as soon as there is a connection.
func (m *Membership) Leave(ctx context.Context) error { return m.hold.give(ctx, m.group.c) }

// GroupMember is a member that is present.
type GroupMember struct {
	Name  string
	Data  []byte  // as it was when the member was read
	Token zk.Zxid // as its Membership's
}

// Members returns the members, in the order in which they joined, as they are when
// Members is called, or later.
func (g *Group) Members(ctx context.Context) ([]GroupMember, error) {
	if err := syncWith(ctx, g.c, g.path); err != nil {
		return nil, err
	}
	members, w, err := g.read(ctx)
	forget(ctx, w)
	return members, err
}

// Watch yields the members, and again whenever they have changed, in the order in
// which they joined, until the context or the session ends, which the error of the
// last pair says. Of changes that follow each other only the last is told. A change
// of a member's data alone is not told: data is what the member joined with.
func (g *Group) Watch(ctx context.Context) iter.Seq2[[]GroupMember, error] {
	return func(yield func([]GroupMember, error) bool) {
		var last []GroupMember
		for first := true; ; first = false {
			members, w, err := g.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if first || !slices.EqualFunc(members, last, sameMember) {
				if !yield(slices.Clone(members), nil) {
					forget(ctx, w)
					return
				}
			}
			last = members
			if err := await(ctx, w); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

func sameMember(a, b GroupMember) bool { return a.Name == b.Name && a.Token == b.Token }

// read returns the members, and a watch for the next change.
func (g *Group) read(ctx context.Context) ([]GroupMember, *client.Watch, error) {
	for {
		names, _, w, err := g.c.ChildrenW(ctx, g.path)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			err = makePath(ctx, g.c, g.path, g.opts.ACL)
		case err == nil:
			var members []GroupMember
			if members, err = g.readMembers(ctx, names); err == nil {
				return members, w, nil
			}
			forget(ctx, w)
		}
		if err != nil && (!errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil) {
			return nil, nil, ended(ctx, err)
		}
	}
}

// readMembers leaves out those that are gone, and znodes that are not ephemeral.
func (g *Group) readMembers(ctx context.Context, names []string) ([]GroupMember, error) {
	list, err := getAll(ctx, g.c, g.path, names)
	if err != nil {
		return nil, err
	}
	members := make([]GroupMember, 0, len(list))
	for i, m := range list {
		switch {
		case errors.Is(m.err, zk.ErrNoNode), m.err == nil && m.stat.EphemeralOwner == 0:
		case m.err != nil:
			return nil, m.err
		default:
			members = append(members, GroupMember{names[i], m.data, m.stat.Czxid})
		}
	}
	slices.SortFunc(members, func(a, b GroupMember) int { return cmp.Compare(a.Token, b.Token) })
	return members, nil
}
