package migrate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A znode is all that a client can know of one, as a member had it at some zxid between low
// and high.
type znode struct {
	code  zk.Code // zk.ErrNoNode for none, zk.ErrNoAuth for one that may not be read
	torn  bool    // the answers are of different zxids
	stat  zk.Stat
	data  [sha256.Size]byte
	null  bool // the data is null, not empty
	acl   string
	names string // of the children: sorted, without the names where servers differ

	children  []string
	low, high zk.Zxid
}

// equal reports whether two readings are of the same state.
func (z *znode) equal(o *znode) bool {
	return !z.torn && !o.torn && z.code == o.code && z.stat == o.stat && z.data == o.data && z.null == o.null && z.acl == o.acl && z.names == o.names
}

// differences names the fields in which two readings differ.
func (z *znode) differences(o *znode) string {
	switch {
	case o.code == zk.ErrNoNode:
		return "only the first has it"
	case z.code == zk.ErrNoNode:
		return "only the second has it"
	case z.code != o.code:
		return fmt.Sprintf("%v and %v", z.code, o.code)
	}
	var all []string
	note := func(field string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s %v and %v", field, a, b))
		}
	}
	if z.data != o.data || z.null != o.null {
		all = append(all, fmt.Sprintf("data of %d and %d bytes", z.stat.DataLength, o.stat.DataLength))
	}
	note("acl", z.acl, o.acl)
	note("czxid", z.stat.Czxid, o.stat.Czxid)
	note("mzxid", z.stat.Mzxid, o.stat.Mzxid)
	note("pzxid", z.stat.Pzxid, o.stat.Pzxid)
	note("ctime", z.stat.Ctime, o.stat.Ctime)
	note("mtime", z.stat.Mtime, o.stat.Mtime)
	note("dataVersion", z.stat.Version, o.stat.Version)
	note("cversion", z.stat.Cversion, o.stat.Cversion)
	note("aclVersion", z.stat.Aversion, o.stat.Aversion)
	note("ephemeralOwner", zk.SessionID(z.stat.EphemeralOwner), zk.SessionID(o.stat.EphemeralOwner))
	if z.names != o.names {
		all = append(all, fmt.Sprintf("children: %d and %d", len(z.children), len(o.children)))
	}
	return strings.Join(all, ", ")
}

// A reader reads one member.
type reader struct {
	member Member
	c      *client.Client
}

// read reads znodes, all requests at once. The error is that of the connection.
func (r *reader) read(ctx context.Context, paths []string) ([]znode, error) {
	all := make([]znode, len(paths))
	low := r.c.LastZxid()
	var (
		mu      sync.Mutex
		lost    error
		waiting sync.WaitGroup
	)
	answer := func(z *znode, stat zk.Stat, err error) {
		defer waiting.Done()
		var code zk.Code
		switch {
		case err == nil && z.stat != (zk.Stat{}) && z.stat != stat:
			z.torn = true
		case err == nil:
			z.stat = stat
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth):
			errors.As(err, &code)
			z.torn = z.torn || z.code != zk.OK && z.code != code || z.stat != (zk.Stat{}) && code == zk.ErrNoNode
			z.code = code
		default:
			mu.Lock()
			lost = err
			mu.Unlock()
		}
	}
	for i, p := range paths {
		z := &all[i]
		waiting.Add(3)
		r.c.GetAsync(ctx, p, func(data []byte, stat zk.Stat, err error) {
			z.data, z.null = sha256.Sum256(data), data == nil
			answer(z, stat, err)
		})
		r.c.GetACLAsync(ctx, p, func(acl []zk.ACL, stat zk.Stat, err error) {
			z.acl = fmt.Sprint(acl)
			answer(z, stat, err)
		})
		r.c.ChildrenAsync(ctx, p, func(names []string, stat zk.Stat, err error) {
			z.children = names
			answer(z, stat, err)
		})
	}
	waiting.Wait()
	for i := range all {
		all[i].low, all[i].high = low, r.c.LastZxid()
		all[i].normalize(paths[i])
	}
	return all, lost
}

// The znodes that a server fills by itself.
const (
	systemPath = "/zookeeper"
	configPath = "/zookeeper/config"
)

// normalize removes what servers of one ensemble have differently: the time at which they
// started, of configPath, and whether they have it, which those of 3.4 do not.
func (z *znode) normalize(path string) {
	slices.Sort(z.children)
	names := z.children
	switch path {
	case configPath:
		z.stat.Mtime = 0
	case systemPath:
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "config" })
		z.stat.Cversion += z.stat.NumChildren - int32(len(names)) // a Stat has less by the number of children
		z.stat.NumChildren = int32(len(names))
	}
	if len(names) > 0 {
		sum := sha256.Sum256([]byte(strings.Join(names, "/")))
		z.names = string(sum[:])
	}
}
