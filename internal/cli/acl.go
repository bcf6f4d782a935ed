package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// aclCommands are the commands about permissions and identities.
func aclCommands() []command {
	return []command{getACLCommand(), setACLCommand(), addAuthCommand(), whoAmICommand()}
}

// parseACL reads "scheme:id:perms,scheme:id:perms". An id may hold colons and
// commas (digest:user:hash, the subjects of certificates). Its errors are usage
// errors.
func parseACL(text string) ([]zk.ACL, error) {
	var acl []zk.ACL
	part := ""
	for piece := range strings.SplitSeq(text, ",") {
		part += piece
		if strings.Count(part, ":") < 2 {
			part += "," // of an id
			continue
		}
		entry, err := parseEntry(part)
		if err == nil && entry.Perms == 0 {
			err = badACL(part, "has no permissions")
		}
		if err != nil {
			return nil, err
		}
		acl, part = append(acl, entry), ""
	}
	if part != "" {
		return nil, badACL(strings.TrimSuffix(part, ","), "does not have the form scheme:id:perm")
	}
	return acl, nil
}

// parseEntry reads one entry, which may have no permissions: such are in exports.
// REQUIRES: text has two colons.
func parseEntry(text string) (zk.ACL, error) {
	scheme, rest, _ := strings.Cut(text, ":")
	last := strings.LastIndexByte(rest, ':')
	entry := zk.ACL{ID: zk.ID{Scheme: scheme, ID: rest[:last]}}
	if scheme == "" || strings.Contains(scheme, ",") {
		return zk.ACL{}, badACL(text, "does not have the form scheme:id:perm")
	}
	for _, letter := range rest[last+1:] {
		i := strings.IndexRune("rwcda", letter)
		if i < 0 {
			return zk.ACL{}, badACL(text, fmt.Sprintf("has the unknown permission %q", letter))
		}
		entry.Perms |= 1 << i
	}
	return entry, nil
}

func badACL(text, what string) error {
	return usageError{text + " " + what + "\n(permissions are letters of cdrwa: create, delete, read, write, admin; as in world:anyone:r)"}
}

// aclPlain is an ACL as zkCli.sh prints it.
func aclPlain(acl []zk.ACL) string {
	var lines []string
	for _, a := range acl {
		lines = append(lines, fmt.Sprintf("'%s,'%s\n: %v", a.ID.Scheme, a.ID.ID, a.Perms))
	}
	return strings.Join(lines, "\n")
}

// jsonACL is an entry of an ACL in JSON.
type jsonACL struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

func aclJSON(acl []zk.ACL) []jsonACL {
	list := make([]jsonACL, len(acl))
	for i, a := range acl {
		list[i] = jsonACL{a.ID.Scheme, a.ID.ID, a.Perms.String()}
	}
	return list
}

func getACLCommand() command {
	return command{
		name: "getAcl", synopsis: "[-s] path", short: "Print the permissions (ACL) of a node",
		long: "Prints the ACL of a node: for each identity its permissions, letters of cdrwa\n(create and delete children, read, write, admin).",
		examples: `getAcl /app
getAcl -s /app`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			stat := f.BoolP("stat", "s", false, "print the node's Stat too")
			return func(ctx context.Context, s *shell, args []string) error {
				return s.getACL(ctx, args[0], *stat)
			}
		},
	}
}

func (s *shell) getACL(ctx context.Context, path string, withStat bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	acl, stat, err := c.GetACL(ctx, path)
	if err != nil {
		return err
	}
	if s.format == table {
		return s.aclTable(acl, stat, withStat)
	}
	one := row{plain: aclPlain(acl)}
	value := struct {
		Path string    `json:"path"`
		ACL  []jsonACL `json:"acl"`
		Stat *jsonStat `json:"stat,omitempty"`
	}{path, aclJSON(acl), nil}
	if withStat {
		one.plain += "\n" + statPlain(stat)
		value.Stat = statJSON(stat)
	}
	one.value = value
	return s.print(nil, one)
}

func (s *shell) aclTable(acl []zk.ACL, stat zk.Stat, withStat bool) error {
	r := s.rows("scheme", "id", "permissions")
	for _, a := range acl {
		if err := r.add(row{cells: []string{a.ID.Scheme, a.ID.ID, a.Perms.String()}}); err != nil {
			return err
		}
	}
	r.end()
	if withStat {
		return s.printStat("", stat)
	}
	return nil
}

func setACLCommand() command {
	return command{
		name: "setAcl", synopsis: "[-s] [-v version] [-R] path acl", short: "Set the permissions (ACL) of a node",
		long: `Replaces the ACL of a node: entries scheme:id:perms, separated by commas. With -v
only if the ACL still has this version, which getAcl -s prints as aclVersion.
With -R also those of all nodes below, except of the servers' own in /zookeeper.
The interactive shell asks first if the session could not change the ACL again.`,
		examples: `setAcl /app world:anyone:r,ip:10.0.0.0/8:cdrwa
setAcl /app auth::cdrwa                        # to those that addauth has made you
setAcl -R /app world:anyone:r,sasl:admin:cdrwa`,
		min: 2, max: 2, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			stat := f.BoolP("stat", "s", false, "print the new Stat")
			version := f.Int32P("version", "v", -1, "only if the ACL has this version")
			recursive := f.BoolP("recursive", "R", false, "all nodes below, too")
			return func(ctx context.Context, s *shell, args []string) error {
				acl, err := parseACL(args[1])
				if err != nil {
					return err
				}
				c, err := s.client(ctx)
				if err != nil {
					return err
				}
				if err := s.confirmACL(ctx, c, args[0], acl); err != nil {
					return err
				}
				if *recursive {
					return s.setACLBelow(ctx, c, args[0], acl, *version, *stat)
				}
				st, err := c.SetACL(ctx, args[0], acl, *version)
				if err != nil || !*stat {
					return err
				}
				return s.printStat(args[0], st)
			}
		},
	}
}

// setACLBelow sets an ACL on root and all below, each after all below it, so that an
// ACL that removes the caller's read permission does not stop it half-way. It continues
// after nodes that refuse it; the error lists them.
func (s *shell) setACLBelow(ctx context.Context, c *client.Client, root string, acl []zk.ACL, version int32, withStat bool) error {
	if err := client.CheckPath(root); err != nil {
		return &client.Error{Op: "setACL", Path: root, Err: zk.ErrBadArguments, Reason: err}
	}
	p := s.progress("ACLs set")
	defer p.stop()
	failed := failures{what: "Failed to set the ACL of some node(s) in the subtree!"}
	answers := newOrdered[zk.Stat](ctx, 500)
	sc := subtree{c: c, root: root}.scanner(ctx, scanOptions{depth: -1}, false)
	err := sc.eachUp(func(z *znode) error {
		p.add(1)
		return answers.begin(func(done func(zk.Stat, error)) {
			c.SetACLAsync(ctx, z.path, acl, version, done)
		}, func(st zk.Stat, err error) error {
			switch {
			case errors.Is(err, zk.ErrNoNode) && z.depth > 0:
				return nil // deleted meanwhile
			case err != nil && (isFatal(err) || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrInvalidACL)):
				return err // of the others it would be the same
			case err != nil || z.err != nil:
				failed.add(cmp.Or(err, z.err))
			}
			if err != nil || !withStat {
				return nil
			}
			return s.printStat(z.path, st)
		})
	})
	return errors.Join(err, answers.finish(), failed.err())
}

func addAuthCommand() command {
	return command{
		name: "addauth", synopsis: "scheme auth", short: "Authenticate the session",
		long: `Authenticates the session by a scheme, in addition to what it is already. A
server that refuses ends the session.`,
		examples: "addauth digest me:secret",
		min:      1, max: 2,
		run: func(ctx context.Context, s *shell, args []string) error {
			if args[0] == "digest" && len(args) == 1 {
				return usageError{"addauth digest needs user:password"}
			}
			c, err := s.client(ctx)
			if err != nil {
				return err
			}
			secret := ""
			if len(args) == 2 {
				secret = args[1]
			}
			if err := c.AddAuth(ctx, args[0], []byte(secret)); err != nil {
				return err
			}
			s.auths = append(s.auths, credential{args[0], secret})
			return nil
		},
	}
}

func whoAmICommand() command {
	return command{
		name: "whoami", short: "Print the identities of the session",
		long:     "Prints the identities of the session by their schemes: its address, and what\naddauth and the connection have added.",
		examples: "whoami",
		run: func(ctx context.Context, s *shell, _ []string) error {
			c, err := s.client(ctx)
			if err != nil {
				return err
			}
			ids, err := c.WhoAmI(ctx)
			if err != nil {
				return err
			}
			r := s.rows("scheme", "user")
			defer r.end()
			if s.format == plain {
				err = r.add(row{plain: "Auth scheme: User"})
			}
			for _, id := range ids {
				err = errors.Join(err, r.add(row{plain: id.Scheme + ": " + id.ID, cells: []string{id.Scheme, id.ID}}))
			}
			return err
		},
	}
}
