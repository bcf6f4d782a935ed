package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/backup"
	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/internal/history"
)

// subtreeFlags are those of a restore of one subtree into a live ensemble.
type subtreeFlags struct {
	path, to                 string
	overwrite, dryRun, noACL bool
	connect                  cli.Options
}

func (f *subtreeFlags) register(c *cobra.Command) {
	p := c.Flags()
	p.StringVar(&f.path, "subtree", "", "restore this znode and what is below it into a live ensemble, that of --server")
	p.StringVar(&f.to, "to-path", "", "restore it there (default where it was)")
	p.BoolVar(&f.overwrite, "overwrite", false, "of --subtree: give znodes that differ the data and ACL of the backup")
	p.BoolVar(&f.dryRun, "dry-run", false, "of --subtree: only print what would be done")
	p.BoolVar(&f.noACL, "no-acl", false, "of --subtree: create znodes with world:anyone:cdrwa")
	f.connect.RegisterOnly(p, "server", "timeout", "auth", "auth-file", "tls", "tls-ca", "tls-cert", "tls-key", "login")
}

// restoreSubtree restores a subtree. It prints the znodes that differ before it changes
// anything; the import after that may be repeated.
func restoreSubtree(ctx context.Context, c *cobra.Command, r *backup.Restore, f *subtreeFlags) (err error) {
	state, err := r.State(ctx)
	if err != nil {
		return err
	}
	if err := printRestored(c, &r.Result); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pinfold-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := filepath.Join(dir, "subtree.json")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w, err := cli.NewExportWriter(file, f.path, r.Result.Zxid)
	if err == nil {
		err = history.Each(state, f.path, func(z *history.Znode) error {
			return w.Add(z.Path, z.Data, z.ACL, z.Stat, z.Mode, z.TTL)
		})
	}
	n := 0
	if err == nil {
		n, err = w.End()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s has %d znodes there; versions, zxids and times will be new, and ephemerals are left out\n", f.path, n)
	if err == nil {
		err = f.run(ctx, c, name)
	}
	return err
}

// run imports a file: first dry, so that all conflicts are printed before the first change.
func (f *subtreeFlags) run(ctx context.Context, c *cobra.Command, name string) error {
	words := []string{"import", "--parents"}
	if f.overwrite {
		words = append(words, "--overwrite")
	}
	if f.noACL {
		words = append(words, "--no-acl")
	}
	places := []string{name}
	if f.to != "" {
		places = append(places, f.to)
	}
	o := f.connect
	o.In, o.Out, o.Err = os.Stdin, c.OutOrStdout(), c.ErrOrStderr()
	if !f.dryRun {
		o.Out = io.Discard // conflicts are errors
	}
	o.Args = append(append(append([]string(nil), words...), "--dry-run"), places...)
	if err := cli.Run(ctx, o); err != nil || f.dryRun {
		if err != nil {
			fmt.Fprintln(c.ErrOrStderr(), "(nothing is changed; --overwrite gives znodes that differ the data and ACL of the backup, --to-path restores elsewhere)")
		}
		return err
	}
	o.Out = c.OutOrStdout()
	o.Args = append(words, places...)
	return cli.Run(ctx, o)
}
