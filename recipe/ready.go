package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ReadyConfig is a configuration in many znodes, which is set and read as a whole
// (the paper, 2.3). A writer deletes the znode ready, changes the others, and
// creates ready again. A reader uses what it has read only if ready existed before
// it read the first, and no watch has told of ready's deletion when it has read the
// last: so it never uses a half-written configuration, also when the writer has
// died in the middle. Then ready is missing until another has set the whole.
//
// All changes are pipelined: they leave without waiting for each other's answers.
//
// Below the base are the znodes:
//
//   - ready, while the configuration is whole;
//   - values, whose children are the configuration;
//   - writer, which names the writer, with an ephemeral child while it is set.
//
// The paper has one writer, the leader. Here several do no harm either: each
// transaction of a Set also writes that child, with the version that its predecessor
// gives it, and a Set that begins deletes the child of the one before. So of two
// writers the one that has begun first fails, and none continues after a gap that a
// lost connection has left.
type ReadyConfig struct {
	c        AsyncClient
	path     string
	opts     ReadyOptions
	batchOps int // in one transaction
}

// ReadyOptions are what NewReadyConfig may be told.
type ReadyOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// NewReadyConfig returns the configuration below path. It touches nothing.
func NewReadyConfig(c AsyncClient, path string, opts ReadyOptions) *ReadyConfig {
	return &ReadyConfig{c, path, opts, batchOps}
}

// The errors of a Set.
var (
	ErrSuperseded = errors.New("recipe: another has begun to set the configuration")
	ErrStale      = errors.New("recipe: the configuration was set with a newer fencing token")
)

// ReadyValues is a configuration that was whole.
type ReadyValues struct {
	Values map[string][]byte

	// Zxid is the transaction that made it whole. It grows from one to the next.
	Zxid zk.Zxid
}

func (r *ReadyConfig) ready() string  { return join(r.path, "ready") }
func (r *ReadyConfig) values() string { return join(r.path, "values") }
func (r *ReadyConfig) writer() string { return join(r.path, "writer") }

// Get waits until there is a whole configuration and returns it: the present one,
// or one that is newer than when Get is called.
func (r *ReadyConfig) Get(ctx context.Context) (ReadyValues, error) {
	if err := syncWith(ctx, r.c, r.path); err != nil {
		return ReadyValues{}, err
	}
	v, w, err := r.read(ctx)
	forget(ctx, w)
	return v, err
}

// Watch calls f with the configuration when it is whole, and again whenever another
// is, until the context or the session ends; its error says which. Of those that
// follow each other while f runs only the last is told.
func (r *ReadyConfig) Watch(ctx context.Context, f func(v ReadyValues)) error {
	for {
		v, w, err := r.read(ctx)
		if err != nil {
			return err
		}
		f(v)
		if err := await(ctx, w); err != nil {
			return err
		}
	}
}

// read waits for a whole configuration. The watch tells when it is no more: a
// Client has its event before the answer of a read that shows a later state.
func (r *ReadyConfig) read(ctx context.Context) (ReadyValues, *client.Watch, error) {
	for {
		stat, exists, w, err := r.c.ExistsW(ctx, r.ready())
		switch {
		case err == nil && !exists:
			if err := await(ctx, w); err != nil {
				return ReadyValues{}, nil, err
			}
			continue
		case err == nil:
			v := ReadyValues{Zxid: stat.Czxid}
			v.Values, err = r.readValues(ctx)
			changed := fired(w)
			if err == nil && !changed {
				return v, w, nil
			}
			forget(ctx, w)
			if changed {
				continue
			}
		}
		if !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil {
			return ReadyValues{}, nil, ended(ctx, err)
		}
	}
}

func (r *ReadyConfig) readValues(ctx context.Context) (map[string][]byte, error) {
	names, _, err := r.c.Children(ctx, r.values())
	if err != nil {
		return nil, err
	}
	list, err := getAll(ctx, r.c, r.values(), names)
	if err != nil {
		return nil, err
	}
	values := make(map[string][]byte, len(names))
	for i, v := range list {
		if v.err != nil {
			return nil, v.err
		}
		values[names[i]] = v.data
	}
	return values, nil
}

// Set makes values the whole configuration; names that are not among them are
// deleted. fence is the caller's fencing token, that of the lock or leadership that
// entitles it to set the configuration, and 0 without one: a Set with a smaller
// token than one before it is refused with ErrStale, and changes nothing.
//
// ErrSuperseded says that another Set has begun after this one. If this one was
// whole before that, it may have been read. With any other error the configuration
// may be unusable (not ready) until it is set again; with the context's error it
// may also yet become whole, from what was on its way.
func (r *ReadyConfig) Set(ctx context.Context, values map[string][]byte, fence zk.Zxid) error {
	for name := range values {
		if name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("recipe: %q cannot be a name of a configuration", name)
		}
	}
	s := &setting{ReadyConfig: r, guid: newGUID(), fence: fence}
	if err := s.begin(ctx); err != nil {
		return err
	}
	for {
		if err := s.plan(ctx, values); err != nil {
			return err
		}
		err := s.send(ctx)
		if err == nil || ctx.Err() != nil {
			return ended(ctx, err)
		}
		// The chain first: when it has gone, the writer says why.
		chain, chainErr := readNow(ctx, s.c, s.chain(s.guid))
		w, lookErr := s.look(ctx)
		switch {
		case chainErr != nil || lookErr != nil:
			return cmp.Or(chainErr, lookErr)
		case w.guid != s.guid:
			return ErrSuperseded
		case w.whole:
			return nil
		case !errors.Is(err, zk.ErrConnectionLoss):
			return err
		case !chain.Exists:
			return zk.ErrSessionExpired // and the Client has begun another
		}
		s.done = chain.Stat.Version // the rest is planned again
	}
}

// setting is a Set under way.
type setting struct {
	*ReadyConfig
	guid    string
	fence   zk.Zxid
	version int32 // of the znode writer
	done    int32 // transactions of the plan that were carried out: the version of the chain
	batches []*client.Txn
}

// chain is the ephemeral znode that each transaction of a Set writes.
func (r *ReadyConfig) chain(guid string) string { return join(r.writer(), guid) }

// writerNode is what the znode writer says: "GUID state fence".
type writerNode struct {
	guid    string
	whole   bool // the writer has made ready
	fence   zk.Zxid
	version int32
}

// The states that the znode writer may be in.
const (
	stateWriting = "writing"
	stateWhole   = "ready"
)

func (s *setting) data(state string) []byte {
	return []byte(s.guid + " " + state + " 0x" + s.fence.Hex())
}

// look reads the znode writer, and creates it and what is around it.
func (s *setting) look(ctx context.Context) (w writerNode, err error) {
	for {
		v, err := readNow(ctx, s.c, s.writer())
		switch {
		case err != nil:
			return w, err
		case v.Exists && len(v.Data) == 0:
			return writerNode{version: v.Stat.Version}, nil
		case v.Exists:
			w.version = v.Stat.Version
			return w, w.parse(v.Data)
		}
		for _, path := range []string{s.values(), s.writer()} {
			if err := makePath(ctx, s.c, path, s.opts.ACL); err != nil {
				return w, err
			}
		}
	}
}

func (w *writerNode) parse(data []byte) error {
	fields := strings.Fields(string(data))
	if len(fields) != 3 {
		return fmt.Errorf("recipe: the writer of a configuration is %.80q", data)
	}
	fence, err := strconv.ParseInt(fields[2], 0, 64)
	w.guid, w.whole, w.fence = fields[0], fields[1] == stateWhole, zk.Zxid(fence)
	return err
}

// begin deletes ready, and what the writer before needs to go on, in one
// transaction with the writer's name.
func (s *setting) begin(ctx context.Context) error {
	for {
		w, err := s.look(ctx)
		switch {
		case err != nil:
			return err
		case w.guid == s.guid: // the answer was lost
			s.version = w.version
			return nil
		case w.fence > s.fence:
			return fmt.Errorf("%w: %v, this one is %v", ErrStale, w.fence, s.fence)
		}
		t := s.c.Txn()
		t.Set(s.writer(), s.data(stateWriting), w.version)
		t.Create(s.chain(s.guid), nil, zk.Ephemeral, s.opts.ACL)
		old := []string{s.ready()}
		if w.guid != "" {
			old = append(old, s.chain(w.guid))
		}
		for _, path := range old {
			if v, err := readNow(ctx, s.c, path); err != nil {
				return err
			} else if v.Exists {
				t.Delete(path, -1)
			}
		}
		switch err := t.Commit(ctx); {
		case err == nil:
			s.version = w.version + 1
			return nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode): // another was first
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return ended(ctx, err)
		}
	}
}

// How large a transaction may become, before its last operation.
const (
	batchOps   = 128
	batchBytes = 128 << 10
)

// plan fills batches with the changes that make values of what is there, and
// with ready's creation. No other client changes the values, as the znode writer has
// this writer's name, and this server has carried out all that was before that.
func (s *setting) plan(ctx context.Context, values map[string][]byte) error {
	names, err := childNames(ctx, s.c, s.values())
	if err != nil {
		return err
	}
	s.batches = nil
	size := 0
	var t *client.Txn
	next := func(bytes int) *client.Txn {
		if t == nil || t.Len() > s.batchOps || size+bytes > batchBytes {
			t, size = s.c.Txn(), 0
			t.Set(s.chain(s.guid), nil, s.done+int32(len(s.batches)))
			s.batches = append(s.batches, t)
		}
		size += bytes
		return t
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
		if _, wanted := values[name]; !wanted {
			path := join(s.values(), name)
			next(len(path)).Delete(path, -1)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path, data := join(s.values(), name), values[name]
		t := next(len(path) + len(data))
		if there[name] {
			t.Set(path, data, -1)
		} else {
			t.Create(path, data, zk.Persistent, s.opts.ACL)
		}
	}
	t = s.c.Txn()
	t.Delete(s.chain(s.guid), s.done+int32(len(s.batches)))
	t.Set(s.writer(), s.data(stateWhole), s.version)
	t.Create(s.ready(), nil, zk.Persistent, s.opts.ACL)
	s.batches = append(s.batches, t)
	return nil
}

// send carries the plan out. The error is that of the first transaction that was
// not.
func (s *setting) send(ctx context.Context) error {
	answers := make(chan error, len(s.batches))
	for _, t := range s.batches {
		t.CommitAsync(ctx, func(err error) { answers <- err })
	}
	var first error
	for range s.batches {
		select {
		case err := <-answers:
			if first == nil {
				first = err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return first
}
