package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func exportCommand() command {
	return command{
		name: "export", synopsis: "[path] [file]", short: "Write a subtree to a file",
		long: `Writes a node and all below it, with data and ACLs, in JSON, a node a line, to a
file, or to the output if there is none or it is "-". A file is there when it is
whole, and not before; the output ends with a line that says so.

An export is no snapshot: it has each node as it was when it was read. Versions,
transactions and times are in the export for the record, but no import can restore
them. Ephemerals are in it, and are left out by imports. Which nodes are containers
or have a time to live no server tells: they are exported as persistent. Of the
root of an ensemble, /zookeeper is left out: it is the servers' own.`,
		examples: `export /app app.json
export / > all.json                    # (from a script: pinfold cli export / > all.json)
export zk2:2181/app app.json           # from another ensemble
export /app | jq -r 'select(.path) | .path'`,
		max: 2, complete: []argKind{argPath, argFile},
		run: func(ctx context.Context, s *shell, args []string) error {
			to := "-"
			if len(args) == 2 {
				to = args[1]
			}
			return s.export(ctx, pathsOf(args)[0], to)
		},
	}
}

func (s *shell) export(ctx context.Context, path, to string) error {
	if to == "-" {
		n, err := s.exportTo(ctx, path, s.out)
		if err == nil || n > 0 {
			fmt.Fprintf(s.errs, "exported %s\n", count(n, "node"))
		}
		return err
	}
	// The file appears under its name when it is whole.
	f, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".part*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	n, err := s.exportTo(ctx, path, f)
	if err != nil && !Told(err) {
		return errors.Join(err, f.Close())
	}
	if syncErr := errors.Join(f.Chmod(exportPerm), f.Sync(), f.Close()); syncErr != nil {
		return syncErr
	}
	if renameErr := os.Rename(f.Name(), to); renameErr != nil {
		return renameErr
	}
	fmt.Fprintf(s.errs, "exported %s to %s\n", count(n, "node"), to)
	return err
}

// exportPerm is the mode of the file: others have no business in what ACLs may
// have kept from them.
const exportPerm = 0o600

// exportTo writes an export, and returns how many znodes it has. Those that cannot
// be read are reported and make an error at the end, when the rest has been
// written.
func (s *shell) exportTo(ctx context.Context, path string, to io.Writer) (n int, err error) {
	t, err := s.locate(ctx, path)
	if err != nil {
		return 0, err
	}
	defer t.close()
	p := s.progress("nodes exported")
	defer p.stop()
	sc := t.scanner(ctx, scanOptions{data: true, acl: true, depth: -1, visited: p.add}, false)
	out := bufio.NewWriterSize(to, 256<<10)
	bad := complaints{s: s}
	err = sc.each(func(z *znode) error {
		if z.depth == 0 {
			if err := writeLine(out, t.header()); err != nil {
				return err
			}
		}
		if z.err != nil {
			bad.add(z.err)
			return nil
		}
		n++
		return writeLine(out, exportOf(z))
	})
	if err != nil {
		return n, cmp.Or(err, out.Flush()) // what has been read is kept
	}
	if err := errors.Join(writeLine(out, exportTrailer{Nodes: &n, Failed: bad.n}), out.Flush()); err != nil {
		return n, err
	}
	return n, bad.end()
}

func (t subtree) header() exportHeader {
	return exportHeader{Format: exportFormat, Root: t.root, Time: isoTime(time.Now().UnixMilli()), Zxid: t.c.LastZxid().String()}
}

func writeLine(to io.Writer, value any) error {
	line, err := encodeJSON(value)
	if err != nil {
		return err
	}
	_, err = to.Write(line)
	return err
}
