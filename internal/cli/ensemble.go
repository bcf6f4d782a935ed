package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ensembleCommands are those about the servers.
func ensembleCommands() []command {
	return []command{configCommand(), reconfigCommand(), versionCommand()}
}

func configCommand() command {
	return command{
		name: "config", synopsis: "[-c] [-w] [-s]", short: "Print the members of the ensemble",
		long: "Prints the members of the ensemble, a line each, and the version of the list. A\nserver alone has nothing to print.",
		examples: `config
config -c     # as a connect string
config -w     # tell once when it changes`,
		setup: func(f *pflag.FlagSet) runFunc {
			short := f.BoolP("client", "c", false, "print the addresses for clients, and the version")
			watch := f.BoolP("watch", "w", false, "leave a watch for the next change")
			stat := f.BoolP("stat", "s", false, "print the Stat too")
			return func(ctx context.Context, s *shell, _ []string) error {
				c, err := s.client(ctx)
				if err != nil {
					return err
				}
				var text []byte
				var st zk.Stat
				var w *client.Watch
				if *watch {
					text, st, w, err = c.ConfigW(ctx)
				} else {
					text, st, err = c.Config(ctx)
				}
				if err != nil {
					return err
				}
				defer s.follow(watchData, w)
				out := string(text)
				if *short {
					out = clientAddresses(out)
				}
				return s.printConfig(out, st, *stat)
			}
		},
	}
}

func (s *shell) printConfig(text string, st zk.Stat, withStat bool) error {
	one := row{plain: text, cells: []string{text}}
	value := struct {
		Config string    `json:"config"`
		Stat   *jsonStat `json:"stat,omitempty"`
	}{text, nil}
	if withStat {
		one.plain += "\n" + statPlain(st)
		value.Stat = statJSON(st)
	}
	one.value = value
	if s.format != table {
		return s.print(nil, one)
	}
	r := s.rows("member")
	for line := range strings.Lines(text) {
		if err := r.add(row{plain: strings.TrimRight(line, "\n")}); err != nil {
			return err
		}
	}
	r.end()
	if withStat {
		return s.printStat("", st)
	}
	return nil
}

// clientAddresses returns the output of config -c: the addresses after the ";" of
// the members' lines, separated by commas, a space, the version.
func clientAddresses(config string) string {
	var hosts []string
	version := ""
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "version" {
			version = value
		}
		if !strings.HasPrefix(key, "server.") {
			continue
		}
		_, addr, ok := strings.Cut(value, ";")
		if !ok {
			continue
		}
		if !strings.Contains(addr, ":") { // a port alone: the host is the member's
			host, _, _ := strings.Cut(value, ":")
			addr = host + ":" + addr
		}
		hosts = append(hosts, addr)
	}
	return strings.Join(hosts, ",") + " " + version
}

func reconfigCommand() command {
	const member = "serverID=host:port1:port2;port3[,...]"
	return command{
		name:     "reconfig",
		synopsis: "[-s] [-v version] [[-file path] | [-members " + member + "*]] | [-add " + member + "]* [-remove serverId[,...]*]",
		short:    "Change the members of the ensemble",
		long: `Changes the members of a running ensemble: those of -add join or change, those of
-remove leave; or all are replaced by those of -members or -file. The servers
must have reconfigEnabled=true, and the session the right to write
/zookeeper/config.`,
		examples: `reconfig -add server.4=zk4:2888:3888;2181
reconfig -remove 2,3
reconfig -v 100000003 -remove 2                  # only if the configuration has this version
reconfig -file /etc/zookeeper/conf/members.txt`,
		complete: []argKind{argFile},
		setup: func(f *pflag.FlagSet) runFunc {
			var r reconfigOptions
			f.BoolVarP(&r.stat, "stat", "s", false, "print the Stat too")
			f.StringVarP(&r.version, "version", "v", "", "only if the configuration has this version, in hexadecimal")
			f.StringVar(&r.file, "file", "", "a file with the lines of all members")
			f.StringVar(&r.members, "members", "", "all members, separated by commas")
			f.StringArrayVar(&r.add, "add", nil, "members that join or change, separated by commas")
			f.StringArrayVar(&r.remove, "remove", nil, "numbers of members that leave, separated by commas")
			return func(ctx context.Context, s *shell, _ []string) error {
				change, err := r.change()
				if err != nil {
					return err
				}
				c, err := s.client(ctx)
				if err != nil {
					return err
				}
				text, st, err := c.Reconfig(ctx, change)
				if err != nil {
					return err
				}
				if s.format == plain {
					return s.printConfig("Committed new configuration:\n"+string(text), st, r.stat)
				}
				return s.printConfig(string(text), st, r.stat)
			}
		},
	}
}

// reconfigOptions are the options of reconfig.
type reconfigOptions struct {
	stat                   bool
	version, file, members string
	add, remove            []string
}

// change is what the server is asked for; its errors are usage errors.
func (r reconfigOptions) change() (client.Reconfig, error) {
	change := client.Reconfig{From: -1, Members: r.members}
	step := len(r.add) > 0 || len(r.remove) > 0
	switch whole := r.file != "" || r.members != ""; {
	case whole && step:
		return change, usageError{"Can't use -file or -members together with -add or -remove (mixing incremental and non-incremental modes is not allowed)"}
	case r.file != "" && r.members != "":
		return change, usageError{"Can't use -file together with -members"}
	case !whole && !step:
		return change, usageError{"reconfig needs -add, -remove, -members or -file"}
	}
	if r.version != "" {
		v, err := strconv.ParseInt(strings.TrimPrefix(r.version, "0x"), 16, 64)
		if err != nil {
			return change, usageError{"-v is a version in hexadecimal, as config prints it: " + r.version}
		}
		change.From = v
	}
	if r.file != "" {
		text, err := os.ReadFile(r.file)
		if err != nil {
			return change, usageError{err.Error()}
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "server.") {
				lines = append(lines, line)
			}
		}
		change.Members = strings.Join(lines, ",")
	}
	change.Joining, change.Leaving = strings.Join(r.add, ","), strings.Join(r.remove, ",")
	return change, nil
}

func versionCommand() command {
	return command{
		name: "version", short: "Print the version of this program",
		long:     "Prints the version of this program, not that of the servers.",
		examples: "version",
		run: func(_ context.Context, s *shell, _ []string) error {
			return s.print([]string{"version"}, row{
				plain: fmt.Sprintf("ZooKeeper CLI version: %s", s.opts.Version), cells: []string{s.opts.Version},
			})
		},
	}
}
