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
		short: "Make the nodes of an export",
		long: `Makes the nodes of an export, with data and ACLs, where they were, or at a path in
place of the export's root. "-" is the input.

A node that is there as the export has it is left alone: an import that was
interrupted goes on when it is run again. One that differs is an error, unless
--overwrite gives it the data and ACL of the export. Nodes that the export does not
have stay.

Not restored are versions, transactions, times, and the numbers of sequential nodes
to come. Ephemerals are left out.`,
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
				from := s.in
				if args[0] != "-" {
					file, err := os.Open(args[0])
					if err != nil {
						return err
					}
					defer file.Close()
					from = file
				}
				to := ""
				if len(args) == 2 {
					to = args[1]
				}
				return s.importFrom(ctx, from, to, opt)
			}
		},
	}
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
