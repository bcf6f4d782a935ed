package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A CoordinatedCommit is a transaction that several sites carry out all or not at
// all, and that a coordinator decides on (the recipes page, "Two-phased Commit", the
// second form, which mends the drawbacks of the first; see PeerCommit). Votes are
// seen by the coordinator alone, which tells the sites the outcome: n sites cost n
// messages. Each site makes its own ephemeral znode, so that its death is seen.
//
//   - A site that dies before the outcome is decided makes it Aborted, if Decide has
//     seen it join; otherwise Decide goes on to wait for it. One that dies later
//     learns the outcome when it comes back, from Outcome.
//   - A coordinator that dies before the outcome is decided is replaced by the sites
//     that wait in Outcome: they commit if all votes are there, and abort if not.
//   - A site that votes abort decides at once.
//
// A decision is the creation of the znode "outcome"; the first one counts. To commit,
// it checks in the same transaction that the votes of all sites are still there.
// The transaction's znode has the data, "sites" a child for each site, "votes" one
// for each that has joined, and "coordinator" is there while the coordinator lives.
//
// Any number of goroutines may use a CoordinatedCommit.
type CoordinatedCommit struct {
	client Client
	path   string
	opts   TwoPhaseOptions
}

// NewCoordinatedCommit is the transaction at a path, which belongs to it alone.
// Nothing is created.
func NewCoordinatedCommit(c Client, path string, opts TwoPhaseOptions) *CoordinatedCommit {
	return &CoordinatedCommit{client: c, path: path, opts: opts}
}

// Begin is the coordinator's first step: it makes the transaction known with its
// sites, which are names of znodes, and with data that says what is to be done.
// Its session is the coordinator's life from now on. The error is zk.ErrNodeExists
// if another has begun the transaction, with other data or other sites,
// and zk.ErrBadArguments if a site is there twice or cannot be a znode's name.
func (p *CoordinatedCommit) Begin(ctx context.Context, data []byte, sites []string) error {
	err := beginCommit(ctx, p.client, p.path, sites, p.opts.ACL, func(t *client.Txn) {
		add := func(path string, data []byte, mode zk.CreateMode) { t.Create(path, data, mode, p.opts.ACL) }
		add(p.path, data, zk.Persistent)
		add(p.sub("sites"), nil, zk.Persistent)
		for _, s := range sites {
			add(p.site(s), nil, zk.Persistent)
		}
		add(p.sub("votes"), nil, zk.Persistent)
		add(p.sub("coordinator"), nil, zk.Ephemeral)
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return unlessSame(err, data, sites, func() ([]byte, []string, error) { return p.Transaction(ctx) })
	}
	return err
}

func (p *CoordinatedCommit) sub(name string) string  { return join(p.path, name) }
func (p *CoordinatedCommit) site(site string) string { return join(p.sub("sites"), site) }
func (p *CoordinatedCommit) vote(site string) string { return join(p.sub("votes"), site) }

// Transaction waits until the transaction is known, and returns what Begin was
// told, sites sorted.
func (p *CoordinatedCommit) Transaction(ctx context.Context) (data []byte, sites []string, err error) {
	return transaction(ctx, p.client, p.path, p.sub("sites"))
}

// Join says that a site takes part. If its session ends before the outcome is
// decided, the transaction is aborted. The error is zk.ErrNoNode if it is no site of
// the transaction, and zk.ErrNodeExists if another session has joined for it.
func (p *CoordinatedCommit) Join(ctx context.Context, site string) error {
	err := retry(ctx, func() error {
		t := p.client.Txn()
		t.Check(p.site(site), -1)
		t.Create(p.vote(site), nil, zk.Ephemeral, p.opts.ACL)
		return t.Commit(ctx)
	})
	if !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	v, w, e := readW(ctx, p.client, p.vote(site))
	forget(ctx, w)
	if e != nil || v.Exists && zk.SessionID(v.Stat.EphemeralOwner) == p.client.SessionID() {
		return e
	}
	return err
}

// Vote votes for a site that this session has joined for. A site that votes commit
// must be able to do so whatever happens, until it knows the outcome. A vote to
// abort is the outcome, unless the site has voted commit before and that is; then
// the error is ErrVoted. zk.ErrNoNode says that no process has joined for the site.
func (p *CoordinatedCommit) Vote(ctx context.Context, site string, commit bool) error {
	if commit {
		return vote(ctx, p.client, p.vote(site), Committed)
	}
	o, err := p.Abort(ctx)
	if err == nil && o == Committed {
		err = fmt.Errorf("%w: %s", ErrVoted, p.vote(site))
	}
	return err
}

// Abort decides that the transaction is aborted, unless it is decided already: it
// returns how.
func (p *CoordinatedCommit) Abort(ctx context.Context) (Outcome, error) {
	err := retry(ctx, func() error {
		_, err := p.client.Create(ctx, p.sub("outcome"), []byte(Aborted.String()), zk.Persistent, p.opts.ACL)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return Undecided, err
	}
	return readOutcome(ctx, p.client, p.sub("outcome"))
}

// Decide is the coordinator's second step: it waits for the votes, and decides.
// When the context ends first, nothing is decided; Abort decides then.
func (p *CoordinatedCommit) Decide(ctx context.Context) (Outcome, error) {
	_, sites, err := p.Transaction(ctx)
	if err != nil {
		return Undecided, err
	}
	watches := map[string]*client.Watch{}
	defer func() {
		for _, w := range watches {
			forget(ctx, w)
		}
	}()
	joined, voted := map[string]bool{}, map[string]bool{}
	for look := append([]string{""}, sites...); ; {
		for _, s := range look {
			path := p.vote(s)
			if s == "" {
				path = p.sub("outcome")
			}
			v, w, err := readW(ctx, p.client, path)
			if err != nil {
				return Undecided, err
			}
			watches[s] = w
			switch {
			case s == "" && v.Exists:
				return parseOutcome(v.Data)
			case s != "" && !v.Exists && joined[s]:
				return p.Abort(ctx)
			case s != "":
				joined[s] = v.Exists
				if v.Exists && v.Stat.Version == 1 {
					voted[s] = true
				}
			}
		}
		if len(voted) == len(sites) {
			if o, err := p.commit(ctx, sites); err != nil || o != Undecided {
				return o, err
			}
		}
		s, err := awaitAny(ctx, watches)
		if err != nil {
			return Undecided, err
		}
		look = []string{s}
	}
}

// commit decides that the transaction is committed if all votes are there, which
// they are if their znodes have version 1. It returns how it is decided.
func (p *CoordinatedCommit) commit(ctx context.Context, sites []string) (Outcome, error) {
	err := retry(ctx, func() error {
		t := p.client.Txn()
		for _, s := range sites {
			t.Check(p.vote(s), 1)
		}
		t.Create(p.sub("outcome"), []byte(Committed.String()), zk.Persistent, p.opts.ACL)
		return t.Commit(ctx)
	})
	switch {
	case err == nil:
		return Committed, nil
	case errors.Is(err, zk.ErrNodeExists):
		return readOutcome(ctx, p.client, p.sub("outcome"))
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return Undecided, nil
	}
	return Undecided, err
}

// Outcome waits for the outcome, and decides it if the coordinator dies. Every
// caller gets the same outcome, at any time, until Remove.
func (p *CoordinatedCommit) Outcome(ctx context.Context) (Outcome, error) {
	_, sites, err := p.Transaction(ctx)
	if err != nil {
		return Undecided, err
	}
	for {
		made, w, err := readW(ctx, p.client, p.sub("outcome"))
		if err != nil {
			return Undecided, err
		}
		if made.Exists {
			forget(ctx, w)
			return parseOutcome(made.Data)
		}
		coordinator, w2, err := readW(ctx, p.client, p.sub("coordinator"))
		if err == nil && coordinator.Exists {
			_, err = awaitAny(ctx, map[string]*client.Watch{"outcome": w, "coordinator": w2})
		}
		forget(ctx, w)
		forget(ctx, w2)
		switch {
		case err != nil:
			return Undecided, err
		case coordinator.Exists:
			continue
		}
		if o, err := p.commit(ctx, sites); err != nil || o != Undecided {
			return o, err
		}
		return p.Abort(ctx)
	}
}

// Remove deletes the transaction atomically: concurrent readers get its outcome or find
// nothing. It is for when all sites know the outcome, which the recipe does not
// find out.
func (p *CoordinatedCommit) Remove(ctx context.Context) error {
	return removeTree(ctx, p.client, p.path)
}
