package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Quotas are znodes below quotaRoot at the path of the znode that is bounded:
// one with the limits, that clients write, and one with what is used, that the
// servers write.
const (
	quotaRoot   = "/zookeeper/quota"
	quotaLimits = "/zookeeper_limits"
	quotaStats  = "/zookeeper_stats"
)

// quotaCommands are those that bound the number and size of znodes.
func quotaCommands() []command {
	return []command{setQuotaCommand(), listQuotaCommand(), delQuotaCommand()}
}

// A quota is the content of either znode; -1 is no limit.
type quota struct {
	Count     int64 `json:"count"`
	Bytes     int64 `json:"bytes"`
	HardCount int64 `json:"hardCount"`
	HardBytes int64 `json:"hardBytes"`
}

// noQuota limits nothing.
func noQuota() quota { return quota{-1, -1, -1, -1} }

// parseQuota reads what String writes; servers leave hard limits out that
// they do not know. What is missing or no number is -1.
func parseQuota(data []byte) quota {
	q := noQuota()
	fields := strings.FieldsFunc(string(data), func(r rune) bool { return r == ',' || r == ';' })
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(value, "="), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "count":
			q.Count = n
		case "bytes":
			q.Bytes = n
		case "byteHardLimit":
			q.HardBytes = n
		case "countHardLimit":
			q.HardCount = n
		}
	}
	return q
}

// String is the content of the znode of limits. The = before ; is ZooKeeper's.
func (q quota) String() string {
	return fmt.Sprintf("count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", q.Count, q.Bytes, q.HardBytes, q.HardCount)
}

// used is the content of the znode of what is used, which has no hard limits.
func (q quota) used() string { return fmt.Sprintf("count=%d,bytes=%d", q.Count, q.Bytes) }

// limits returns pointers to the four limits by their options.
func (q *quota) limits() map[string]*int64 {
	return map[string]*int64{"n": &q.Count, "b": &q.Bytes, "N": &q.HardCount, "B": &q.HardBytes}
}

func setQuotaCommand() command {
	return command{
		name: "setquota", synopsis: "-n|-b|-N|-B val path", short: "Bound the number or size of the nodes below a node",
		long: `Bounds how many nodes there may be from a node on downwards, the node included,
or how many bytes of data. Servers log that a soft limit is passed, and refuse
what passes a hard one if enforceQuota is set in their zoo.cfg. Limits that are not
named stay as they are. A node below one that has a quota cannot have its own.`,
		examples: `setquota -n 1000 /app        # soft: a line in the servers' logs
setquota -N 2000 -B 1000000 /app`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var q quota
			f.Int64VarP(&q.Count, "count", "n", -1, "soft limit of the number of nodes")
			f.Int64VarP(&q.Bytes, "bytes", "b", -1, "soft limit of bytes")
			f.Int64VarP(&q.HardCount, "hard-count", "N", -1, "hard limit of the number of nodes")
			f.Int64VarP(&q.HardBytes, "hard-bytes", "B", -1, "hard limit of bytes")
			return func(ctx context.Context, s *shell, args []string) error {
				if err := checkLimits(f, &q); err != nil {
					return err
				}
				c, err := s.quotaClient(ctx, args[0])
				if err != nil {
					return err
				}
				return s.setQuota(ctx, c, args[0], q)
			}
		},
	}
}

// quotaClient is client for what concerns the quota of path. Quotas are kept at the
// root of an ensemble, which a client with a chroot does not see: that is a
// usageError.
func (s *shell) quotaClient(ctx context.Context, path string) (*client.Client, error) {
	c, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	if chroot := c.Chroot(); chroot != "" {
		servers := strings.TrimSuffix(s.servers, chroot)
		return nil, usageError{fmt.Sprintf("Quotas are in %s of the ensemble, outside of %s\n(connect to %s, and name the node %s)",
			quotaRoot, chroot, servers, chroot+strings.TrimSuffix(path, "/"))}
	}
	return c, nil
}

func checkLimits(f *pflag.FlagSet, q *quota) error {
	given := false
	words := map[string]string{"n": "num", "b": "bytes", "N": "num", "B": "bytes"}
	for letter, value := range q.limits() {
		if !f.ShorthandLookup(letter).Changed {
			continue
		}
		given = true
		bytes := words[letter] == "bytes"
		switch {
		case bytes && *value < 0:
			return usageError{"the bytes quota must be greater than or equal to zero"}
		case !bytes && *value <= 0:
			return usageError{"the num quota must be greater than zero"}
		case !bytes && *value > math.MaxInt32: // servers before 3.5 fail at what they cannot read
			return usageError{fmt.Sprintf("the num quota cannot be larger than %d", math.MaxInt32)}
		}
	}
	if !given {
		return usageError{"setquota needs one of -n (nodes), -b (bytes), -N and -B (the same, hard)"}
	}
	return nil
}

func (s *shell) setQuota(ctx context.Context, c *client.Client, path string, q quota) error {
	switch {
	case path == "/":
		return usageError{"the root cannot have a quota"}
	case strings.HasPrefix(path, quotaRoot):
		return usageError{"cannot set a quota under the path: " + quotaRoot}
	}
	_, exists, err := c.Exists(ctx, path)
	if err != nil {
		return err
	}
	if !exists {
		//lint:ignore ST1005 these are the words of zkCli.sh
		return fmt.Errorf("%s does not exist.", path)
	}
	if err := checkAbove(ctx, c, path); err != nil {
		return err
	}
	if err := checkBelow(ctx, c, path); err != nil {
		return err
	}
	limits, err := writeQuota(ctx, c, path, q)
	if err != nil {
		return err
	}
	return s.warnOfUse(ctx, c, path, limits)
}

// checkAbove refuses a quota below another.
func checkAbove(ctx context.Context, c *client.Client, path string) error {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		_, exists, err := c.Exists(ctx, quotaRoot+path[:i]+quotaLimits)
		if err != nil {
			return err
		}
		if exists {
			return fmt.Errorf("%s has a parent %s which has a quota", path, path[:i])
		}
	}
	return nil
}

// checkBelow refuses a quota above another.
func checkBelow(ctx context.Context, c *client.Client, path string) error {
	below := ""
	err := newScanner(ctx, c, quotaRoot+path, scanOptions{depth: -1}).each(func(z *znode) error {
		if z.err != nil && !errors.Is(z.err, zk.ErrNoAuth) {
			return z.err
		}
		if z.depth > 1 && strings.HasSuffix(z.path, quotaLimits) {
			below = strings.TrimSuffix(strings.TrimPrefix(z.path, quotaRoot), quotaLimits)
			return fmt.Errorf("%s has a child %s which has a quota", path, below)
		}
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// writeQuota writes the limits that q has, beside those that there are, and
// returns all.
func writeQuota(ctx context.Context, c *client.Client, path string, q quota) (quota, error) {
	data, stat, err := c.Get(ctx, quotaRoot+path+quotaLimits)
	if errors.Is(err, zk.ErrNoNode) {
		return q, createQuota(ctx, c, path, q)
	}
	if err != nil {
		return q, err
	}
	all := parseQuota(data)
	new, old := q.limits(), all.limits()
	for letter, value := range new {
		if *value != -1 {
			*old[letter] = *value
		}
	}
	_, err = c.Set(ctx, quotaRoot+path+quotaLimits, []byte(all.String()), stat.Version)
	return all, err
}

// createQuota makes the two znodes, those above them first. The servers fill in
// what is used.
func createQuota(ctx context.Context, c *client.Client, path string, q quota) error {
	full := quotaRoot + path
	for i := len(quotaRoot) + 1; i <= len(full); i++ {
		if i < len(full) && full[i] != '/' {
			continue
		}
		_, err := c.Create(ctx, full[:i], nil, zk.Persistent, nil)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	if _, err := c.Create(ctx, full+quotaLimits, []byte(q.String()), zk.Persistent, nil); err != nil {
		return err
	}
	_, err := c.Create(ctx, full+quotaStats, []byte(noQuota().String()), zk.Persistent, nil)
	return err
}

// warnOfUse says that more is used already than a quota allows.
func (s *shell) warnOfUse(ctx context.Context, c *client.Client, path string, q quota) error {
	data, _, err := c.Get(ctx, quotaRoot+path+quotaStats)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	used := parseQuota(data)
	over := func(what string, n int64, limits ...int64) {
		for _, limit := range limits {
			if limit != -1 && limit < n {
				fmt.Fprintf(s.out, "[Warning]: the %s quota you create is less than the existing %s:%d\n", what, what, n)
				return
			}
		}
	}
	if s.format != jsonl {
		over("count", used.Count, q.Count, q.HardCount)
		over("bytes", used.Bytes, q.Bytes, q.HardBytes)
	}
	return nil
}

func listQuotaCommand() command {
	return command{
		name: "listquota", synopsis: "path", short: "Print the limits of a node and what is used",
		long:     "Prints the limits that setquota has set on a node, -1 for none, and what is used.",
		examples: "listquota /app",
		min:      1, max: 1, complete: []argKind{argPath},
		run: func(ctx context.Context, s *shell, args []string) error {
			c, err := s.quotaClient(ctx, args[0])
			if err != nil {
				return err
			}
			return s.listQuota(ctx, c, args[0])
		},
	}
}

func (s *shell) listQuota(ctx context.Context, c *client.Client, path string) error {
	full := quotaRoot + path
	if s.format == plain {
		fmt.Fprintln(s.errs, "absolute path is "+full+quotaLimits)
	}
	data, _, err := c.Get(ctx, full+quotaLimits)
	if errors.Is(err, zk.ErrNoNode) {
		//lint:ignore ST1005 these are the words of zkCli.sh
		return fmt.Errorf("quota for %s does not exist.", path)
	}
	if err != nil {
		return err
	}
	limits := parseQuota(data)
	data, _, err = c.Get(ctx, full+quotaStats)
	if err != nil {
		return err
	}
	used := parseQuota(data)
	number := strconv.FormatInt
	return s.print([]string{"path", "count", "limit", "hard", "bytes", "limit", "hard"}, row{
		plain: fmt.Sprintf("Output quota for %s %s\nOutput stat for %s %s", path, limits, path, used.used()),
		cells: []string{
			path, number(used.Count, 10), number(limits.Count, 10), number(limits.HardCount, 10),
			number(used.Bytes, 10), number(limits.Bytes, 10), number(limits.HardBytes, 10),
		},
		value: struct {
			Path   string           `json:"path"`
			Limits quota            `json:"limits"`
			Used   map[string]int64 `json:"used"`
		}{path, limits, map[string]int64{"count": used.Count, "bytes": used.Bytes}},
	})
}

func delQuotaCommand() command {
	return command{
		name: "delquota", synopsis: "[-n|-b|-N|-B] path", short: "Take limits off a node",
		long: "Takes limits off a node: those that are named, or all and the account of what is\nused.",
		examples: `delquota -n /app
delquota /app`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			f.BoolP("count", "n", false, "the soft limit of the number of nodes")
			f.BoolP("bytes", "b", false, "the soft limit of bytes")
			f.BoolP("hard-count", "N", false, "the hard limit of the number of nodes")
			f.BoolP("hard-bytes", "B", false, "the hard limit of bytes")
			return func(ctx context.Context, s *shell, args []string) error {
				c, err := s.quotaClient(ctx, args[0])
				if err != nil {
					return err
				}
				var letters []string
				f.Visit(func(flag *pflag.Flag) { letters = append(letters, flag.Shorthand) })
				err = deleteQuota(ctx, c, args[0], letters)
				if errors.Is(err, zk.ErrNoNode) && s.format == plain {
					_, err = fmt.Fprintln(s.out, "Quota does not exist for "+args[0])
				}
				return err
			}
		},
	}
}

// deleteQuota takes the limits of these options off, or all for none.
// zk.ErrNoNode says that there are none.
func deleteQuota(ctx context.Context, c *client.Client, path string, letters []string) error {
	full := quotaRoot + path
	data, stat, err := c.Get(ctx, full+quotaLimits)
	if err != nil {
		return err
	}
	if len(letters) > 0 {
		q := parseQuota(data)
		for _, letter := range letters {
			*q.limits()[letter] = -1
		}
		_, err := c.Set(ctx, full+quotaLimits, []byte(q.String()), stat.Version)
		return err
	}
	if err := c.Delete(ctx, full+quotaLimits, -1); err != nil {
		return err
	}
	if err := c.Delete(ctx, full+quotaStats, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	// The znodes above are of no more use, unless other quotas are there.
	for p := full; p != quotaRoot; p = p[:strings.LastIndexByte(p, '/')] {
		err := c.Delete(ctx, p, -1)
		if errors.Is(err, zk.ErrNotEmpty) {
			return nil
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}
