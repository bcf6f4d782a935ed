package recipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// An Outcome is how a transaction of several sites ends. It is decided once.
type Outcome int

// The outcomes. Undecided is that of a transaction that is under way.
const (
	Undecided Outcome = iota
	Committed
	Aborted
)

// String names the outcome.
func (o Outcome) String() string {
	switch o {
	case Committed:
		return "commit"
	case Aborted:
		return "abort"
	}
	return "undecided"
}

// parseOutcome understands a vote or a decision: "commit", "abort", and nothing
// for neither.
func parseOutcome(data []byte) (Outcome, error) {
	for _, o := range []Outcome{Committed, Aborted} {
		if string(data) == o.String() {
			return o, nil
		}
	}
	if len(data) == 0 {
		return Undecided, nil
	}
	return Undecided, fmt.Errorf("recipe: %q is neither commit nor abort", data)
}

// voted is the outcome that a vote is for.
func voted(commit bool) Outcome {
	if commit {
		return Committed
	}
	return Aborted
}

// ErrVoted is the error of a vote that differs from the one that the site has
// given, or that another process has given for it.
var ErrVoted = errors.New("recipe: the site has voted otherwise")

// TwoPhaseOptions are what the two-phase commits may be told.
type TwoPhaseOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// A PeerCommit is a transaction that several sites carry out all or not at all, and
// that they decide on among themselves (the recipes page, "Two-phased Commit", the
// first form). The coordinator creates the transaction's znode with a child for
// each site, which is the whole of its role. Each site writes its vote into its
// child and watches those of all others: it knows the outcome when it sees an
// abort, or all votes.
//
// Of a coordinator that dies there is all or nothing, for Begin is one transaction
// of ZooKeeper's, and later it is not needed. A site that dies before it has voted
// keeps all others waiting, for its znode is not its own: the page's second
// drawback. Any process that knows of its death, or has waited long enough, may vote
// abort in its place; the first vote of a site counts, and stays. The page's first
// drawback is that n sites read n znodes each. CoordinatedCommit has neither.
//
// Any number of goroutines may use a PeerCommit.
type PeerCommit struct {
	client Client
	path   string
	opts   TwoPhaseOptions
}

// NewPeerCommit is the transaction at a path, which belongs to it alone. Nothing is
// created.
func NewPeerCommit(c Client, path string, opts TwoPhaseOptions) *PeerCommit {
	return &PeerCommit{client: c, path: path, opts: opts}
}

// Begin is the coordinator's step: it makes the transaction known with its sites,
// which are names of znodes, and with data that says what is to be done. The error
// is zk.ErrNodeExists if another has begun it, with other data or other sites,
// and zk.ErrBadArguments if a site is there twice or cannot be a znode's name.
func (p *PeerCommit) Begin(ctx context.Context, data []byte, sites []string) error {
	err := beginCommit(ctx, p.client, p.path, sites, p.opts.ACL, func(t *client.Txn) {
		t.Create(p.path, data, zk.Persistent, p.opts.ACL)
		for _, s := range sites {
			t.Create(join(p.path, s), nil, zk.Persistent, p.opts.ACL)
		}
	})
	if errors.Is(err, zk.ErrNodeExists) {
		return unlessSame(err, data, sites, func() ([]byte, []string, error) { return p.Transaction(ctx) })
	}
	return err
}

// beginCommit carries out what makes a transaction known. What is above it is made
// if it is missing.
func beginCommit(ctx context.Context, c Client, path string, sites []string, acl []zk.ACL, build func(t *client.Txn)) error {
	for i, s := range sites {
		if s == "" || strings.Contains(s, "/") || slices.Contains(sites[:i], s) {
			return fmt.Errorf("recipe: site %q: %w", s, zk.ErrBadArguments)
		}
	}
	for {
		err := retry(ctx, func() error {
			t := c.Txn()
			build(t)
			return t.Commit(ctx)
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := makePath(ctx, c, parent(path), acl); err != nil {
			return err
		}
	}
}

// unlessSame forgives that a transaction has been begun with the same data and
// sites, by a request whose answer was lost.
func unlessSame(exists error, data []byte, sites []string, read func() ([]byte, []string, error)) error {
	d, s, err := read()
	if err != nil {
		return err
	}
	want := slices.Clone(sites)
	slices.Sort(want)
	if string(d) != string(data) || !slices.Equal(s, want) {
		return exists
	}
	return nil
}

// Transaction waits until the transaction is known, and returns what Begin was
// told, sites sorted.
func (p *PeerCommit) Transaction(ctx context.Context) (data []byte, sites []string, err error) {
	return transaction(ctx, p.client, p.path, p.path)
}

// transaction reads data of the znode at path and the names of sites, when they are
// there. They come into being at once.
func transaction(ctx context.Context, c Client, path, sitesPath string) (data []byte, sites []string, err error) {
	for {
		v, w, err := readW(ctx, c, path)
		if err != nil {
			return nil, nil, err
		}
		if !v.Exists {
			if err := await(ctx, w); err != nil {
				return nil, nil, err
			}
			continue
		}
		forget(ctx, w)
		sites, err = childNames(ctx, c, sitesPath)
		if errors.Is(err, zk.ErrNoNode) { // it has just been removed
			continue
		}
		slices.Sort(sites)
		return v.Data, sites, err
	}
}

// Vote votes for a site. A site that votes commit must be able to do so whatever
// happens, until it knows the outcome. The error is ErrVoted if the site has voted
// otherwise, and zk.ErrNoNode if it is no site of the transaction.
func (p *PeerCommit) Vote(ctx context.Context, site string, commit bool) error {
	return vote(ctx, p.client, join(p.path, site), voted(commit))
}

// vote writes a vote into a znode that has none, once.
func vote(ctx context.Context, c Client, path string, o Outcome) error {
	err := retry(ctx, func() error {
		_, err := c.Set(ctx, path, []byte(o.String()), 0)
		return err
	})
	if !errors.Is(err, zk.ErrBadVersion) {
		return err
	}
	was, err := readOutcome(ctx, c, path)
	if err == nil && was != o {
		err = fmt.Errorf("%w: %s: %v", ErrVoted, path, was)
	}
	return err
}

// readOutcome reads a vote or a decision.
func readOutcome(ctx context.Context, c Client, path string) (o Outcome, err error) {
	var data []byte
	data, _, err = dataOf(ctx, c, path)
	if err != nil {
		return Undecided, err
	}
	return parseOutcome(data)
}

// Outcome waits for the outcome: Aborted as soon as a site has voted abort,
// Committed when all have voted commit. Every caller gets the same outcome, at any time,
// until Remove.
func (p *PeerCommit) Outcome(ctx context.Context) (Outcome, error) {
	_, sites, err := p.Transaction(ctx)
	if err != nil {
		return Undecided, err
	}
	missing := map[string]*client.Watch{}
	defer func() {
		for _, w := range missing {
			forget(ctx, w)
		}
	}()
	for look := sites; ; {
		for _, s := range look {
			o, w, err := p.ballot(ctx, s)
			if err != nil || o == Aborted {
				return o, err
			}
			if delete(missing, s); o == Undecided {
				missing[s] = w
			}
		}
		if len(missing) == 0 {
			return Committed, nil
		}
		s, err := awaitAny(ctx, missing)
		if err != nil {
			return Undecided, err
		}
		look = []string{s}
	}
}

// ballot reads a site's vote, and leaves a watch for it if there is none.
func (p *PeerCommit) ballot(ctx context.Context, site string) (o Outcome, w *client.Watch, err error) {
	path := join(p.path, site)
	if o, err = readOutcome(ctx, p.client, path); err != nil || o != Undecided {
		return o, nil, err
	}
	var data []byte
	err = retry(ctx, func() (err error) {
		data, _, w, err = p.client.GetW(ctx, path)
		return err
	})
	if err == nil {
		o, err = parseOutcome(data)
	}
	if w != nil && o != Undecided {
		forget(ctx, w)
	}
	return o, w, err
}

// Remove deletes the transaction atomically: concurrent readers get its outcome or find
// nothing. It is for when all sites know the outcome, which the recipe does not
// find out.
func (p *PeerCommit) Remove(ctx context.Context) error { return removeTree(ctx, p.client, p.path) }

// removeTree deletes a znode and all below it in one transaction: those that are left
// of a part would tell another outcome than the whole.
func removeTree(ctx context.Context, c Client, path string) error {
	for {
		paths, err := treeOf(ctx, c, path)
		if err != nil || len(paths) == 0 {
			return err
		}
		t := c.Txn()
		for _, p := range paths {
			t.Delete(p, -1)
		}
		err = t.Commit(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNotEmpty): // it has changed, or is gone
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return ended(ctx, err)
		}
	}
}

// treeOf lists a znode and all below it, children first; nothing if it is not there.
func treeOf(ctx context.Context, c Client, path string) (paths []string, err error) {
	var names []string
	names, err = childNames(ctx, c, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, n := range names {
		below, err := treeOf(ctx, c, join(path, n))
		if err != nil {
			return nil, err
		}
		paths = append(paths, below...)
	}
	return append(paths, path), nil
}
