package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func editCommand() command {
	return command{
		name: "edit", synopsis: "[--create] [--binary] path", short: "Change the data of a node in an editor",
		long: `Opens the data of a node in $VISUAL, $EDITOR or vi, and sets it when the editor ends
and the data has changed. If another client has set it meanwhile, it is not set, and
the file with the edit is kept. A line break at the end, which editors add, is removed
if the data had none.`,
		examples: `edit /app/config
edit --create /app/new
EDITOR='code --wait' pinfold cli edit /app/config   # (in a script)`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			create := f.Bool("create", false, "make the node if it is not there")
			force := f.Bool("binary", false, "edit even what is no text")
			return func(ctx context.Context, s *shell, args []string) error {
				return s.edit(ctx, args[0], *create, *force)
			}
		},
	}
}

func (s *shell) edit(ctx context.Context, node string, create, force bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	before, stat, err := c.Get(ctx, node)
	isNew := create && errors.Is(err, zk.ErrNoNode)
	switch {
	case err != nil && !isNew:
		return err
	case binary(before) && !force:
		return fmt.Errorf("%s: the data is no text; --binary edits it all the same", node)
	}
	file, err := tempFile(node, before)
	if err != nil {
		return err
	}
	after, err := s.runEditor(ctx, file)
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	if !bytes.HasSuffix(before, []byte("\n")) {
		after = bytes.TrimSuffix(after, []byte("\n"))
	}
	if !isNew && bytes.Equal(before, after) {
		fmt.Fprintln(s.errs, "not changed")
		return os.Remove(file)
	}
	if isNew {
		err = s.createEdited(ctx, node, after)
	} else {
		err = s.setEdited(ctx, node, after, stat.Version)
	}
	if err != nil {
		fmt.Fprintf(s.errs, "not set; your edit is in %s\n", file)
		return err
	}
	return os.Remove(file)
}

// tempFile creates a file with data and a name from which an editor can see the type.
func tempFile(node string, data []byte) (name string, err error) {
	pattern := "pinfold-*-" + strings.ReplaceAll(path.Base(node), "*", "_")
	file, err := os.CreateTemp("", strings.ReplaceAll(pattern, string(os.PathSeparator), "_"))
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// runEditor edits a file and returns what it has then.
func (s *shell) runEditor(ctx context.Context, file string) ([]byte, error) {
	words := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"))
	if len(words) == 0 {
		return nil, usageError{"edit: $VISUAL or $EDITOR is blank"}
	}
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], file)...)
	s.connectCommand(cmd)
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("nothing is changed: the editor %s: %w", words[0], err)
	}
	return os.ReadFile(file)
}

// setEdited sets data that was edited. Editing takes long: the session may be
// another than before.
func (s *shell) setEdited(ctx context.Context, node string, data []byte, version int32) error {
	lost := false
	for {
		c, err := s.client(ctx)
		if err != nil {
			return err
		}
		stat, err := c.Set(ctx, node, data, version)
		switch {
		case err == nil:
			fmt.Fprintf(s.errs, "set, version %d\n", stat.Version)
			return nil
		case lost && errors.Is(err, zk.ErrBadVersion):
			// It may be this edit that has set it, before the connection broke.
			now, stat, getErr := c.Get(ctx, node)
			if getErr == nil && stat.Version == version+1 && bytes.Equal(now, data) {
				fmt.Fprintf(s.errs, "set, version %d\n", stat.Version)
				return nil
			}
			return err
		case !errors.Is(err, zk.ErrConnectionLoss) && !errors.Is(err, zk.ErrSessionExpired) || lost || ctx.Err() != nil:
			return err
		}
		lost = true
	}
}

func (s *shell) createEdited(ctx context.Context, node string, data []byte) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Create(ctx, node, data, zk.Persistent, nil); err != nil {
		return err
	}
	fmt.Fprintln(s.errs, "created")
	return nil
}
