package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
)

func serverCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "server [zoo.cfg] [-Dname=value ...]",
		Short: "Run a server",
		Long: `Run a ZooKeeper server.

Without a zoo.cfg it runs standalone on 127.0.0.1:2181, with its data in
./pinfold-data. With a zoo.cfg it behaves as Apache ZooKeeper would. Apache's Java
system properties are given as -Dname=value, here or in the environment variable
SERVER_JVMFLAGS.`,
		Example: `  pinfold server
  pinfold server /etc/zookeeper/conf/zoo.cfg
  pinfold server zoo.cfg -Dzookeeper.extendedTypesEnabled=true -Djute.maxbuffer=4194304`,
		// serverArgs reads the flags, because -Dname=value does not have the
		// form of other flags.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			file, flags, help, err := serverArgs(args, &verbose)
			if err != nil {
				return err
			}
			if help {
				return cmd.Help()
			}
			return runServer(cmd.Context(), file, flags, verbose)
		},
	}
	return cmd
}

// serverArgs separates the file from the -D properties.
func serverArgs(args []string, verbose *bool) (file string, flags []string, help bool, err error) {
	for _, a := range args {
		switch {
		case a == "-h" || a == "--help":
			help = true
		case a == "-v" || a == "--verbose":
			*verbose = true
		case strings.HasPrefix(a, "-D"):
			flags = append(flags, a)
		case strings.HasPrefix(a, "-"):
			return "", nil, false, fmt.Errorf("server: unknown flag %s; see pinfold server --help", a)
		case file != "":
			return "", nil, false, fmt.Errorf("server: two configuration files, %s and %s; give one zoo.cfg", file, a)
		default:
			file = a
		}
	}
	return file, flags, help, nil
}

// runServer runs a server, and each function of beside with it, until a signal ends it.
func runServer(ctx context.Context, file string, flags []string, verbose bool, beside ...func(context.Context, *replica.Replica)) error {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg, warnings, err := config.Load(file, flags, os.Getenv("SERVER_JVMFLAGS"))
	for _, w := range warnings {
		log.Warn("a setting in the configuration needs attention", "place", w.Where, "key", w.Key, "warning", w.Text)
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	fmt.Printf("Pinfold %s (ZooKeeper %s), %s\n", buildVersion(), server.Version, modeOf(cfg))
	n, err := node.Open(node.Options{Config: cfg, Logger: log, Memory: node.TuneMemory()})
	if err != nil {
		return err
	}
	printReport(cfg, n)

	ctx, end := context.WithCancel(ctx)
	var besides sync.WaitGroup
	defer besides.Wait()
	defer end()
	for _, f := range beside {
		besides.Go(func() { f(ctx, n.Replica()) })
	}
	return n.Run(ctx)
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
	fmt.Println("ready")
}
