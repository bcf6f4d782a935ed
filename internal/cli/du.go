package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

func duCommand() command {
	return command{
		name: "du", synopsis: "[-d depth] [-h] [--by bytes|nodes|path] [path...]", short: "Sum up data and nodes by subtree",
		long: `Prints the bytes of data and the number of nodes in each subtree, the largest first:
of the path itself and, unless -d says otherwise, of its children. A node counts in
each subtree that it lies in, as with quotas; names and the server's own cost per
node are not counted.`,
		examples: `du /
du -h -d 2 /app         # two levels, in K and M
du --by nodes /         # the most nodes first
du -d 0 /app /jobs      # only sums`,
		max: -1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			depth := f.IntP("max-depth", "d", 1, "print subtrees down to this many levels below the path")
			human := f.BoolP("human-readable", "h", false, "print sizes as 1.2K or 340M")
			by := f.String("by", "bytes", "what to sort by: bytes, nodes or path")
			return func(ctx context.Context, s *shell, args []string) error {
				order, ok := sumOrders()[*by]
				if !ok || *depth < 0 {
					return usageError{"du: --by is bytes, nodes or path, and --max-depth not below 0"}
				}
				for _, p := range pathsOf(args) {
					if err := s.du(ctx, p, *depth, *human, order); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

// A sum is what a subtree holds.
type sum struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Nodes int    `json:"nodes"`
}

func sumOrders() map[string]func(a, b *sum) int {
	byPath := func(a, b *sum) int { return comparePaths(a.Path, b.Path) }
	return map[string]func(a, b *sum) int{
		"bytes": func(a, b *sum) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), byPath(a, b)) },
		"nodes": func(a, b *sum) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), byPath(a, b)) },
		"path":  byPath,
	}
}

func (s *shell) du(ctx context.Context, root string, depth int, human bool, order func(a, b *sum) int) error {
	var sums, open []*sum // open are those that the present znode lies in, by depth
	err := s.scan(ctx, root, scanOptions{depth: -1}, func(z *znode) error {
		if z.depth <= depth {
			one := &sum{Path: z.path}
			sums, open = append(sums, one), append(open[:z.depth], one)
		}
		for _, one := range open {
			one.Bytes += int64(z.stat.DataLength)
			one.Nodes++
		}
		return nil
	})
	if err != nil && !Told(err) {
		return err
	}
	slices.SortFunc(sums, order)
	return cmp.Or(s.printSums(sums, human), err)
}

func (s *shell) printSums(sums []*sum, human bool) error {
	r := s.rows("bytes", "nodes", "path")
	defer r.end()
	for _, one := range sums {
		size := fmt.Sprint(one.Bytes)
		if human {
			size = humanBytes(one.Bytes)
		}
		cells := []string{size, fmt.Sprint(one.Nodes), one.Path}
		if err := r.add(row{plain: strings.Join(cells, "\t"), cells: cells, value: one}); err != nil {
			return err
		}
	}
	return nil
}
