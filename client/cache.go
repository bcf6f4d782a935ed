package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Cache holds a subtree in memory and keeps it current.
//
// # What it shows
//
// Zxid names a transaction, and the Cache contains every change of the subtree up
// to it: each znode's data is that of Zxid or newer, a znode that was created by
// then and not deleted is there, and one that was deleted by then and not created
// again is not. Zxid never goes back, and neither does any znode, unless the Client
// has both NewSession and AllowReadOnly, and begins a session at a member that
// lags. What one transaction changed may be seen in parts; once the Cache has
// Zxid it is seen whole. Sync waits for all that is committed.
//
// Of a Stat, Cversion, NumChildren, Pzxid and Aversion are those of the time when
// the znode was read: no watch reports their change. Children has the names.
//
// A znode that the session may not read is left out with all below it, and stays
// so until it changes or the whole is read again.
//
// # How it is kept current
//
// A persistent recursive watch (servers from 3.6 on) reports changes, and what
// changed is read again. After a reconnection, during which events are lost,
// every znode is compared by its Stat, and what differs is read. Servers before
// 3.6 are watched by a watch for the data and one for the children of each
// znode. Those of 3.5 answer the attempt to leave another with the end of the
// connection, so that operations under way are lost; CacheOneShot spares that.
//
// Without a connection the Cache shows what it had. When the session ends it ends
// too, unless the Client has NewSession: then it shows what it had until it is
// current again.
type Cache struct {
	client *Client
	root   string
	opts   cacheOptions
	box    cacheBox
	stop   context.Context
	cancel context.CancelFunc
	loaded chan struct{} // closed when the subtree was read for the first time
	done   chan struct{} // closed when keep has ended

	mu    sync.RWMutex // guards what follows
	tree  cacheTree
	feeds map[*feed]struct{}
	zxid  zk.Zxid
	err   error // why the Cache has ended; nil while it has not, or was closed
}

// ErrCacheFull is in the error of a Cache that would need more memory than its
// options allow.
var ErrCacheFull = errors.New("cache is full")

// A CacheOption changes what NewCache does.
type CacheOption func(*cacheOptions)

type cacheOptions struct {
	znodes   int
	bytes    int64
	depth    int
	window   int
	filter   func(path string) bool
	progress func(znodes int)
	oneShot  bool
}

// CacheMaxZnodes bounds the number of znodes. A subtree that has more ends the
// Cache with ErrCacheFull. Without it, 1,000,000.
func CacheMaxZnodes(n int) CacheOption { return func(o *cacheOptions) { o.znodes = n } }

// CacheMaxBytes bounds the sum of the lengths of paths and data, and of 256 bytes
// a znode, which is about what it costs beside. A subtree that has more ends the
// Cache with ErrCacheFull. Without it, 1 GiB.
func CacheMaxBytes(n int64) CacheOption { return func(o *cacheOptions) { o.bytes = n } }

// CacheDepth bounds how far below the Cache's path znodes are held: 0 is the znode
// itself, 1 its children too. Without it there is no bound.
func CacheDepth(n int) CacheOption { return func(o *cacheOptions) { o.depth = n } }

// CacheFilter leaves out the znodes for which keep is false, with all below them.
// It is not asked about the Cache's own path. It must be quick, give the same
// answer always, and not use the Cache.
func CacheFilter(keep func(path string) bool) CacheOption {
	return func(o *cacheOptions) { o.filter = keep }
}

// CacheWindow bounds the reads that are under way at a time. Without it, 256.
func CacheWindow(n int) CacheOption { return func(o *cacheOptions) { o.window = n } }

// CacheProgress has f called while NewCache reads the subtree, from time to time,
// with the number of znodes that are there. It must not use the Cache.
func CacheProgress(f func(znodes int)) CacheOption {
	return func(o *cacheOptions) { o.progress = f }
}

// CacheOneShot uses the watches that servers before 3.6 have, without asking for
// others.
func CacheOneShot() CacheOption { return func(o *cacheOptions) { o.oneShot = true } }

// unlimitedDepth is deeper than any path.
const unlimitedDepth = 1 << 30

func (o *cacheOptions) check() error {
	switch {
	case o.znodes < 1 || o.bytes < 1:
		return errors.New("limits of znodes and bytes must be positive")
	case o.depth < 0:
		return fmt.Errorf("a depth of %d: must not be negative", o.depth)
	case o.window < 1:
		return fmt.Errorf("a window of %d: must be 1 or more", o.window)
	}
	return nil
}

// NewCache reads the znode path of c and all below it, which need not exist, and
// returns when that is done. The context bounds the wait, not the Cache, which
// ends with Close, or with the Client.
//
// The error is that of a path or an option that cannot be, the context's,
// ErrCacheFull, [ErrReplyTooLarge], or the error that ended the session.
func NewCache(ctx context.Context, c *Client, path string, opts ...CacheOption) (*Cache, error) {
	k := &Cache{client: c, root: path, loaded: make(chan struct{}), done: make(chan struct{}), feeds: map[*feed]struct{}{}}
	k.opts = cacheOptions{znodes: 1_000_000, bytes: 1 << 30, depth: unlimitedDepth, window: 256}
	for _, o := range opts {
		o(&k.opts)
	}
	err := CheckPath(path)
	if err == nil {
		err = k.opts.check()
	}
	if err != nil {
		return nil, fmt.Errorf("client: cache of %s: %w: %w", path, zk.ErrBadArguments, err)
	}
	k.stop, k.cancel = context.WithCancel(context.Background())
	k.tree.init(path)
	k.box.init(c.opts.watchQueue)
	go k.keep()
	select {
	case <-k.loaded:
		return k, nil
	case <-k.done:
		err = k.Err()
	case <-ctx.Done():
		err = fmt.Errorf("client: cache of %s: %w", path, context.Cause(ctx))
	}
	k.Close()
	return nil, err
}

// Close ends the Cache: nothing is held any more, and Changes end. The server is
// asked to forget the watch, but not waited for.
func (k *Cache) Close() {
	k.cancel()
	<-k.done
}

// Done is closed when the Cache has ended, by Close or by an error.
func (k *Cache) Done() <-chan struct{} { return k.done }

// Err says why the Cache has ended: ErrCacheFull, zk.ErrSessionExpired and the
// like are in it. It is nil while the Cache lives, and after Close.
func (k *Cache) Err() error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.err
}

// Path is the znode at the top of the Cache.
func (k *Cache) Path() string { return k.root }

// Get returns the data and the Stat of a znode; ok says that the Cache has it. The
// data is the Cache's and must not be changed; it does not change either.
func (k *Cache) Get(path string) (data []byte, stat zk.Stat, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.nodes[path]
	if n == nil {
		return nil, stat, false
	}
	return n.data, n.stat, true
}

// Children returns the names of a znode's children, sorted; ok says that the Cache
// has the znode.
func (k *Cache) Children(path string) (names []string, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := k.tree.nodes[path]
	if n == nil {
		return nil, false
	}
	names = make([]string, 0, len(n.names))
	for name := range n.names {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, true
}

// Len is the number of znodes.
func (k *Cache) Len() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.tree.nodes)
}

// Bytes is what CacheMaxBytes bounds.
func (k *Cache) Bytes() int64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.tree.bytes
}

// Zxid is a transaction of which the Cache has every change, and every change
// before it.
func (k *Cache) Zxid() zk.Zxid {
	k.client.mu.Lock()
	quiet, z := k.box.quiet(), k.client.lastZxid
	k.client.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if quiet {
		k.zxid = max(k.zxid, z)
	}
	return k.zxid
}

// Sync returns when the Cache has all that was committed when Sync was called, as
// far as the leader knew. The error is that of Client.Sync, the context's, or that
// which ended the Cache; a connection that is lost is waited for, and so is the
// next session of a Client with NewSession.
func (k *Cache) Sync(ctx context.Context) error {
	for {
		call, body := k.client.named(wire.OpSync, "sync", k.root, decodeNothing)
		r := k.client.do(ctx, call, body.append)
		again := errors.Is(r.err, zk.ErrConnectionLoss) || k.client.opts.newSession && errors.Is(r.err, zk.ErrSessionExpired)
		switch {
		case r.err == nil:
			return k.reach(ctx)
		case !again || ctx.Err() != nil:
			return r.err
		}
	}
}

// reach waits for the newest transaction that the Client has been shown: its
// events have come.
func (k *Cache) reach(ctx context.Context) error {
	there := make(chan struct{})
	k.client.mu.Lock()
	k.box.put(boxItem{zxid: k.client.lastZxid, reached: there})
	k.client.mu.Unlock()
	select {
	case <-there:
		return nil
	case <-k.done:
		if err := k.Err(); err != nil {
			return err
		}
		return &Error{Op: "sync", Path: k.root, Err: ErrClosed}
	case <-ctx.Done():
		return &Error{Op: "sync", Path: k.root, Err: context.Cause(ctx)}
	}
}

// Changes returns an iterator over the znodes that are there when it begins, each
// as one that was created, and then over the changes, as they become known. It
// ends with ctx, or when the Cache has ended; Err says why.
//
// Carried out in order on an empty tree the changes give that of the Cache: a
// parent is created before its children and deleted after them. An iterator that
// is slow does not get every step: changes of a znode's data join, and a znode
// that came and went is not mentioned. So what is kept for it is bounded by the
// znodes that it knows and those that there are.
func (k *Cache) Changes(ctx context.Context) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		f := k.subscribe()
		defer k.unsubscribe(f)
		for ctx.Err() == nil {
			if change, ok := k.pull(f); ok {
				if !yield(change) {
					return
				}
				continue
			}
			select {
			case <-f.wake:
			case <-k.done:
				return
			case <-ctx.Done():
			}
		}
	}
}

// wanted reports whether the Cache holds a znode, if there is one.
func (k *Cache) wanted(path string) bool {
	switch {
	case path == k.root:
		return true
	case k.opts.depth == unlimitedDepth && k.opts.filter == nil:
		return true
	}
	below := strings.TrimPrefix(path[len(k.root):], "/")
	if strings.Count(below, "/") >= k.opts.depth {
		return false
	}
	return k.opts.filter == nil || k.opts.filter(path)
}
