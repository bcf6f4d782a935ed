package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/bench"
	"github.com/pinfold-zk/pinfold/internal/bench/report"
)

// benchCommand is `pinfold bench`, the load generator. This file has the flags;
// internal/bench does the work.
func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a ZooKeeper server",
		Long: `Bench applies a load to any ZooKeeper server, and measures rates, latencies and
(with --pids, for servers on this machine) the CPU and memory that the server uses.
The generator should use far less CPU than the server; the output shows both.

With --tls DIR all connections are encrypted (TLS 1.3). DIR/store.pem has the key and the
certificate of servers and clients, DIR/trust.pem that of the authority which has signed it.
If there is no DIR, it is made with new certificates for localhost and 127.0.0.1. Compare and
failover give these files to the servers that they start, for the ports of clients and of members.`,
		Example: `  pinfold bench mix --servers 127.0.0.1:2181 --read-ratio 0.8 --pids $(pgrep -f QuorumPeerMain)
  pinfold bench mix --connections 120 --outstanding 1
  pinfold bench mix --rate 20000            # an open loop: latency from the scheduled time
  pinfold bench create --workers 1 --size 1024
  pinfold bench fill --count 1000000 --size 100
  pinfold bench watch --watchers 200
  pinfold bench idle --sessions 10000 --pids 4711
  pinfold bench compare --system apache=scripts/apache-server --system "pinfold=./pinfold server"
  pinfold bench compare --members 3 --system "pinfold=./pinfold server"
  pinfold bench compare --tls build/bench-tls --rows reads,connect,idle --system "pinfold=./pinfold server"
  pinfold bench connect --tls build/bench-tls --sessions --servers localhost:2281
  pinfold bench failover --system "pinfold=./pinfold server" --json failover.json
  pinfold bench paper --against apache --quick`,
	}
	var f benchFlags
	f.register(c)
	c.AddCommand(benchMix(&f), benchCreate(&f), benchFill(&f), benchWatch(&f), benchWatches(&f),
		benchIdle(&f), benchConnect(&f), benchFloor(), benchCompare(&f), benchFailover(&f), benchPaper(&f))
	return c
}

// benchFlags are the flags of all workloads.
type benchFlags struct {
	options bench.Options
	json    string
	tls     string
	quiet   bool
}

func (f *benchFlags) register(c *cobra.Command) {
	p := c.PersistentFlags()
	o := &f.options
	p.StringSliceVar(&o.Servers, "servers", []string{"127.0.0.1:2181"},
		"servers, host:port; connections are spread over them")
	p.IntSliceVar(&o.Pids, "pids", nil, "process ids of the servers, to measure their CPU and memory")
	p.DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure")
	p.DurationVar(&o.Warmup, "warmup", 3*time.Second, "how long to load before that")
	p.DurationVar(&o.SessionTimeout, "session-timeout", 30*time.Second, "session timeout to request")
	p.IntVar(&o.Loops, "loops", 0, "goroutines that drive connections (0: half the processors)")
	p.StringVar(&f.tls, "tls", "", "encrypt all connections, with the files store.pem and trust.pem of this directory")
	p.StringVar(&f.json, "json", "", "also write everything to this file")
	p.BoolVarP(&f.quiet, "quiet", "q", false, "no progress lines")
}

// encrypt opens the directory of --tls.
func (f *benchFlags) encrypt(e **bench.Encryption) (err error) {
	if f.tls != "" {
		*e, err = bench.OpenEncryption(f.tls)
	}
	return err
}

// A benchWorkload is a workload of internal/bench.
type benchWorkload interface {
	Run(ctx context.Context) (*bench.Result, error)
}

// untilStopped returns a context that ends when the command is interrupted or
// terminated, or when the reader of its output has gone. The servers that the command
// has started are stopped then too.
func untilStopped(ctx context.Context) (_ context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// command makes the command of a workload, whose options it sets when the flags are
// read. An interrupt ends the workload early; what was measured is still printed.
func (f *benchFlags) command(use, short string, w benchWorkload, o *bench.Options) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilStopped(c.Context())
			defer stop()
			context.AfterFunc(ctx, stop) // a second interrupt ends the process without cleaning up
			if *o = f.options; !f.quiet {
				o.Progress = c.ErrOrStderr()
			}
			if err := f.encrypt(&o.TLS); err != nil {
				return err
			}
			return f.run(ctx, c, w)
		},
	}
}

// run runs a workload and prints what it has measured.
func (f *benchFlags) run(ctx context.Context, c *cobra.Command, w benchWorkload) error {
	res, err := w.Run(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if res == nil {
		return err
	}
	err = errors.Join(err, f.print(c, res))
	if n := res.ErrorCount(); n > 0 {
		err = errors.Join(err, fmt.Errorf("the server refused %d operations", n))
	}
	return err
}

// findings are the results of a workload.
type findings interface {
	Print(w io.Writer) error
	WriteJSON(name string) error
}

// print prints findings, and writes them to the file of --json.
func (f *benchFlags) print(c *cobra.Command, found findings) error {
	err := found.Print(c.OutOrStdout())
	if f.json != "" {
		err = errors.Join(err, found.WriteJSON(f.json))
	}
	return err
}

// onSystems makes c start the servers that --system names, and call run. It sets systems,
// and progress unless --quiet is given.
func (f *benchFlags) onSystems(c *cobra.Command, systems *[]bench.System, progress *io.Writer, run func(ctx context.Context) error) {
	var commands []string
	c.Flags().StringArrayVar(&commands, "system", nil, "a system to measure; the second is compared with the first")
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		ctx, stop := untilStopped(c.Context())
		defer stop()
		if *systems, err = parseSystems(commands); err != nil {
			return err
		}
		for i := range *systems {
			if err := f.encrypt(&(*systems)[i].TLS); err != nil {
				return err
			}
		}
		if !f.quiet {
			*progress = c.ErrOrStderr()
		}
		return run(ctx)
	}
}

func benchMix(f *benchFlags) *cobra.Command {
	var w bench.Mix
	c := f.command("mix", "Read and write znodes chosen at random", &w, &w.Options)
	c.Flags().IntVar(&w.Connections, "connections", 20, "number of sessions")
	c.Flags().IntVar(&w.Outstanding, "outstanding", 100, "requests in flight on each")
	c.Flags().Float64Var(&w.ReadRatio, "read-ratio", 1, "share of reads, 0 to 1")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of a value")
	c.Flags().IntVar(&w.Keys, "keys", 1000, "number of znodes")
	c.Flags().Float64Var(&w.Rate, "rate", 0,
		"requests per second in all, by schedule; latency counts from the scheduled time (0: as fast as replies come)")
	return c
}

func benchCreate(f *benchFlags) *cobra.Command {
	var w bench.Create
	c := f.command("create", "Create synchronously, delete asynchronously (the paper's section 5.2)", &w, &w.Options)
	c.Flags().IntVar(&w.Workers, "workers", 1, "number of sessions")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of a value")
	return c
}

func benchFill(f *benchFlags) *cobra.Command {
	var w bench.Fill
	c := f.command("fill", "Create many znodes and leave them there", &w, &w.Options)
	c.Flags().IntVar(&w.Connections, "connections", 8, "number of sessions")
	c.Flags().IntVar(&w.Outstanding, "outstanding", 200, "requests in flight on each")
	c.Flags().StringVar(&w.Path, "path", "/pinfold-fill", "parent of the znodes")
	c.Flags().IntVar(&w.Count, "count", 1000000, "number of znodes")
	c.Flags().IntVar(&w.Size, "size", 100, "bytes of a value")
	c.Flags().IntVar(&w.Parents, "parents", 1, "number of znodes below path that have the others as children, if more than 1")
	c.Flags().BoolVar(&w.Delete, "delete", false, "delete what a fill with the same flags has created")
	return c
}

func benchWatch(f *benchFlags) *cobra.Command {
	var w bench.Watch
	c := f.command("watch", "Fan events out to many watchers of one znode", &w, &w.Options)
	c.Flags().IntVar(&w.Watchers, "watchers", 200, "number of sessions that watch")
	c.Flags().BoolVar(&w.Persistent, "persistent", false, "addWatch once, not getData after every event")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of the value")
	c.Flags().DurationVar(&w.Interval, "interval", 0, "minimum time between two sets")
	return c
}

func benchWatches(f *benchFlags) *cobra.Command {
	var w bench.Watches
	c := f.command("watches", "Watch many znodes from one session", &w, &w.Options)
	c.Flags().IntVar(&w.Count, "count", 1000000, "number of znodes")
	c.Flags().BoolVar(&w.Absent, "absent", false, "the znodes do not exist")
	return c
}

func benchIdle(f *benchFlags) *cobra.Command {
	var w bench.Idle
	c := f.command("idle", "Hold many sessions that only ping", &w, &w.Options)
	c.Flags().IntVar(&w.Sessions, "sessions", 10000, "number of sessions")
	return c
}

func benchConnect(f *benchFlags) *cobra.Command {
	var w bench.Connect
	c := f.command("connect", "Open connections, with TLS by complete handshakes, and close them", &w, &w.Options)
	c.Example = `  pinfold bench connect --workers 20                # each asks the four-letter word ruok
  pinfold bench connect --sessions --tls build/bench-tls --servers localhost:2281`
	c.Flags().IntVar(&w.Workers, "workers", 20, "number of connections at a time")
	c.Flags().BoolVar(&w.Sessions, "sessions", false, "open and close a session on each connection")
	return c
}

func benchFloor() *cobra.Command {
	var f bench.Floor
	var listen string
	c := &cobra.Command{
		Use:   "floor",
		Short: "Answer every request from one fixed buffer: the lower bound of any server's cost",
		Long: `Floor is a server without data: it answers every request at once from one fixed
buffer. Load it with "pinfold bench mix" to measure what connections and system calls
cost on this machine, and how fast the generator is.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilStopped(c.Context())
			defer stop()
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "floor on %s, pid %d\n", ln.Addr(), os.Getpid())
			return f.Serve(ctx, ln)
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:2181", "address")
	c.Flags().IntVar(&f.Size, "size", 1024, "bytes of the value that every read returns")
	return c
}

func benchCompare(f *benchFlags) *cobra.Command {
	var w bench.Compare
	var page string
	c := &cobra.Command{
		Use:   "compare --system NAME=COMMAND [--system NAME=COMMAND]",
		Short: "Measure two servers in turn, and print a table of ratios",
		Long: `Compare starts each system with a new data directory, measures one row after the
other, and alternates between the systems. COMMAND runs a server in the foreground; the
path of a zoo.cfg is appended to it. With --turns 10 the systems of a pair stay up, and
get the load of each row in turn, 10 times each: short loads that follow each other find
the machine in the same state, so many of them tell a small difference. Then a ratio
above 1 says that the second system is better, in rates and in costs, and the numbers
next to it are its 95 % confidence interval. Rows: ` + strings.Join(bench.Rows(1), ", ") + `.

With --members 3 each system is an ensemble of three servers on this machine. Rows:
` + strings.Join(bench.Rows(3), ", ") + `.`,
		Example: `  pinfold bench compare --system "apache=scripts/apache-server" --system "pinfold=pinfold server" --rows reads,writes
  pinfold bench compare --system "before=before/pinfold server" --system "now=pinfold server" \
      --pairs 20 --turns 10 --duration 250ms --warmup 100ms --least 0.97 -q`,
	}
	f.onSystems(c, &w.Systems, &w.Progress, func(ctx context.Context) error {
		w.Duration, w.Warmup = f.options.Duration, f.options.Warmup
		found, err := w.Run(ctx)
		if found == nil {
			return err
		}
		if err = errors.Join(err, f.print(c, found)); page != "" && err == nil {
			err = found.WriteMarkdown(page)
		}
		return err
	})
	c.Flags().IntVar(&w.Pairs, "pairs", 5, "visits to each system")
	c.Flags().IntVar(&w.Turns, "turns", 0, "in each visit, loads of a row to both systems in turn, which stay up (0: one load, alone)")
	c.Flags().Float64Var(&w.Least, "least", 0, "ratio that every row is to reach, in place of the table's bars (0.97: at most 3 % worse)")
	c.Flags().StringSliceVar(&w.Rows, "rows", nil, "rows to measure (default all)")
	c.Flags().StringVar(&w.Dir, "dir", "build/bench", "directory for the servers' data during the run")
	c.Flags().IntVar(&w.Port, "port", 25181, "client port of the servers")
	c.Flags().IntVar(&w.Znodes, "znodes", 1000000, "znodes of 100 bytes, for memory, restart and snapshot")
	c.Flags().IntVar(&w.Sessions, "sessions", 10000, "idle sessions")
	c.Flags().IntVar(&w.Members, "members", 1, "servers of each system; more than one form an ensemble")
	c.Flags().IntVar(&w.Kills, "kills", 5, "number of leaders to kill in each visit to an ensemble")
	c.Flags().IntVar(&w.Away, "away", 100000, "creates of 1 KiB that a member of an ensemble misses before it rejoins")
	c.Flags().Float64Var(&w.AwayRate, "away-rate", 12000, "writes per second while it rejoins")
	c.Flags().DurationVar(&w.Settle, "settle", 2*time.Second,
		"pause before and after a leader is killed, and before a member rejoins")
	c.Flags().StringVar(&page, "write", "", "write the table into its section of this Markdown file")
	return c
}

// parseSystems reads the values of --system.
func parseSystems(flags []string) (list []bench.System, err error) {
	for _, s := range flags {
		name, command, ok := strings.Cut(s, "=")
		if !ok || len(strings.Fields(command)) == 0 {
			return nil, fmt.Errorf("--system %q: want NAME=COMMAND", s)
		}
		list = append(list, bench.System{Name: name, Command: strings.Fields(command)})
	}
	return list, nil
}

func benchFailover(f *benchFlags) *cobra.Command {
	var w bench.Failover
	var page, picture string
	c := &cobra.Command{
		Use:   "failover --system NAME=COMMAND [--system NAME=COMMAND]",
		Short: "Record the throughput of an ensemble while members fail",
		Long: `Failover starts an ensemble of each system with fresh data directories, puts it
under full load, and kills members and starts them again as in figure 8 of the
ZooKeeper paper: a follower, a different one, the leader, two followers (of five or
more members), the leader. It records what was answered in each tenth of a second.
COMMAND is as for compare.`,
	}
	f.onSystems(c, &w.Systems, &w.Progress, func(ctx context.Context) error {
		w.Warmup = f.options.Warmup
		found, err := w.Run(ctx)
		if err != nil {
			return err
		}
		if err = f.print(c, found); page != "" {
			err = errors.Join(err, found.WriteMarkdown(page, picture), writePicture(filepath.Join(filepath.Dir(page), picture), found))
		}
		return err
	})
	c.Flags().IntVar(&w.Members, "members", 5, "servers of each system")
	c.Flags().IntVar(&w.Connections, "connections", 30, "number of sessions")
	c.Flags().IntVar(&w.Outstanding, "outstanding", 100, "requests in flight on each")
	c.Flags().Float64Var(&w.ReadRatio, "read-ratio", 0.7, "share of reads, less than 1")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of a value")
	c.Flags().IntVar(&w.Keys, "keys", 1000, "number of znodes")
	c.Flags().DurationVar(&w.Step, "step", 5*time.Second, "time between two events")
	c.Flags().DurationVar(&w.Sample, "sample", 100*time.Millisecond, "width of a sample")
	c.Flags().StringVar(&w.Dir, "dir", "build/bench", "directory for the servers' data during the run")
	c.Flags().IntVar(&w.Port, "port", 25181, "client port of the first server; the others' ports follow")
	c.Flags().StringVar(&page, "write", "", "write the findings into their section of this Markdown file")
	c.Flags().StringVar(&picture, "picture", "bench/failover.svg", "file of the plot for the page, relative to the page")
	return c
}

// writePicture draws the recorded throughput.
func writePicture(name string, found *bench.Failovers) error {
	svg, err := report.Timeline(found)
	if err != nil {
		return err
	}
	return os.WriteFile(name, svg, 0o644)
}
