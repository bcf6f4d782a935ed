package cli

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// readCommands are those that look at znodes.
func readCommands() []command {
	return []command{lsCommand(), getCommand(), statCommand(), countCommand()}
}

func lsCommand() command {
	return command{
		name: "ls", synopsis: "[-s] [-w] [-R] path", short: "List the children of a node",
		long: `Lists the children of a node by name. With -R, the node and all below it, a path
a line: the children of a node together, then what is below each. What is listed
need not have been there at any one moment: the tree may change meanwhile. With
-R and -w, each list has its watch.`,
		examples: `ls /
ls -s /app              # and what is known of /app itself
ls -w /app              # tell once when a child comes or goes
ls -R / | grep config   # (from a script: pinfold cli ls -R / | grep config)`,
		min: 1, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			stat := f.BoolP("stat", "s", false, "print the node's Stat too")
			watch := f.BoolP("watch", "w", false, "leave a watch for the next change of the list")
			recursive := f.BoolP("recursive", "R", false, "all nodes below, too")
			return func(ctx context.Context, s *shell, args []string) error {
				s.oldWatch(args, "ls [-w] path", watch)
				if *recursive {
					return s.listBelow(ctx, args[0], *watch)
				}
				return s.list(ctx, args[0], *stat, *watch)
			}
		},
	}
}

func (s *shell) list(ctx context.Context, path string, withStat, withWatch bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	var names []string
	var stat zk.Stat
	var w *client.Watch
	if withWatch {
		names, stat, w, err = c.ChildrenW(ctx, path)
	} else {
		names, stat, err = c.Children(ctx, path)
	}
	if err != nil {
		return err
	}
	defer s.follow(watchChildren, w) // events are printed after the list
	slices.Sort(names)
	if s.format == table {
		return s.nameTable(names, stat, withStat)
	}
	one := row{plain: "[" + strings.Join(names, ", ") + "]"}
	value := struct {
		Path     string    `json:"path"`
		Children []string  `json:"children"`
		Stat     *jsonStat `json:"stat,omitempty"`
	}{path, names, nil}
	if names == nil {
		value.Children = []string{}
	}
	if withStat {
		one.plain += "\n" + statPlain(stat)
		value.Stat = statJSON(stat)
	}
	one.value = value
	return s.print(nil, one)
}

// nameTable prints children a line each, followed by the Stat.
func (s *shell) nameTable(names []string, stat zk.Stat, withStat bool) error {
	r := s.rows("name")
	defer r.end()
	for _, name := range names {
		if err := r.add(row{plain: name}); err != nil {
			return err
		}
	}
	if withStat {
		r.end()
		return s.printStat("", stat)
	}
	return nil
}

func (s *shell) listBelow(ctx context.Context, path string, withWatch bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	r := s.rows("path")
	defer r.end()
	add := func(path string) error {
		return r.add(row{plain: path, cells: []string{path}})
	}
	var watches []*client.Watch
	defer func() {
		for _, w := range watches {
			s.follow(watchChildren, w)
		}
	}()
	return newScanner(ctx, c, path, scanOptions{depth: -1, watch: withWatch}).each(func(z *znode) error {
		watches = append(watches, z.watch)
		if z.err != nil {
			return z.err
		}
		if z.depth == 0 {
			if err := add(z.path); err != nil {
				return err
			}
		}
		for _, name := range z.children {
			if err := add(childPath(z.path, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func getCommand() command {
	return command{
		name: "get", synopsis: "[-s] [-w] [-b] [-x] path", short: "Print the data of a node",
		long: `Prints the data of a node as it is, and a line break. Data that is no text is
better printed by -b or -x.`,
		examples: `get /app/config
get -s /app/config       # and its version, for set -v
get -w /app/config       # tell once when it changes
get -x /app/config       # as a dump`,
		min: 1, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var g dataForm
			stat := f.BoolP("stat", "s", false, "print the node's Stat too")
			watch := f.BoolP("watch", "w", false, "leave a watch for the next change")
			f.BoolVarP(&g.base64, "base64", "b", false, "print the data in base64")
			f.BoolVarP(&g.dump, "hexdump", "x", false, "print the data as a dump")
			return func(ctx context.Context, s *shell, args []string) error {
				s.oldWatch(args, "get [-s] [-w] path", watch)
				return s.get(ctx, args[0], g, *stat, *watch)
			}
		},
	}
}

// dataForm is how get prints data.
type dataForm struct{ base64, dump bool }

func (g dataForm) text(data []byte) string {
	switch {
	case data == nil:
		return "null"
	case g.base64:
		return base64.StdEncoding.EncodeToString(data)
	case g.dump:
		return strings.TrimSuffix(hex.Dump(data), "\n")
	}
	return string(data)
}

func (s *shell) get(ctx context.Context, path string, g dataForm, withStat, withWatch bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	var data []byte
	var stat zk.Stat
	var w *client.Watch
	if withWatch {
		data, stat, w, err = c.GetW(ctx, path)
	} else {
		data, stat, err = c.Get(ctx, path)
	}
	if err != nil {
		return err
	}
	defer s.follow(watchData, w)
	one := row{plain: g.text(data), cells: []string{path, g.text(data)}}
	columns := []string{"path", "data"}
	value := struct {
		Path string `json:"path"`
		jsonData
		Stat *jsonStat `json:"stat,omitempty"`
	}{path, dataJSON(data), nil}
	if withStat {
		value.Stat = statJSON(stat)
		one.plain += "\n" + statPlain(stat)
		columns = append(columns, statColumns()...)
		one.cells = append(one.cells, statCells(stat)...)
	}
	one.value = value
	return s.print(columns, one)
}

// oldWatch accepts zkCli.sh's syntax for a watch before 3.5, any word after the path,
// and prints the present one.
func (s *shell) oldWatch(args []string, now string, watch *bool) {
	if len(args) == 2 {
		name, _, _ := strings.Cut(now, " ")
		fmt.Fprintf(s.errs, "'%s path [watch]' has been deprecated. Please use '%s' instead.\n", name, now)
		*watch = true
	}
}

// jsonData is data in JSON: as it is if that is a text, else in base64. Both are
// null for null.
type jsonData struct {
	Data   *string `json:"data"`
	Base64 *string `json:"base64,omitempty"`
}

func dataJSON(data []byte) jsonData {
	switch {
	case data == nil:
		return jsonData{}
	case utf8.Valid(data):
		text := string(data)
		return jsonData{Data: &text}
	}
	text := base64.StdEncoding.EncodeToString(data)
	return jsonData{Base64: &text}
}

func statCommand() command {
	return command{
		name: "stat", synopsis: "[-w] path", short: "Print what is known of a node beside its data",
		long: "Prints the Stat of a node: transactions, times, versions, owner and sizes.",
		examples: `stat /app
stat -w /app     # tell once when it changes, is deleted or, if it is not there, created`,
		min: 1, max: 2, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			watch := f.BoolP("watch", "w", false, "leave a watch for the next change, or for its creation")
			return func(ctx context.Context, s *shell, args []string) error {
				s.oldWatch(args, "stat [-w] path", watch)
				return s.stat(ctx, args[0], *watch)
			}
		},
	}
}

func (s *shell) stat(ctx context.Context, path string, withWatch bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	var w *client.Watch
	var stat zk.Stat
	var exists bool
	if withWatch {
		stat, exists, w, err = c.ExistsW(ctx, path)
	} else {
		stat, exists, err = c.Exists(ctx, path)
	}
	if err != nil {
		return err
	}
	defer s.follow(watchData, w)
	if !exists {
		return &client.Error{Op: "stat", Path: path, Err: zk.ErrNoNode}
	}
	return s.printStat(path, stat)
}

// printStat prints a Stat alone, of a path or, if it is "", of one that has been
// named before.
func (s *shell) printStat(path string, stat zk.Stat) error {
	columns, cells := statColumns(), statCells(stat)
	if path != "" {
		columns, cells = append([]string{"path"}, columns...), append([]string{path}, cells...)
	}
	value := struct {
		Path string `json:"path,omitempty"`
		*jsonStat
	}{path, statJSON(stat)}
	return s.print(columns, row{plain: statPlain(stat), cells: cells, value: value})
}

func countCommand() command {
	return command{
		name: "getAllChildrenNumber", synopsis: "path", short: "Count the nodes below a node",
		long:     "Counts all nodes below a node, at all depths, without it. The server counts; one\nbefore 3.6 cannot, and all are read.",
		examples: "getAllChildrenNumber /app",
		min:      1, max: 1, complete: []argKind{argPath},
		run: func(ctx context.Context, s *shell, args []string) error {
			c, err := s.client(ctx)
			if err != nil {
				return err
			}
			n, err := c.AllChildrenNumber(ctx, args[0])
			if errors.Is(err, zk.ErrUnimplemented) {
				err = s.scan(ctx, args[0], scanOptions{depth: -1}, func(z *znode) error {
					if z.depth > 0 {
						n++
					}
					return nil
				})
			}
			if err != nil {
				return err
			}
			value := struct {
				Path  string `json:"path"`
				Count int    `json:"count"`
			}{args[0], n}
			text := strconv.Itoa(n)
			return s.print([]string{"path", "count"}, row{plain: text, cells: []string{args[0], text}, value: value})
		},
	}
}
