package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/logging"
	"github.com/pinfold-zk/pinfold/internal/node"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/systemd"
)

// serverFlags is what the command line of `pinfold server` says.
type serverFlags struct {
	file       string   // zoo.cfg; "": none
	properties []string // -Dname=value

	listen, port, data string // override zoo.cfg; "": not given
	id                 string // in the ensemble, or "hostname"; "": the file myid has it
	number             *int64 // what id says; nil: nothing
	check, verbose     bool
	logFormat          string
	logLevel           string
}

func serverCommand() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "server [zoo.cfg] [flags] [-Dname=value ...]",
		Short: "Run a server",
		Long: `Run a ZooKeeper server.

Without a zoo.cfg it runs standalone on 127.0.0.1:2181, with its data in
./pinfold-data, and purges old files there every minute. With a zoo.cfg it behaves
as Apache ZooKeeper would. Apache's Java system properties are given as
-Dname=value, here or in the environment variables SERVER_JVMFLAGS and JVMFLAGS.
Other words for a JVM, such as -Xmx2g, have no effect.

--check reads the configuration and the files that it names, prints what the
server would do, and ends: with status 0 if it would start. It opens no port and
writes nothing, so a server that runs with the same zoo.cfg is not disturbed.

SIGTERM and Ctrl-C stop the server; SIGUSR2 turns debug lines of the log on, and
off again.`,
		Example: `  pinfold server
  pinfold server --port 2281 --data /tmp/zk --listen 0.0.0.0
  pinfold server /etc/zookeeper/conf/zoo.cfg --log-format json
  pinfold server --check /etc/zookeeper/conf/zoo.cfg
  pinfold server zoo.cfg -Dzookeeper.extendedTypesEnabled=true -Djute.maxbuffer=4194304`,
		// serverFlags.parse reads the flags, because -Dname=value does not have the
		// form of other flags.
		DisableFlagParsing: true,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		help, err := f.parse(cmd.Flags(), args)
		if err != nil {
			return err
		}
		if help {
			return cmd.Help()
		}
		if f.check {
			return checkServer(cmd, &f)
		}
		return runServer(cmd.Context(), &f)
	}
	return cmd
}

func (f *serverFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.port, "port", "", "port for clients (clientPort)")
	flags.StringVar(&f.listen, "listen", "", "address to listen on for clients (clientPortAddress)")
	flags.StringVar(&f.data, "data", "", "data directory (dataDir)")
	flags.StringVar(&f.id, "id", "", "number in the ensemble, in place of the file myid; hostname: the number at the end of the host's name, plus one")
	flags.BoolVar(&f.check, "check", false, "check the configuration, and end")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "the same as --log-level debug")
	flags.BoolP("help", "h", false, "help for server")
}

// parse reads the words of the command line.
func (f *serverFlags) parse(flags *pflag.FlagSet, args []string) (help bool, err error) {
	var rest []string
	for _, a := range args {
		switch {
		case strings.HasPrefix(a, "-D"):
			f.properties = append(f.properties, a)
		case config.JVMWord(a):
		default:
			rest = append(rest, a)
		}
	}
	if err := flags.Parse(rest); err != nil {
		return false, fmt.Errorf("server: %w; see pinfold server --help", err)
	}
	if f.verbose {
		f.logLevel = "debug"
	}
	if f.id != "" {
		id, err := serverID(f.id, os.Hostname)
		if err != nil {
			return false, err
		}
		f.number = &id
	}
	switch files := flags.Args(); len(files) {
	case 0:
	case 1:
		f.file = files[0]
	default:
		return false, fmt.Errorf("server: two configuration files, %s and %s; give one zoo.cfg", files[0], files[1])
	}
	return flags.GetBool("help")
}

// source returns where the configuration comes from.
func (f *serverFlags) source() *config.Source {
	s := &config.Source{File: f.file, Flags: f.properties, Environ: config.ReadEnvironment(), ID: f.number, Settings: map[string]string{}}
	if f.file == "" {
		s.Settings["autopurge.purgeInterval"] = "1m"
	}
	if f.file == "" && (f.port != "" || f.listen != "") {
		s.Settings["clientPort"], s.Settings["clientPortAddress"] = "2181", "127.0.0.1"
	}
	for key, value := range map[string]string{"clientPort": f.port, "clientPortAddress": f.listen, "dataDir": f.data} {
		if value != "" {
			s.Settings[key] = value
		}
	}
	return s
}

// logger returns the logger of the server, and its level.
func (f *serverFlags) logger() (*slog.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	chosen, err := logging.ParseLevel(f.logLevel)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	level.Set(chosen)
	log, err := logging.New(os.Stderr, f.logFormat, level)
	if err != nil {
		return nil, nil, fmt.Errorf("server: %w", err)
	}
	return log, level, nil
}

// checkServer prints what a server with these flags would do. The error is that of its
// start, as far as it is known.
func checkServer(cmd *cobra.Command, f *serverFlags) error {
	log, _, err := f.logger()
	if err != nil {
		return err
	}
	cfg, warnings, err := f.source().Load()
	out := cmd.OutOrStdout()
	for _, w := range warnings {
		fmt.Fprintln(out, "warning:", w)
	}
	if err != nil {
		return err
	}
	if err := node.Check(cfg, log); err != nil {
		return err
	}
	fmt.Fprintf(out, "The server would start: %s\n", modeOf(cfg))
	for _, p := range cfg.Ports() {
		fmt.Fprintf(out, "  %-9s %s %s\n", p.For, p.Addr, p.Protection)
	}
	fmt.Fprintf(out, "  data      %s (%s)\n", cfg.Data.Dir, node.Contents(cfg.Data.Dir))
	if cfg.Data.LogDir != cfg.Data.Dir {
		fmt.Fprintf(out, "  log       %s (%s)\n", cfg.Data.LogDir, node.Contents(cfg.Data.LogDir))
	}
	risks := slices.Concat(cfg.Risks(), node.Exposed(cfg), node.Certificates(cfg, time.Now()))
	if len(risks) > 0 {
		fmt.Fprintf(out, "How safe it is (docs/ops/security.md): %d points\n", len(risks))
	}
	for _, r := range risks {
		fmt.Fprintln(out, " ", r)
	}
	return nil
}

// runServer runs a server, and each function of beside with it, until a signal ends it.
func runServer(ctx context.Context, f *serverFlags, beside ...func(context.Context, *replica.Replica)) error {
	log, level, err := f.logger()
	if err != nil {
		return err
	}
	cfg, warnings, err := f.source().Load()
	for _, w := range warnings {
		log.Warn("a setting in the configuration needs attention", "place", w.Where, "key", w.Key, "warning", w.Text)
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	defer toggleDebug(log, level)()
	fmt.Printf("Pinfold %s (ZooKeeper %s), %s\n", buildVersion(), server.Version, modeOf(cfg))
	n, err := node.Open(node.Options{Config: cfg, Logger: log, Memory: node.TuneMemory()})
	if err != nil {
		return err
	}
	defer node.KeepMonitorAwake(n.Replica().Look, n.Replica().Busy())() // after Open, which counts the processors
	printReport(cfg, n)
	s := &supervised{replica: n.Replica(), ensemble: cfg.Quorum.Distributed()}
	beside = append(beside, func(ctx context.Context, _ *replica.Replica) { s.announce(ctx) })
	watchdog := make(chan error, 1)
	beside = append(beside, func(ctx context.Context, _ *replica.Replica) { watchdog <- s.watch(ctx) })

	ctx, end := context.WithCancel(ctx)
	var besides sync.WaitGroup
	for _, b := range beside {
		besides.Go(func() { b(ctx, n.Replica()) })
	}
	err = n.Run(ctx)
	end()
	besides.Wait()
	return errors.Join(err, <-watchdog)
}

// supervised is a server as the user and systemd see it.
type supervised struct {
	replica  *replica.Replica
	ensemble bool
}

// announcePeriod is how often announce looks whether the server serves; later it looks
// every fiftieth time, for a change of the role.
const announcePeriod = 20 * time.Millisecond

// announce prints "ready" when the server serves for the first time: a member of an
// ensemble does once a quorum has a leader and the member is in sync with it. Systemd
// takes the service for started before: a member may have to wait for the others.
func (s *supervised) announce(ctx context.Context) {
	// Nothing depends on it whether systemd is reached: it waits for READY by itself.
	tell := func(status string) { _ = systemd.Notify("READY=1\nSTATUS=" + status) }
	if s.ensemble && !s.replica.Serving() {
		fmt.Println("waiting for a quorum")
		tell("waiting for a quorum")
	}
	tick := time.NewTicker(announcePeriod)
	defer tick.Stop()
	for told := ""; ; {
		if mode := s.replica.Mode().String(); s.replica.Serving() && mode != told {
			if told == "" {
				fmt.Println("ready")
			}
			told = mode
			tell("serving, " + mode)
			tick.Reset(announcePeriod * 50)
		}
		select {
		case <-ctx.Done():
			_ = systemd.Notify("STOPPING=1")
			return
		case <-tick.C:
		}
	}
}

// watch tells systemd's watchdog that the server can read its tree.
func (s *supervised) watch(ctx context.Context) error {
	return systemd.Watchdog(ctx, func() { s.replica.View(func(replica.View) {}) })
}

// modeOf describes the server's role in its ensemble.
func modeOf(cfg *config.Config) string {
	if !cfg.Quorum.Distributed() {
		return "standalone"
	}
	return fmt.Sprintf("server %d of an ensemble of %d", cfg.Quorum.MyID, len(cfg.Quorum.Members.Servers))
}

// printReport prints where the server listens, and what it has loaded.
func printReport(cfg *config.Config, n *node.Node) {
	fmt.Printf("  clients   %v\n", n.Addr())
	fmt.Printf("  data      %s\n", cfg.Data.Dir)
	if cfg.Data.LogDir != cfg.Data.Dir {
		fmt.Printf("  log       %s\n", cfg.Data.LogDir)
	}
	if !cfg.Log.ForceSync {
		fmt.Println("  WARNING   forceSync=no: acknowledged writes are lost if the machine fails")
	}
	rep := n.Report()
	source := "a new database"
	if !rep.NewServer {
		source = fmt.Sprintf("%s and %d transactions of the log", rep.Snapshot, rep.Replayed)
	}
	fmt.Printf("  loaded    %d znodes, %d sessions, zxid %v, from %s, in %v\n",
		rep.Znodes, rep.Sessions, rep.Zxid, source, rep.Took.Round(time.Millisecond))
}
