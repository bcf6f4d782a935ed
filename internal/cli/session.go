package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// sessionCommands are those about the connection and the session.
func sessionCommands() []command {
	return []command{connectCommand(), closeCommand(), syncCommand(), ephemeralsCommand()}
}

func connectCommand() command {
	return command{
		name: "connect", synopsis: "host:port", short: "Begin a new session, with these servers",
		long: `Ends the session, if there is one, and begins a new one with the servers that are
named, or with the same. Only the new session's watches and ephemeral nodes
live on.`,
		examples: `connect zk2:2181
connect zk1:2181,zk2:2181,zk3:2181/app
connect                     # the same servers`,
		max: 1,
		run: func(ctx context.Context, s *shell, args []string) error {
			if len(args) == 1 {
				s.servers = args[0]
			}
			s.disconnect()
			s.closed = false
			if s.format == plain {
				fmt.Fprintln(s.out, "Connecting to "+s.servers)
			}
			_, err := s.client(ctx)
			return err
		},
	}
}

func closeCommand() command {
	return command{
		name: "close", short: "End the session, not the shell",
		long:     "Ends the session, which deletes its ephemeral nodes. connect begins another.",
		examples: "close",
		run: func(_ context.Context, s *shell, _ []string) error {
			s.disconnect()
			s.closed = true
			return nil
		},
	}
}

func syncCommand() command {
	return command{
		name: "sync", synopsis: "path", short: "Wait until the server is up to date",
		long: `Waits until the server has applied all writes that were committed before, by any
client: later reads see them.`,
		examples: "sync /",
		min:      1, max: 1, complete: []argKind{argPath},
		run: func(ctx context.Context, s *shell, args []string) error {
			c, err := s.client(ctx)
			if err != nil {
				return err
			}
			if err := c.Sync(ctx, args[0]); err != nil {
				return err
			}
			return s.print([]string{"sync"}, row{plain: "Sync is OK", cells: []string{"ok"}})
		},
	}
}

func ephemeralsCommand() command {
	return command{
		name: "getEphemerals", synopsis: "path", short: "List the ephemeral nodes of this session",
		long: `Lists the ephemeral nodes that this session has made, those whose paths begin with
a text, or all. The server knows them; one before 3.6 does not tell, and all nodes
are read.`,
		examples: `getEphemerals
getEphemerals /app/members`,
		max: 1, complete: []argKind{argPath},
		run: func(ctx context.Context, s *shell, args []string) error {
			prefix := "/"
			if len(args) == 1 {
				prefix = args[0]
			}
			c, err := s.client(ctx)
			if err != nil {
				return err
			}
			paths, err := c.Ephemerals(ctx, prefix)
			if errors.Is(err, zk.ErrUnimplemented) {
				paths, err = s.scanEphemerals(ctx, int64(c.SessionID()), prefix)
			}
			if err != nil && !Told(err) {
				return err
			}
			slices.Sort(paths)
			return cmp.Or(s.printPaths(paths), err)
		},
	}
}

// scanEphemerals finds the ephemerals of a session among all nodes. Nodes that could not
// be read have been reported.
func (s *shell) scanEphemerals(ctx context.Context, session int64, prefix string) (paths []string, err error) {
	err = s.scan(ctx, "/", scanOptions{depth: -1}, func(z *znode) error {
		if z.stat.EphemeralOwner == session && strings.HasPrefix(z.path, prefix) {
			paths = append(paths, z.path)
		}
		return nil
	})
	return paths, err
}

func (s *shell) printPaths(paths []string) error {
	if s.format != table {
		if paths == nil {
			paths = []string{}
		}
		return s.print(nil, row{plain: "[" + strings.Join(paths, ", ") + "]", value: paths})
	}
	r := s.rows("path")
	defer r.end()
	for _, p := range paths {
		if err := r.add(row{cells: []string{p}}); err != nil {
			return err
		}
	}
	return nil
}
