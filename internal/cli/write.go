package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// writeCommands are those that make and change znodes.
func writeCommands() []command { return []command{createCommand(), setCommand()} }

// createOptions are the options of create.
type createOptions struct {
	sequential, ephemeral, container bool
	ttl                              int64 // milliseconds, 0 for none
}

// maxTTL is the longest time to live, in milliseconds: 40 bits.
const maxTTL = 1<<40 - 1

// mode is the create mode; its errors are usage errors.
func (o createOptions) mode(timed bool) (zk.CreateMode, error) {
	switch {
	case o.container && (o.sequential || o.ephemeral):
		return 0, usageError{"-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential."}
	case o.container && timed:
		return 0, usageError{"TTLs cannot be used with Container znodes"}
	case timed && o.ephemeral:
		return 0, usageError{"TTLs cannot be used with Ephemeral znodes"}
	case timed && (o.ttl <= 0 || o.ttl > maxTTL):
		return 0, usageError{fmt.Sprintf("ttl must be positive and cannot be larger than: %d", int64(maxTTL))}
	case o.container:
		return zk.Container, nil
	case timed && o.sequential:
		return zk.PersistentSequentialWithTTL, nil
	case timed:
		return zk.PersistentWithTTL, nil
	case o.ephemeral && o.sequential:
		return zk.EphemeralSequential, nil
	case o.ephemeral:
		return zk.Ephemeral, nil
	case o.sequential:
		return zk.PersistentSequential, nil
	}
	return zk.Persistent, nil
}

func createCommand() command {
	return command{
		name: "create", synopsis: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", short: "Make a node",
		long: `Makes a node, whose parent must be there, and prints its path on the error stream
as zkCli.sh does (with --output json or table, on the output). Without data its
data is null; without an ACL any client has all permissions (world:anyone:cdrwa).
An ephemeral node ends with the session, which is that of the shell: one that is
made by a one-shot command is gone at once.`,
		examples: `create /app
create /app/config '{"size": 3}'
create -s /app/job-                       # /app/job-0000000000, …1, …2
create -e /app/members/me
create -c /app/locks                      # goes when its last child has gone
create -t 60000 /app/cache/x              # goes after a minute without a change
create /app/secret x digest:me:hash:cdrwa # or, after addauth, auth::cdrwa`,
		min: 1, max: 3, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			var o createOptions
			f.BoolVarP(&o.sequential, "sequential", "s", false, "the server adds a number of ten digits to the name")
			f.BoolVarP(&o.ephemeral, "ephemeral", "e", false, "the node ends with the session")
			f.BoolVarP(&o.container, "container", "c", false, "the server deletes the node when its last child has gone")
			f.Int64VarP(&o.ttl, "ttl", "t", 0, "the server deletes the node after so many milliseconds without children or change")
			return func(ctx context.Context, s *shell, args []string) error {
				mode, err := o.mode(f.Changed("ttl"))
				if err != nil {
					return err
				}
				return s.create(ctx, args, mode, time.Duration(o.ttl)*time.Millisecond)
			}
		},
	}
}

func (s *shell) create(ctx context.Context, args []string, mode zk.CreateMode, ttl time.Duration) (err error) {
	var data []byte
	var acl []zk.ACL
	if len(args) > 1 {
		data = []byte(args[1])
	}
	if len(args) > 2 {
		if acl, err = parseACL(args[2]); err != nil {
			return err
		}
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	path, err := create(ctx, c, args[0], data, mode, acl, ttl)
	if err != nil {
		return err
	}
	if s.format == plain {
		fmt.Fprintln(s.errs, "Created "+path)
		return nil
	}
	return s.print([]string{"path"}, row{cells: []string{path}})
}

// create uses the oldest request that can do it, so that it works with old
// servers.
func create(ctx context.Context, c *client.Client, path string, data []byte, mode zk.CreateMode, acl []zk.ACL, ttl time.Duration) (string, error) {
	if mode.IsTTL() {
		made, _, err := c.CreateTTL(ctx, path, data, mode, acl, ttl)
		return made, err
	}
	return c.Create(ctx, path, data, mode, acl)
}

func setCommand() command {
	return command{
		name: "set", synopsis: "[-s] [-v version] [-b] path data", short: "Change the data of a node",
		long: `Replaces the data of a node. With -v only if its data still has this version,
which get -s prints as dataVersion.`,
		examples: `set /app/config '{"size": 4}'
set -v 3 /app/config '{"size": 4}'   # only if its version is still 3
set -b /app/key aGVsbG8=             # the data is given in base64`,
		min: 2, max: 2, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			stat := f.BoolP("stat", "s", false, "print the new Stat")
			version := f.Int32P("version", "v", -1, "only if the data has this version")
			encoded := f.BoolP("base64", "b", false, "the data is given in base64")
			return func(ctx context.Context, s *shell, args []string) error {
				data := []byte(args[1])
				if *encoded {
					var err error
					if data, err = base64.StdEncoding.DecodeString(args[1]); err != nil {
						return usageError{"the data is not in base64: " + err.Error()}
					}
				}
				return s.set(ctx, args[0], data, *version, *stat)
			}
		},
	}
}

func (s *shell) set(ctx context.Context, path string, data []byte, version int32, withStat bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	stat, err := c.Set(ctx, path, data, version)
	if err != nil || !withStat {
		return err
	}
	return s.printStat(path, stat)
}
