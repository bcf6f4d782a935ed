package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/znode"
)

func serverCommand() *cobra.Command {
	var verbose bool
	cmd := &cobra.Command{
		Use:   "server [zoo.cfg] [-Dname=value ...]",
		Short: "Run a server",
		Long: `Run a ZooKeeper server.

Without a zoo.cfg it runs standalone on 127.0.0.1:2181, with its data in
./pinfold-data. With one it behaves as Apache ZooKeeper would; what Apache takes
as a Java system property is taken as -Dname=value, here or in the environment
variable SERVER_JVMFLAGS.`,
		Example: `  pinfold server
  pinfold server /etc/zookeeper/conf/zoo.cfg
  pinfold server zoo.cfg -Dzookeeper.extendedTypesEnabled=true -Djute.maxbuffer=4194304`,
		// The flags are read by hand: -Dname=value is not a flag as others are.
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

// serverArgs separates the file from the -D flags.
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
			return "", nil, false, fmt.Errorf("server: one zoo.cfg, not two: %s and %s", file, a)
		default:
			file = a
		}
	}
	return file, flags, help, nil
}

// runServer runs a server until a signal ends it. beside, if there is any, runs
// beside it until then.
func runServer(ctx context.Context, file string, flags []string, verbose bool, beside ...func(context.Context, *replica.Replica)) error {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	cfg, warnings, err := config.Load(file, flags, os.Getenv("SERVER_JVMFLAGS"))
	for _, w := range warnings {
		log.Warn("configuration", "at", w.Where, "key", w.Key, "warning", w.Text)
	}
	if err != nil {
		return err
	}
	limitGarbage()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	return serve(ctx, cfg, log, beside...)
}

// serve runs a server until ctx ends or the replica fails.
func serve(ctx context.Context, cfg *config.Config, log *slog.Logger, beside ...func(context.Context, *replica.Replica)) (err error) {
	mode := "standalone"
	if cfg.Quorum.Distributed() {
		mode = fmt.Sprintf("server %d of an ensemble of %d", cfg.Quorum.MyID, len(cfg.Quorum.Members.Servers))
	}
	fmt.Printf("Pinfold %s (ZooKeeper %s), %s\n", buildVersion(), server.Version, mode)
	authority, err := auth.New(authConfig(cfg))
	if err != nil {
		return err
	}
	users, err := logins(cfg, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Client.Addr())
	if err != nil {
		return fmt.Errorf("server: client port: %w", err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(listener.Close())) }()
	dir, err := storage.Open(vfs.OS{}, storageOptions(cfg))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()

	srv := server.New(server.Options{Config: cfg, Auth: authority, SASL: users, Logger: log})
	opts := replicaOptions(cfg, dir, authority)
	opts.Clients, opts.Logger = srv, log
	if cfg.Quorum.Distributed() {
		if opts.Ensemble, err = zabConfig(cfg); err != nil {
			return err
		}
		opts.ServerID, opts.ConfigText = uint8(cfg.Quorum.MyID), opts.Ensemble.ConfigText
		opts.LocalSessions, opts.ReadOnly = cfg.Quorum.LocalSessions, cfg.Quorum.ReadOnlyMode
	}
	rep, report, err := replica.Start(opts, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	defer trimIdle(rep.ReleaseSpare)()
	srv.Attach(rep)
	printReport(cfg, listener.Addr(), &report)
	if cfg.Quorum.Distributed() {
		links, err := join(cfg, rep, log)
		if err != nil {
			return errors.Join(err, rep.Close())
		}
		defer func() { err = errors.Join(err, links.Close()) }()
	}

	var besides sync.WaitGroup
	defer besides.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, f := range beside {
		besides.Go(func() { f(ctx, rep) })
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case <-rep.Failed():
		log.Error("the server must stop: what was acknowledged is safe, the rest is not promised", "err", rep.Failure())
	case err = <-served:
	}
	srv.Stop()
	return errors.Join(err, rep.Close())
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// printReport says where the server is and what it has.
func printReport(cfg *config.Config, addr net.Addr, rep *replica.Report) {
	fmt.Printf("  clients   %v\n", addr)
	fmt.Printf("  data      %s\n", cfg.Data.Dir)
	if cfg.Data.LogDir != cfg.Data.Dir {
		fmt.Printf("  log       %s\n", cfg.Data.LogDir)
	}
	if !cfg.Log.ForceSync {
		fmt.Println("  WARNING   forceSync=no: acknowledged writes are lost when the machine fails")
	}
	source := "a new database"
	if !rep.NewServer {
		source = fmt.Sprintf("%s and %d transactions of the log", rep.Snapshot, rep.Replayed)
	}
	fmt.Printf("  loaded    %d znodes, %d sessions, zxid %v, from %s, in %v\n",
		rep.Znodes, rep.Sessions, rep.Zxid, source, rep.Took.Round(time.Millisecond))
	fmt.Println("ready")
}

// maxEntryBytes is the longest transaction that is written and read, header and
// digest included.
func maxEntryBytes(cfg *config.Config) int { return cfg.Client.MaxFrameBytes + cfg.Client.ExtraBytes }

// digestBytes is the length of the digest behind a transaction.
const digestBytes = 12

func authConfig(cfg *config.Config) auth.Config {
	a := &cfg.Auth
	return auth.Config{
		DigestAlg: a.DigestHash, DigestDisabled: !a.DigestEnabled, SuperDigest: a.SuperDigest,
		SkipACL: a.SkipACL, EnsembleNames: a.EnsembleNames, Ensemble: len(a.EnsembleNames) > 0,
		SASL: a.SASL.Provider, AnySASLUser: a.SASL.AnyUser, SuperUsers: a.SASL.SuperUsers,
	}
}

func storageOptions(cfg *config.Config) storage.Options {
	compression, err := storage.ParseCompression(cfg.Snapshot.Compression)
	if err != nil {
		panic("config let a compression pass that storage does not know: " + err.Error())
	}
	return storage.Options{
		DataDir: cfg.Data.Dir, DataLogDir: cfg.Data.LogDir, AutoCreate: cfg.Data.AutoCreate,
		Compression: compression,
		Log: storage.LogOptions{
			PreallocBytes: cfg.Log.PreAllocBytes, MaxFileBytes: cfg.Log.MaxBytes,
			MaxEntryBytes: maxEntryBytes(cfg), NoSync: !cfg.Log.ForceSync,
		},
	}
}

// standaloneID is the server id in the session ids of a standalone server, as
// Apache has it.
const standaloneID = 1

func replicaOptions(cfg *config.Config, dir *storage.Dir, authority *auth.Authority) replica.Options {
	return replica.Options{
		Dir: dir, Auth: authority,
		Tree: znode.Options{
			ExtendedTypes: cfg.Tree.ExtendedTypes, Emulate353TTL: cfg.Tree.Emulate353TTL, NoDigest: !cfg.Log.DigestEnabled,
		},
		Prep: prep.Config{
			ExtendedTypes: cfg.Tree.ExtendedTypes, EnforceQuota: cfg.Tree.EnforceQuota,
			ReconfigEnabled: cfg.Quorum.ReconfigEnabled && !cfg.Quorum.Distributed(), ListClosedPaths: cfg.Log.CloseSessionTxn,
			DigestEnabled: cfg.Log.DigestEnabled,
			MaxTxnBytes:   maxEntryBytes(cfg) - txn.HeaderLen - digestBytes,
		},
		ServerID: standaloneID, Tick: cfg.Session.Tick,
		SnapCount: cfg.Snapshot.Count, SnapBytes: cfg.Snapshot.SizeBytes, LastZxidBlock: cfg.Log.SerializeLastTxn,
		TrustEmpty: cfg.Snapshot.TrustEmpty, DBAutoCreate: cfg.Data.DBAutoCreate,
		MaxRecordBytes: maxEntryBytes(cfg), Prefetch: true,
		SweepInterval: cfg.Reaper.Interval, SweepPerMinute: cfg.Reaper.MaxPerMinute, NeverUsed: cfg.Reaper.NeverUsed,
		PurgeInterval: cfg.Purge.Interval, PurgeRetain: cfg.Purge.Retain, FsyncWarnAfter: cfg.Log.FsyncWarnAfter,
		ThrottledOpWait: cfg.Requests.ThrottledOpWait,
	}
}
