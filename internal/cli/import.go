package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

func importCommand() command {
	return command{
		name: "import", synopsis: "[--dry-run] [--overwrite] [--no-acl] [-p] file [path]",
		short: "Create the nodes of an export",
		long: `Creates the nodes of an export, with data and ACLs, at their old paths, or at a path
that replaces the export's root. "-" reads the standard input. An export whose end is
missing is refused before any node is created.

A node that exists with the same data and ACL is not changed, so that an interrupted
import can be repeated. A node that differs is an error, unless --overwrite sets the
data and ACL of the export. Nodes that the export does not have are kept.

Versions, zxids, times and the counters of sequential nodes are not restored.
Ephemeral nodes are skipped.`,
		examples: `import app.json
import --dry-run app.json       # what would be done
import app.json /app-copy       # elsewhere
import --overwrite app.json     # as it was
pinfold cli --server zk1:2181 export /app | pinfold cli --server zk2:2181 import -   # (in a script)`,
		min: 1, max: 2, complete: []argKind{argFile, argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			var opt transferOptions
			opt.declare(f)
			return func(ctx context.Context, s *shell, args []string) error {
				from, err := s.openExport(args[0])
				if err != nil {
					return err
				}
				defer from.Close()
				to := ""
				if len(args) == 2 {
					to = args[1]
				}
				return s.importFrom(ctx, from, to, opt)
			}
		},
	}
}

// openExport opens an export, "-" for the input, and reads to its end to see that it is
// whole. The input, which may be a pipe, is copied to a temporary file for that. The
// caller closes the result.
func (s *shell) openExport(name string) (file *os.File, err error) {
	if name == "-" {
		file, err = spool(s.in)
	} else {
		file, err = os.Open(name)
	}
	if err != nil {
		return nil, err
	}
	if err = checkWhole(file); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// spool copies an input to a temporary file that has no name any more.
func spool(from io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "pinfold-import-")
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(file, from)
	if err = errors.Join(err, os.Remove(file.Name())); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (s *shell) importFrom(ctx context.Context, from io.Reader, path string, opt transferOptions) error {
	r, err := readExport(from)
	if err != nil {
		return err
	}
	if path == "" {
		path = r.header.Root
	}
	to, err := s.locate(ctx, path)
	if err != nil {
		return err
	}
	defer to.close()
	t, err := s.transferTo(ctx, to, opt)
	if err != nil {
		return err
	}
	return t.end(t.read(r))
}

// read transfers all that an export has.
func (t *transfer) read(r *exportReader) error {
	for {
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		x, err := e.planting(place(t.to.root, relative(r.header.Root, e.Path)))
		if err != nil {
			return r.wrong(fmt.Errorf("%s: %w", e.Path, err))
		}
		if err := t.add(x); err != nil {
			return err
		}
	}
	if r.end.Failed > 0 {
		fmt.Fprintf(t.s.errs, "The export is without %s that could not be read.\n", count(r.end.Failed, "node"))
	}
	return nil
}
