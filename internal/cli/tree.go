package cli

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func treeCommand() command {
	return command{
		name: "tree", synopsis: "[-L depth] [-s] [path]", short: "Draw a node and all below it",
		long: `Draws a node and all below it. A node that is ephemeral is marked, and so is one
whose children are not shown because they lie deeper than -L says, or may not be
read.`,
		examples: `tree /app
tree -L 2 /             # two levels
tree -s /app            # with the bytes of each
tree --output json /app # a node a line`,
		max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			depth := f.IntP("level", "L", -1, "go no deeper than this many levels")
			sizes := f.BoolP("size", "s", false, "print the bytes of data too")
			return func(ctx context.Context, s *shell, args []string) error {
				return s.tree(ctx, pathsOf(args)[0], *depth, *sizes)
			}
		},
	}
}

// foundZnode is a znode in JSON, as tree and find have it.
type foundZnode struct {
	Path     string `json:"path"`
	Bytes    int32  `json:"bytes"`
	Children int32  `json:"children"`
	Modified string `json:"modified"`
	Owner    string `json:"owner,omitempty"` // of an ephemeral
}

func foundJSON(z *znode) foundZnode {
	f := foundZnode{Path: z.path, Bytes: z.stat.DataLength, Children: z.stat.NumChildren, Modified: isoTime(z.stat.Mtime)}
	if kindOf(z.stat) == ephemeral {
		f.Owner = zk.SessionID(z.stat.EphemeralOwner).String()
	}
	return f
}

func foundCells(z *znode) []string {
	f := foundJSON(z)
	return []string{f.Path, fmt.Sprint(f.Bytes), fmt.Sprint(f.Children), f.Modified, f.Owner}
}

func foundColumns() []string { return []string{"path", "bytes", "children", "modified", "owner"} }

func (s *shell) tree(ctx context.Context, root string, depth int, sizes bool) error {
	r := s.rows(foundColumns()...)
	defer r.end()
	var d drawing
	nodes, bytes := 0, int64(0)
	err := s.scan(ctx, root, scanOptions{depth: depth}, func(z *znode) error {
		nodes++
		bytes += int64(z.stat.DataLength)
		return r.add(row{plain: d.line(z, sizes), cells: foundCells(z), value: foundJSON(z)})
	})
	if err != nil && !Told(err) {
		return err
	}
	text := count(nodes, "node")
	if sizes {
		text += ", " + humanBytes(bytes) + " bytes"
	}
	if noteErr := r.addNote("\n" + text); noteErr != nil {
		return noteErr
	}
	return err
}

// A drawing draws a tree, znode by znode.
type drawing struct {
	lastNames []string // of the children of the znodes above, by depth
	lasts     []bool   // whether the znodes above, and the present one, are last
}

// line is the line of the next znode.
func (d *drawing) line(z *znode, sizes bool) string {
	d.lasts = append(d.lasts[:z.depth:z.depth], z.depth == 0 || path.Base(z.path) == d.lastNames[z.depth-1])
	lastName := ""
	if n := len(z.children); n > 0 {
		lastName = z.children[n-1]
	}
	d.lastNames = append(d.lastNames[:z.depth:z.depth], lastName)

	var b strings.Builder
	for i := 1; i <= z.depth; i++ {
		b.WriteString(branch(i == z.depth, d.lasts[i]))
	}
	if z.depth == 0 {
		b.WriteString(z.path)
	} else {
		b.WriteString(path.Base(z.path))
	}
	if sizes {
		fmt.Fprintf(&b, "  %s", humanBytes(int64(z.stat.DataLength)))
	}
	switch {
	case z.err != nil:
		b.WriteString("  (may not be read)")
	case kindOf(z.stat) == ephemeral:
		b.WriteString("  (ephemeral)")
	case z.stat.NumChildren > 0 && len(z.children) == 0:
		fmt.Fprintf(&b, "  (%d below)", z.stat.NumChildren)
	}
	return b.String()
}

func branch(own, last bool) string {
	switch {
	case own && last:
		return "└── "
	case own:
		return "├── "
	case last:
		return "    "
	}
	return "│   "
}
