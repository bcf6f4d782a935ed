package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// deleteCommands are those that delete znodes.
func deleteCommands() []command { return []command{deleteCommand(), deleteAllCommand()} }

func deleteCommand() command {
	return command{
		name: "delete", synopsis: "[-v version] path", short: "Delete a node that has no children",
		long: `Deletes a node that has no children. With -v only if its data still has this
version, which get -s prints as dataVersion.`,
		examples: `delete /app/old
delete -v 3 /app/old`,
		min: 1, max: 2, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			version := f.Int32P("version", "v", -1, "only if the data has this version")
			return func(ctx context.Context, s *shell, args []string) error {
				if len(args) == 2 { // as before 3.5
					n, err := strconv.ParseInt(args[1], 10, 32)
					if err != nil {
						return usageError{fmt.Sprintf("%q is no version", args[1])}
					}
					fmt.Fprintln(s.errs, "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
					*version = int32(n)
				}
				c, err := s.client(ctx)
				if err != nil {
					return err
				}
				return c.Delete(ctx, args[0], *version)
			}
		},
	}
}

func deleteAllCommand() command {
	return command{
		name: "deleteall", synopsis: "path [-b batch size]", short: "Delete a node and all below it",
		long: `Deletes a node and all below it, each after its children. What cannot be deleted
is reported at the end with the permission that is missing and the node that lacks it;
the rest is deleted. deleteall / does not touch /zookeeper, which belongs to the servers.`,
		examples: `deleteall /app/old
deleteall -b 100 /app/old   # no more than 100 requests at a time, to spare the servers`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			batch := f.IntP("batch", "b", 1000, "requests under way at a time")
			return func(ctx context.Context, s *shell, args []string) error {
				if *batch <= 0 {
					return usageError{"-b must be above 0"}
				}
				return s.deleteAll(ctx, args[0], *batch)
			}
		},
	}
}

// deleteAll deletes root and all below. Requests of a session are executed in
// their order: the deletion of a znode need not wait for the answers to those of
// its children.
func (s *shell) deleteAll(ctx context.Context, root string, batch int) error {
	if err := client.CheckPath(root); err != nil {
		return &client.Error{Op: "deleteall", Path: root, Err: zk.ErrBadArguments, Reason: err}
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	p := s.progress("nodes deleted")
	defer p.stop()
	d := deletion{
		ctx: ctx, c: c, places: make(chan struct{}, batch),
		failed: failures{what: "Failed to delete some node(s) in the subtree!"},
	}
	sc := newScanner(ctx, c, root, scanOptions{depth: -1, leaveOut: func(path string) bool {
		return path == serversOwn && c.Chroot() == ""
	}})
	scanned := sc.eachUp(func(z *znode) error {
		if z.path == "/" {
			return nil
		}
		p.add(1)
		return d.begin(z.path, z.err)
	})
	return errors.Join(scanned, d.finish())
}

// A deletion is what deleteall has under way.
type deletion struct {
	ctx    context.Context
	c      *client.Client
	places chan struct{} // one is taken by each request

	mu     sync.Mutex
	failed failures
}

// begin sends the deletion of a znode, and waits for a place before that. unread is
// why its children could not be listed; nil if they were.
func (d *deletion) begin(path string, unread error) error {
	select {
	case d.places <- struct{}{}:
	case <-d.ctx.Done():
		return d.ctx.Err()
	}
	d.c.DeleteAsync(d.ctx, path, -1, func(err error) {
		<-d.places
		if err == nil || errors.Is(err, zk.ErrNoNode) { // another client was faster
			return
		}
		if unread != nil && errors.Is(err, zk.ErrNotEmpty) {
			err = unread // the children are there because they could not be listed
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.failed.add(err)
	})
	return nil
}

// finish waits for all answers. Its error says what could not be deleted, or is
// the context's.
func (d *deletion) finish() error {
	for range cap(d.places) { // all are free again when all have been answered
		select {
		case d.places <- struct{}{}:
		case <-d.ctx.Done():
			return d.ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed.err()
}

// failures are those of many operations. The zero value, with what, is none.
type failures struct {
	what  string  // a line that says what has failed
	first []error // the first few
	more  int     // how many beside
}

// toldFailures is the number of failures that are printed one by one.
const toldFailures = 5

func (f *failures) add(err error) {
	if len(f.first) < toldFailures {
		f.first = append(f.first, err)
	} else {
		f.more++
	}
}

// err is nil if there were none.
func (f *failures) err() error {
	if len(f.first) == 0 {
		return nil
	}
	return subtreeError{*f}
}

// subtreeError says that some of many operations failed.
type subtreeError struct{ failures }

func (e subtreeError) Error() string {
	var b strings.Builder
	b.WriteString(e.what)
	for _, err := range e.first {
		first, _, _ := strings.Cut(explain(err), "\n")
		b.WriteString("\n  " + first)
		if right := rightOf(err); right != "" {
			b.WriteString(" (needs " + right + ")")
		}
	}
	if e.more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", e.more)
	}
	return b.String()
}
