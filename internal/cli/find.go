package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func findCommand() command {
	return command{
		name: "find", synopsis: "[options] [path...]", short: "Find nodes by name, size, age, owner or ACL",
		long: `Prints the paths of the nodes at and below a path to which all options apply;
without options, of all. --output table and json say more of each.

A size is a number of bytes, optionally followed by K, M or G (powers of 1024);
+ before it means more, - less. An age is like 30s, 5m, 12h or 7d, since the data
was last set.`,
		examples: `find /app --name 'worker-*'          # by the last part of the path
find / --regex '^/app/.*/lock-'      # by the whole path
find / --ephemeral                   # of any session
find / --owner 0x10000abcdef0001     # of one session
find /app --size +100K               # larger than 100 KiB
find /app --older 30d --leaf         # not set for 30 days, and without children
find / --acl '^world:anyone:.*w'     # nodes that any client may write
find /app --empty --output json      # without data and children`,
		max: -1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var w wanted
			f.StringVar(&w.name, "name", "", "the last part of the path matches this pattern, with * ? and [a-z]")
			regex := f.String("regex", "", "the path matches this regular expression, somewhere")
			acl := f.String("acl", "", "an entry scheme:id:perms of the ACL matches this regular expression, somewhere")
			f.BoolVar(&w.ephemeral, "ephemeral", false, "lives with a session")
			f.BoolVar(&w.persistent, "persistent", false, "does not")
			owner := f.String("owner", "", "lives with this session")
			size := f.String("size", "", "has so many bytes of data, +SIZE more, -SIZE less")
			older := f.String("older", "", "data set longer ago than this")
			newer := f.String("newer", "", "data set within this")
			f.BoolVar(&w.empty, "empty", false, "has neither data nor children")
			f.BoolVar(&w.leaf, "leaf", false, "has no children")
			f.IntVarP(&w.depth, "level", "L", -1, "lies no deeper than this many levels below the path")
			return func(ctx context.Context, s *shell, args []string) error {
				err := errors.Join(
					w.setPattern(&w.regex, *regex), w.setPattern(&w.acl, *acl), w.setOwner(*owner), w.setSize(*size),
					setAge(&w.older, *older), setAge(&w.newer, *newer), w.checkName(),
				)
				if err != nil {
					return usageError{err.Error()}
				}
				return s.findZnodes(ctx, pathsOf(args), w)
			}
		},
	}
}

// wanted is what find looks for. Its zero value, but for depth, is all.
type wanted struct {
	name                  string
	regex, acl            *regexp.Regexp
	ephemeral, persistent bool
	owner                 int64
	size, sizeMin         int64 // with sized: size is the greatest
	sized                 bool
	older, newer          time.Duration
	empty, leaf           bool
	depth                 int
}

func (w *wanted) setPattern(to **regexp.Regexp, text string) (err error) {
	if text != "" {
		*to, err = regexp.Compile(text)
	}
	return err
}

func (w *wanted) checkName() error {
	if _, err := path.Match(w.name, ""); err != nil {
		return fmt.Errorf("--name %q: %w", w.name, err)
	}
	return nil
}

func (w *wanted) setOwner(text string) error {
	if text == "" {
		return nil
	}
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil {
		return fmt.Errorf("--owner %q: a session is a hexadecimal number", text)
	}
	w.owner, w.ephemeral = int64(id), true
	return nil
}

func (w *wanted) setSize(text string) error {
	if text == "" {
		return nil
	}
	n, err := parseSize(strings.TrimLeft(text, "+-"))
	if err != nil {
		return err
	}
	w.sized = true
	switch text[0] {
	case '+':
		w.sizeMin, w.size = n+1, 1<<62
	case '-':
		w.sizeMin, w.size = 0, n-1
	default:
		w.sizeMin, w.size = n, n
	}
	return nil
}

// setAge reads a duration, which may be one of days.
func setAge(to *time.Duration, text string) error {
	if text == "" {
		return nil
	}
	var err error
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		*to = time.Duration(n * 24 * float64(time.Hour))
	} else {
		*to, err = time.ParseDuration(text)
	}
	if err != nil || *to <= 0 {
		return fmt.Errorf("%q is no age: 30s, 5m, 12h, 7d", text)
	}
	return nil
}

// matches decides; now is in milliseconds since 1970.
func (w *wanted) matches(z *znode, now int64) bool {
	if w.name != "" {
		if ok, _ := path.Match(w.name, path.Base(z.path)); !ok { // the pattern has been checked
			return false
		}
	}
	st, age := z.stat, time.Duration(now-z.stat.Mtime)*time.Millisecond
	isEphemeral := kindOf(st) == ephemeral
	switch {
	case w.regex != nil && !w.regex.MatchString(z.path),
		w.acl != nil && !w.aclMatches(z.acl),
		w.ephemeral && !isEphemeral,
		w.persistent && isEphemeral,
		w.owner != 0 && st.EphemeralOwner != w.owner,
		w.sized && (int64(st.DataLength) < w.sizeMin || int64(st.DataLength) > w.size),
		w.older > 0 && age <= w.older,
		w.newer > 0 && age > w.newer,
		w.empty && (st.DataLength > 0 || st.NumChildren > 0),
		w.leaf && st.NumChildren > 0:
		return false
	}
	return z.err == nil || !w.needsStat()
}

// needsStat reports whether a znode that may not be read cannot be judged.
func (w *wanted) needsStat() bool {
	return w.acl != nil || w.ephemeral || w.persistent || w.sized || w.older > 0 || w.newer > 0 || w.empty || w.leaf
}

func (w *wanted) aclMatches(acl []zk.ACL) bool {
	for _, a := range acl {
		if w.acl.MatchString(a.String()) {
			return true
		}
	}
	return false
}

func (s *shell) findZnodes(ctx context.Context, paths []string, w wanted) error {
	r := s.rows(foundColumns()...)
	defer r.end()
	var first error
	now := time.Now().UnixMilli()
	for _, p := range paths {
		err := s.scan(ctx, p, scanOptions{depth: w.depth, acl: w.acl != nil}, func(z *znode) error {
			if !w.matches(z, now) {
				return nil
			}
			return r.add(row{plain: z.path, cells: foundCells(z), value: foundJSON(z)})
		})
		if err != nil && !Told(err) {
			return err
		}
		first = errors.Join(first, err)
	}
	return first
}
