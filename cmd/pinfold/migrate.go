package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/keeper"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/internal/migrate"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// migrateFlags are those of all commands of `pinfold migrate`. internal/migrate does the work.
type migrateFlags struct {
	operatorFlags
	clients []string
	members []int64
	verify  bool
	report  string
	stop    string
	start   string
	o       migrate.Options
}

func migrateCommand() *cobra.Command {
	f := &migrateFlags{}
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Change the program of a live ensemble's members, to Pinfold or back",
		Long: `Migrate takes the members of an ensemble that serves one at a time, observers first and
the leader last. Of each it stops the server by a command of yours, starts the other program
over the same data directory by another, and goes on when that has caught up. It first shows
its plan; it stops no member unless all are in sync and the others are a quorum. It may be
interrupted, and run again: the state file says how far it came.

Commands are run by sh, on this machine, with {id}, {host} and {client} replaced. Members are
asked by the four-letter word srvr.`,
		Example: `  pinfold migrate plan zoo.cfg
  pinfold migrate run --stop 'ssh {host} sudo systemctl stop zookeeper' \
                      --start 'ssh {host} sudo systemctl start pinfold' zoo.cfg
  pinfold migrate status zoo.cfg
  pinfold migrate verify --report report.json zoo.cfg`,
	}
	f.register(c.PersistentFlags())
	c.AddCommand(migrateTake(f, "plan", "Show what run would do"), migrateTake(f, "run", "Have the members run Pinfold, one after the other"),
		migrateTake(f, "back", "Have the members run Apache ZooKeeper again"), migrateHosts(), migrateMerge(), migrateKeeper(), migrateStatus(f), migrateVerify(f))
	return c
}

func (f *migrateFlags) register(p *pflag.FlagSet) {
	f.operatorFlags.register(p)
	p.StringArrayVar(&f.clients, "client", nil, "ID=HOST:PORT: where a member takes clients, if zoo.cfg does not say; may be repeated")
	p.StringVar(&f.o.State, "state", "pinfold-migrate.json", "the state file")
}

// migrateTake is a command that takes members.
func migrateTake(f *migrateFlags, name, short string) *cobra.Command {
	c := &cobra.Command{
		Use:     name + " ZOO.CFG",
		Short:   short,
		Example: "  pinfold migrate " + name + " --stop 'ssh {host} systemctl stop old' --start 'ssh {host} systemctl start new' zoo.cfg",
		Args:    cobra.ExactArgs(1),
	}
	p := c.Flags()
	to, program := "", migrate.Pinfold
	if name == "back" {
		program = migrate.Apache
	}
	p.StringVar(&f.stop, "stop", "", "command that stops the server of a member")
	p.StringVar(&f.start, "start", "", "command that starts the other server of a member, and returns")
	p.StringVar(&to, "to", program, "pinfold, apache, or any: every member once, whatever it runs")
	p.Int64SliceVar(&f.members, "member", nil, "take only this member; may be repeated")
	p.DurationVar(&f.o.Wait, "wait", 2*time.Minute, "how long a member may take to stop, to serve, or to catch up")
	p.DurationVar(&f.o.Settle, "settle", 5*time.Second, "pause between two members")
	p.StringVar(&f.o.Canary, "canary", "/", "znode below which a session on each member writes, to see what clients feel; or none")
	p.BoolVar(&f.verify, "verify", false, "compare all znodes of all members before, between and after")
	p.BoolVarP(&f.o.Yes, "yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		f.o.To, f.o.Only, f.o.DryRun = to, f.members, name == "plan"
		if err := f.check(c); err != nil {
			return err
		}
		return f.with(c, args[0], func(ctx context.Context, e *migrate.Live, members *migrate.Config, out *plan.Printer) error {
			if f.verify {
				f.o.Verify = func(ctx context.Context, say func(string)) error {
					return f.compare(ctx, e, members, say)
				}
			}
			return migrate.Run(ctx, e, members, f.o, out, confirm(c))
		})
	}
	return c
}

// check checks the flags of a command that takes members.
func (f *migrateFlags) check(c *cobra.Command) error {
	if f.o.Canary == "none" {
		f.o.Canary = ""
	}
	switch {
	case f.o.To != migrate.Pinfold && f.o.To != migrate.Apache && f.o.To != migrate.Any:
		return fmt.Errorf("--to %q: must be pinfold, apache or any", f.o.To)
	case f.o.DryRun:
		return nil
	case f.stop == "" || f.start == "":
		return errors.New("--stop and --start are needed: the commands that stop and start the server of a member")
	}
	return canConfirm(c, f.o.Options)
}

func migrateHosts() *cobra.Command {
	f := &memberFlags{}
	var o migrate.Options
	var stop, start string
	c := &cobra.Command{
		Use:   "hosts OLD LINE [OLD LINE ...]",
		Short: "Put servers on other hosts in the place of members, by reconfiguration",
		Long: `Hosts puts a server on another host in the place of each member OLD: that of the server
line LINE. No host needs both programs. One after the other, the leader last, the new server is
started by --start, becomes an observer, has all data, and takes the place of the old one in one
transaction, as pinfold member replace does it; then the old one is stopped by --stop. It may be
interrupted, and run again. The way back is the same, with the old hosts as the new ones: prepare
them as new servers are.

The new servers need a data directory that is empty or of this ensemble, a myid,
reconfigEnabled=true, and the server lines of the members and their own, as an observer, in zoo.cfg.`,
		Example: `  pinfold migrate hosts --server zk1:2181 --auth-file super \
      --start 'ssh {host} sudo systemctl start pinfold' --stop 'ssh {host} sudo systemctl stop zookeeper' \
      1 '4=zk4:2888:3888;2181' 2 '5=zk5:2888:3888;2181' 3 '6=zk6:2888:3888;2181'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args)%2 != 0 {
				return errors.New("want the id of a member and the server line of the new server, once or more often")
			}
			return nil
		},
	}
	f.register(c.Flags())
	f.registerChange(c.Flags())
	c.Flags().StringVar(&stop, "stop", "true", "command that stops the server of a member that was replaced")
	c.Flags().StringVar(&start, "start", "true", "command that starts a new server, if it does not run already")
	c.Flags().DurationVar(&o.Settle, "settle", 5*time.Second, "pause after each")
	c.Flags().StringVar(&o.Canary, "canary", "/", "znode below which a session on each member writes, to see what clients feel; or none")
	c.RunE = func(c *cobra.Command, args []string) error {
		var pairs []migrate.Pair
		for i := 0; i < len(args); i += 2 {
			id, err := memberID(args[i])
			if err != nil {
				return err
			}
			m, err := client.ParseMember(args[i+1])
			if err != nil {
				return err
			}
			pairs = append(pairs, migrate.Pair{Old: id, New: m})
		}
		if o.Options = f.o; o.Canary == "none" {
			o.Canary = ""
		}
		if err := canConfirm(c, o.Options); err != nil {
			return err
		}
		f.connect.Wait = true // for a member that is slow
		return f.with(c, func(ctx context.Context, m *member.Live, out *plan.Printer) error {
			e := &migrate.Live{Servers: m, Open: f.connect.Dial, StopCommand: stop, StartCommand: start, Output: os.Stderr}
			return migrate.Hosts(ctx, e, m, pairs, o, out, confirm(c))
		}, client.FollowMembers(client.Member.ClientAddr))
	}
	return c
}

func migrateMerge() *cobra.Command {
	var m history.Merge
	var to string
	c := &cobra.Command{
		Use:   "merge --to DIR /PREFIX=DATADIR[,LOGDIR] ...",
		Short: "Make one data directory of those of several ensembles, each below a prefix",
		Long: `Merge reads the newest snapshot and the log of each data directory, of servers that do not
run or of copies, and writes a snapshot with the znodes of all, each directory's below its prefix.
Data, ACLs and Stats remain, and so do the counters of sequential names; quotas move with their
znodes. Ephemeral znodes and sessions are left out; the ephemerals are printed. If two directories
have a znode at one path, all such paths are printed, and nothing is written. Give every voter of
the new ensemble a copy of the result.`,
		Example: `  pinfold migrate merge --to /var/lib/merged /app=/copy/zk1 /kafka=/copy/zk2
  pinfold migrate merge --dry-run --to /var/lib/merged /=/copy/zk1 /kafka=/copy/zk2,/copy/zk2-log`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var parts []history.Part
			for _, arg := range args {
				prefix, dirs, ok := strings.Cut(arg, "=")
				data, log, _ := strings.Cut(dirs, ",")
				if !ok || data == "" {
					return fmt.Errorf("%q is not of the form /PREFIX=DATADIR", arg)
				}
				parts = append(parts, history.Part{Prefix: prefix, DataDir: data, LogDir: log})
			}
			if to == "" {
				return errors.New("--to is needed: the data directory that is written")
			}
			m.Out = c.OutOrStdout()
			return m.Run(parts, to)
		},
	}
	c.Flags().StringVar(&to, "to", "", "data directory that is written; it must have no data")
	c.Flags().BoolVar(&m.DryRun, "dry-run", false, "only print what conflicts, and what is left out")
	maxEntryFlag(c, &m.MaxEntry)
	return c
}

func migrateKeeper() *cobra.Command {
	var k history.FromKeeper
	var src keeper.Source
	var to string
	c := &cobra.Command{
		Use:   "keeper --to DIR COORDINATION | keeper --to DIR SNAPSHOTS LOGS",
		Short: "Make a data directory of the files of ClickHouse Keeper",
		Long: `Keeper reads the newest snapshot of ClickHouse Keeper and the changelogs after it, and writes a
snapshot as ZooKeeper's. The files are in the directories snapshots and log below COORDINATION, such as
/var/lib/clickhouse/coordination, or where the two arguments say. Stop all of Keeper's members, and use
the files of the one whose changelogs reach furthest: of it, all entries are applied, or those up to --last.
Data, ACLs, Stats (but the cversion) and zxids remain, and so do the counters of sequential names.
Ephemeral znodes and sessions are left out; the ephemerals are printed.
It reads snapshots of the versions 3 to 7, compressed with zstd, and changelogs of the versions 0 to 2.
If Keeper has computed digests of its tree, they are compared after each entry.`,
		Example: `  pinfold migrate keeper --dry-run --to /var/lib/pinfold /var/lib/clickhouse/coordination
  pinfold migrate keeper --to /var/lib/pinfold /copy/snapshots /copy/log`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				args = []string{filepath.Join(args[0], "snapshots"), filepath.Join(args[0], "log")}
			}
			for _, dir := range args {
				if info, err := os.Stat(dir); err != nil || !info.IsDir() {
					return errors.Join(fmt.Errorf("%s is no directory", dir), err)
				}
			}
			if to == "" {
				return errors.New("--to is needed: the data directory that is written")
			}
			src.Snapshots, src.Logs, k.Out = os.DirFS(args[0]), os.DirFS(args[1]), c.OutOrStdout()
			err := k.Run(&src, to)
			if errors.Is(err, keeper.ErrDigest) {
				err = fmt.Errorf("%w: this may be a damaged file, or requests of the superuser, whose digest --superdigest gives; --ignore-digests goes on", err)
			}
			return err
		},
	}
	c.Flags().StringVar(&to, "to", "", "data directory that is written; it must have no data")
	c.Flags().BoolVar(&k.DryRun, "dry-run", false, "only print what would be converted, and what is left out")
	c.Flags().Uint64Var(&src.Last, "last", 0, "last entry of the changelogs that is applied; 0 for all")
	c.Flags().StringVar(&src.SuperDigest, "superdigest", "", "Keeper's superdigest, as in its configuration")
	c.Flags().BoolVar(&src.IgnoreDigests, "ignore-digests", false, "go on if the tree has another digest than Keeper says")
	maxEntryFlag(c, &k.MaxEntry)
	return c
}

func migrateStatus(f *migrateFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status ZOO.CFG",
		Short: "Show what the members run, and whether one may be taken now",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.with(c, args[0], func(ctx context.Context, e *migrate.Live, members *migrate.Config, out *plan.Printer) error {
				state, err := migrate.ReadState(f.o.State)
				if err != nil {
					return err
				}
				return migrate.Show(ctx, e, members, state, out)
			})
		},
	}
}

func migrateVerify(f *migrateFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify ZOO.CFG",
		Short: "Compare all members znode by znode, while clients write",
		Long: `Verify reads every znode at every member, with its data, ACL, Stat and children, and
compares them: a znode that changes meanwhile is read until the members have shown it at a
common zxid. It compares the sessions of the members that answer the four-letter word dump.
With --admin-port it also compares the digests that the administration servers have of their
trees. The session needs the right to read: the superuser has it.

Exit status: 0 the members are equal, 1 they differ, or the command failed.`,
		Example: "  pinfold migrate verify --auth-file super --report report.json zoo.cfg",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.with(c, args[0], func(ctx context.Context, e *migrate.Live, members *migrate.Config, out *plan.Printer) error {
				say := func(text string) { fmt.Fprintln(c.ErrOrStderr(), text) }
				r, err := f.verifyOnce(ctx, e, members, say)
				if r == nil {
					return err
				}
				if out.JSON {
					out.Value(r)
				} else {
					r.Print(out.Out)
				}
				return errors.Join(err, f.file(r))
			})
		},
	}
	c.Flags().StringVar(&f.report, "report", "", "file for the report, in JSON")
	return c
}

func (f *migrateFlags) verifyOnce(ctx context.Context, e *migrate.Live, members *migrate.Config, say func(string)) (*migrate.Report, error) {
	return migrate.Verify(ctx, e, members, e.Servers.AdminPorts.Port, say)
}

// compare is the verification between two members.
func (f *migrateFlags) compare(ctx context.Context, e *migrate.Live, members *migrate.Config, say func(string)) error {
	r, err := f.verifyOnce(ctx, e, members, say)
	if r != nil {
		say("verify: " + r.Summary())
	}
	return err
}

// file writes the report.
func (f *migrateFlags) file(r *migrate.Report) error {
	if f.report == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.report, append(b, '\n'), 0o644)
}

// with reads the members, and runs a command on them.
func (f *migrateFlags) with(c *cobra.Command, file string, run func(context.Context, *migrate.Live, *migrate.Config, *plan.Printer) error) error {
	ctx, stop := untilStopped(c.Context())
	defer stop()
	asking, out, err := f.begin(c)
	if err != nil {
		return err
	}
	clients := map[int64]string{}
	for _, text := range f.clients {
		number, addr, _ := strings.Cut(text, "=")
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil || !strings.Contains(addr, ":") {
			return fmt.Errorf("--client %q: must be ID=HOST:PORT", text)
		}
		clients[id] = addr
	}
	members, err := migrate.ReadConfig(file, clients)
	if err != nil {
		return err
	}
	f.connect.Wait = true // for a member that is slow
	e := &migrate.Live{Servers: asking, Open: f.connect.Dial, StopCommand: f.stop, StartCommand: f.start, Output: os.Stderr}
	return run(ctx, e, members, out)
}
