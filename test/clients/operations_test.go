package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// An operation is one of a list, in both forms: what it says, in words.
type operation struct {
	name  string
	want  string
	sync  func(ctx context.Context, c *client.Client) string
	async func(ctx context.Context, c *client.Client, done func(string))
	needs feature // none for what every release has
}

// say is an answer in words: the error's code, or the values.
func say(err error, values ...any) string {
	var code zk.Code
	switch {
	case errors.As(err, &code):
		return code.Error()
	case err != nil:
		return err.Error()
	}
	return strings.TrimSuffix(fmt.Sprintln(values...), "\n")
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// brief is what of a Stat is the same on every run.
func brief(s zk.Stat) string {
	born := "same"
	if s.Czxid != s.Mzxid {
		born = "later"
	}
	return fmt.Sprintf("v%d c%d a%d %dB %d below, ephemeral %v, %s", s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren, s.EphemeralOwner != 0, born)
}

func create(path string, mode zk.CreateMode, want string) operation {
	return createWith(path, []byte("data"), mode, want)
}

func createWith(path string, data []byte, mode zk.CreateMode, want string) operation {
	return operation{
		name: "create " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string {
			p, err := c.Create(ctx, path, data, mode, nil)
			return say(err, p)
		},
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.CreateAsync(ctx, path, data, mode, nil, func(p string, err error) { done(say(err, p)) })
		},
	}
}

// createStat is create2, which on servers that do not have it is a create; its
// answer is the path, and the Stat behind it.
func createStat(e *Env, path string, data []byte, mode zk.CreateMode, made, stat string) operation {
	if !e.Has(create2) {
		return createWith(path, data, mode, made)
	}
	return withStat(path, data, mode, made+" "+stat)
}

func withStat(path string, data []byte, mode zk.CreateMode, want string) operation {
	return operation{
		name: "create2 " + path, want: want, needs: create2,
		sync: func(ctx context.Context, c *client.Client) string {
			p, stat, err := c.Create2(ctx, path, data, mode, nil)
			return say(err, p, brief(stat))
		},
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.Create2Async(ctx, path, data, mode, nil, func(p string, stat zk.Stat, err error) { done(say(err, p, brief(stat))) })
		},
	}
}

func get(path, want string) operation {
	words := func(data []byte, stat zk.Stat, err error) string {
		return say(err, fmt.Sprintf("%q %v", data, data == nil), brief(stat))
	}
	return operation{
		name: "get " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return words(c.Get(ctx, path)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.GetAsync(ctx, path, func(data []byte, stat zk.Stat, err error) { done(words(data, stat, err)) })
		},
	}
}

func set(path, data string, version int32, want string) operation {
	words := func(stat zk.Stat, err error) string { return say(err, brief(stat)) }
	return operation{
		name: "set " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string {
			return words(c.Set(ctx, path, []byte(data), version))
		},
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.SetAsync(ctx, path, []byte(data), version, func(stat zk.Stat, err error) { done(words(stat, err)) })
		},
	}
}

func remove(path string, version int32, want string) operation {
	return operation{
		name: "delete " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return say(c.Delete(ctx, path, version)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.DeleteAsync(ctx, path, version, func(err error) { done(say(err)) })
		},
	}
}

func exists(path, want string) operation {
	words := func(stat zk.Stat, there bool, err error) string { return say(err, there, brief(stat)) }
	return operation{
		name: "exists " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return words(c.Exists(ctx, path)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.ExistsAsync(ctx, path, func(stat zk.Stat, there bool, err error) { done(words(stat, there, err)) })
		},
	}
}

func children(path, want string) operation {
	words := func(names []string, stat zk.Stat, err error) string { return say(err, sorted(names), brief(stat)) }
	return operation{
		name: "children " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return words(c.Children(ctx, path)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.ChildrenAsync(ctx, path, func(names []string, stat zk.Stat, err error) { done(words(names, stat, err)) })
		},
	}
}

func getACL(path, want string) operation {
	words := func(acl []zk.ACL, stat zk.Stat, err error) string { return say(err, acl, brief(stat)) }
	return operation{
		name: "getacl " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return words(c.GetACL(ctx, path)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.GetACLAsync(ctx, path, func(acl []zk.ACL, stat zk.Stat, err error) { done(words(acl, stat, err)) })
		},
	}
}

func setACL(path string, version int32, acl []zk.ACL, want string) operation {
	words := func(stat zk.Stat, err error) string { return say(err, brief(stat)) }
	return operation{
		name: "setacl " + path, want: want,
		sync: func(ctx context.Context, c *client.Client) string { return words(c.SetACL(ctx, path, acl, version)) },
		async: func(ctx context.Context, c *client.Client, done func(string)) {
			c.SetACLAsync(ctx, path, acl, version, func(stat zk.Stat, err error) { done(words(stat, err)) })
		},
	}
}

// plain are the operations that answer with an error, a number or a list.
func plain() []operation {
	return []operation{
		{
			name: "sync", want: "",
			sync: func(ctx context.Context, c *client.Client) string { return say(c.Sync(ctx, "/")) },
			async: func(ctx context.Context, c *client.Client, done func(string)) {
				c.SyncAsync(ctx, "/", func(err error) { done(say(err)) })
			},
		},
		{
			name: "ephemerals", want: "[/p/e]", needs: ephemerals,
			sync: func(ctx context.Context, c *client.Client) string {
				paths, err := c.Ephemerals(ctx, "/")
				return say(err, paths)
			},
			async: func(ctx context.Context, c *client.Client, done func(string)) {
				c.EphemeralsAsync(ctx, "/", func(paths []string, err error) { done(say(err, paths)) })
			},
		},
		{
			name: "all children", want: "4", needs: counting,
			sync: func(ctx context.Context, c *client.Client) string {
				n, err := c.AllChildrenNumber(ctx, "/p")
				return say(err, n)
			},
			async: func(ctx context.Context, c *client.Client, done func(string)) {
				c.AllChildrenNumberAsync(ctx, "/p", func(n int, err error) { done(say(err, n)) })
			},
		},
		{
			name: "who am I", want: "[{ip 127.0.0.1}]", needs: identity,
			sync: func(ctx context.Context, c *client.Client) string {
				ids, err := c.WhoAmI(ctx)
				return say(err, plainIDs(ids))
			},
			async: func(ctx context.Context, c *client.Client, done func(string)) {
				c.WhoAmIAsync(ctx, func(ids []zk.ID, err error) { done(say(err, plainIDs(ids))) })
			},
		},
		{
			name: "reconfig", want: zk.ErrReconfigDisabled.Error(), needs: reconfigure,
			sync: func(ctx context.Context, c *client.Client) string {
				_, _, err := c.Reconfig(ctx, client.Reconfig{Leaving: "9", From: -1})
				return say(err)
			},
			async: func(ctx context.Context, c *client.Client, done func(string)) {
				c.ReconfigAsync(ctx, client.Reconfig{Leaving: "9", From: -1}, func(_ []byte, _ zk.Stat, err error) { done(say(err)) })
			},
		},
	}
}

// plainIDs are identities without methods, so that they are printed as they are.
func plainIDs(ids []zk.ID) (list []struct{ Scheme, ID string }) {
	for _, id := range ids {
		list = append(list, struct{ Scheme, ID string }(id))
	}
	return list
}

// table is a list of operations, to be carried out in order below a new chroot,
// with what each must answer. What the servers do not have is not in it.
func table(e *Env) []operation {
	noNode, bad := zk.ErrNoNode.Error(), zk.ErrBadVersion.Error()
	list := []operation{
		create("/p", zk.Persistent, "/p"),
		create("/p", zk.Persistent, zk.ErrNodeExists.Error()),
		create("/no/p", zk.Persistent, noNode),
		create("/p/", zk.Persistent, zk.ErrBadArguments.Error()),
		create("/p/e", zk.Ephemeral, "/p/e"),
		create("/p/e/x", zk.Persistent, zk.ErrNoChildrenForEphemerals.Error()),
		create("/p/s-", zk.PersistentSequential, "/p/s-0000000001"),
		create("/p/s-", zk.EphemeralSequential, "/p/s-0000000002"),
		createStat(e, "/p/null", nil, zk.Persistent, "/p/null", "v0 c0 a0 0B 0 below, ephemeral false, same"),
		createStat(e, "/p/q-", []byte("12345"), zk.EphemeralSequential, "/p/q-0000000004", "v0 c0 a0 5B 0 below, ephemeral true, same"),
		get("/p", `"data" false v0 c5 a0 4B 5 below, ephemeral false, same`),
		get("/p/null", `"" true v0 c0 a0 0B 0 below, ephemeral false, same`),
		get("/no", noNode),
		children("/p", "[e null q-0000000004 s-0000000001 s-0000000002] v0 c5 a0 4B 5 below, ephemeral false, same"),
		children("/p/e", "[] v0 c0 a0 4B 0 below, ephemeral true, same"),
		children("/no", noNode),
		set("/p", "longer data", 0, "v1 c5 a0 11B 5 below, ephemeral false, later"),
		set("/p", "x", 0, bad),
		set("/p", "", -1, "v2 c5 a0 0B 5 below, ephemeral false, later"),
		get("/p", `"" false v2 c5 a0 0B 5 below, ephemeral false, later`),
		set("/no", "x", -1, noNode),
		exists("/p", "true v2 c5 a0 0B 5 below, ephemeral false, later"),
		exists("/no", "false v0 c0 a0 0B 0 below, ephemeral false, same"),
		remove("/p", -1, zk.ErrNotEmpty.Error()),
		remove("/no", -1, noNode),
		remove("/p/q-0000000004", 1, bad),
		remove("/p/q-0000000004", 0, ""),
		getACL("/p", "[world:anyone:cdrwa] v2 c6 a0 0B 4 below, ephemeral false, later"),
		setACL("/p", 7, zk.OpenACLUnsafe(), bad),
		setACL("/p", 0, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "none"}}}, zk.ErrInvalidACL.Error()),
		setACL("/p", 0, zk.OpenACLUnsafe(), "v2 c6 a1 0B 4 below, ephemeral false, later"),
		setACL("/no", -1, zk.OpenACLUnsafe(), noNode),
		getACL("/no", noNode),
		remove("/p/s-0000000002", -1, ""),
		create("/p/t", zk.Persistent, "/p/t"),
	}
	return append(list, slices.DeleteFunc(plain(), e.missing)...)
}

// missing reports whether the servers do not have an operation.
func (e *Env) missing(o operation) bool { return o.needs != "" && !e.Has(o.needs) }

// operations carries out the list, each after the answer to the one before.
func operations(t *testing.T, e *Env) {
	c, ctx := e.Client(), e.Context()
	for i, o := range table(e) {
		if got := o.sync(ctx, c); got != o.want {
			t.Errorf("%d. %s: %q, want %q", i, o.name, got, o.want)
		}
	}
	errorsHaveWords(t, ctx, c)
	missing(t, e)
}

// missing tries what the servers do not have, among what they have: it fails, and
// harms nothing.
func missing(t *testing.T, e *Env) {
	list := slices.DeleteFunc(append(plain(), withStat("/never", nil, zk.Persistent, "")), func(o operation) bool { return !e.missing(o) })
	c, ctx := e.Client(), e.Context()
	answers := make(chan string, 2*len(list))
	for _, o := range list {
		c.SetAsync(ctx, "/p", nil, -1, func(_ zk.Stat, err error) { answers <- say(err, "set") })
		o.async(ctx, c, func(answer string) { answers <- answer })
		if got := o.sync(ctx, c); got != zk.ErrUnimplemented.Error() {
			t.Errorf("%s: %q on servers that do not have it", o.name, got)
		}
	}
	got := map[string]int{}
	for range 2 * len(list) {
		select {
		case answer := <-answers:
			got[answer]++
		case <-ctx.Done():
			t.Fatalf("not all is answered: %v", got)
		}
	}
	if got["set"] != len(list) || got[zk.ErrUnimplemented.Error()] != len(list) {
		t.Errorf("%d operations that the servers do not have, and as many that they have: %v", len(list), got)
	}
	if n := e.line(c).dialled(); n != 1 {
		t.Errorf("%d connections, of which what the servers do not have has cost all but one", n)
	}
}

// errorsHaveWords demands operation and path in the error, and that nothing is
// said to have happened when it has not.
func errorsHaveWords(t *testing.T, ctx context.Context, c *client.Client) {
	_, _, err := c.Get(ctx, "/no")
	var x *client.Error
	if !errors.As(err, &x) || x.Op != "get" || x.Path != "/no" || x.Maybe || !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("get of nothing: %#v", err)
	}
	gone, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	<-gone.Done()
	if _, err := c.Create(gone, "/late", nil, zk.Persistent, nil); !errors.As(err, &x) || x.Maybe || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create after the context's end: %v", err)
	}
	if _, there, err := c.Exists(ctx, "/late"); there || err != nil {
		t.Errorf("it was carried out: %v, %v", there, err)
	}
}

// operationsAsync starts the whole list before the first answer. The answers must
// be the same, and come in order.
func operationsAsync(t *testing.T, e *Env) {
	c, ctx := e.Client(), e.Context()
	// What is refused before it is sent has no turn.
	list := slices.DeleteFunc(table(e), func(o operation) bool { return o.want == zk.ErrBadArguments.Error() })
	answers := make(chan string, len(list))
	for i, o := range list {
		o.async(ctx, c, func(answer string) { answers <- fmt.Sprint(i, " ", answer) })
	}
	for i, o := range list {
		select {
		case got := <-answers:
			if want := fmt.Sprint(i, " ", o.want); got != want {
				t.Errorf("%s: %q, want %q", o.name, got, want)
			}
		case <-ctx.Done():
			t.Fatalf("no answer to %s", o.name)
		}
	}
}
