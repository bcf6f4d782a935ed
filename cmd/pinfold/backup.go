package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/backup"
	"github.com/pinfold-zk/pinfold/zk"
)

// backupCommand is `pinfold backup`. This file has the flags; internal/backup does the
// work.
func backupCommand() *cobra.Command {
	var b backup.Backup
	var store storeFlags
	var megabytes int64
	c := &cobra.Command{
		Use:   "backup DATADIR STORE",
		Short: "Back up a data directory whose server may be running",
		Long: `Backup copies the newest snapshot and the log after it, and from the second time on only
what is new. DATADIR is dataDir of a server's zoo.cfg, of Pinfold or Apache ZooKeeper,
which need not be stopped; of an ensemble, one member is enough. STORE is a directory,
which is created, or s3://BUCKET/PREFIX: a bucket of a service with the protocol of Amazon
S3. Its credentials are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in
~/.aws/credentials, or in the role of the machine.

If the server's log does not go on where the store ends, because logs were purged since, or
because it is that of another server, a new generation begins with a new snapshot.

The command spares the server: it has a lower priority, and copies 16 MiB a second at most. A
server that logs more than --rate for hours needs a higher one.`,
		Example: `  pinfold backup /var/lib/zookeeper /backup/zookeeper
  pinfold backup --log-dir /log/zookeeper /var/lib/zookeeper /backup/zookeeper
  pinfold backup --full /var/lib/zookeeper /backup/zookeeper
  pinfold backup --s3-endpoint https://minio:9000 /var/lib/zookeeper s3://backups/zookeeper`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			ctx, stop := untilStopped(c.Context())
			defer stop()
			yieldToServers()
			if megabytes < 0 {
				return errors.New("--rate is negative")
			}
			b.DataDir, b.Rate = args[0], megabytes<<20
			if b.Store, err = store.open(args[1]); err != nil {
				return err
			}
			if err := b.Run(ctx); err != nil {
				return err
			}
			return printBackup(c, &b.Result)
		},
	}
	p := c.Flags()
	p.StringVar(&b.LogDir, "log-dir", "", "dataLogDir of zoo.cfg, if it is another directory")
	p.BoolVar(&b.Full, "full", false, "begin a new generation, with a new snapshot")
	p.Int64Var(&megabytes, "rate", backup.DefaultRate>>20, "MiB copied in a second at most, to spare the server; 0: no limit")
	store.register(c)
	maxEntryFlag(c, &b.MaxEntry)
	return c
}

// storeFlags say where a bucket is.
type storeFlags struct{ s3 backup.S3Options }

func (f *storeFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.s3.Endpoint, "s3-endpoint", "", "https://host:port of the service of s3://... (default Amazon's)")
	c.Flags().StringVar(&f.s3.Region, "s3-region", "", "its region, if the service does not tell it")
}

// open opens a store by its name.
func (f *storeFlags) open(name string) (backup.Store, error) {
	if strings.HasPrefix(name, "s3://") {
		return backup.OpenS3(name, f.s3)
	}
	return backup.Local(name), nil
}

func printBackup(c *cobra.Command, r *backup.Result) error {
	w := c.OutOrStdout()
	var errs []error
	print := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	if r.New != "" {
		print("generation %d begins: %s", r.Generation, r.New)
	}
	if r.Snapshot != "" {
		print("copied %s", r.Snapshot)
	}
	print("copied %d transactions; generation %d has the history up to %v (%d new bytes)", r.Transactions, r.Generation, r.Zxid, r.Bytes)
	if r.Tail != "" {
		print("the server was writing: the next backup copies what follows (%s)", r.Tail)
	}
	return errors.Join(errs...)
}

// restoreCommand is `pinfold restore`.
func restoreCommand() *cobra.Command {
	var r backup.Restore
	var zxid, at string
	var list bool
	var store storeFlags
	var subtree subtreeFlags
	c := &cobra.Command{
		Use:   "restore STORE [DATADIR]",
		Short: "Make a data directory from a backup, or restore a subtree of a live ensemble",
		Long: `Restore makes the data directory of a server that does not run. It writes the newest
snapshot before the end and the log from there to the end, reads both as a server does,
with every checksum and digest, and only then gives them their names. DATADIR must have no
version-2, or an empty one; other files in it, such as myid, stay.

To restore an ensemble, restore the same to every member before any is started.

With --subtree, and without DATADIR, one znode and all below it are created anew in a live
ensemble of Pinfold or Apache ZooKeeper, as a client. What differs there is printed before
anything is changed, and ends the command unless --overwrite is given. If it is interrupted,
the same command goes on: znodes that are as they should be are left alone. It is not one
transaction. Znodes that the backup does not have are kept. Data, ACLs and kinds of znodes are
restored; versions, zxids and times are new; ephemerals and quotas are left out.`,
		Example: `  pinfold restore /backup/zookeeper /var/lib/zookeeper
  pinfold restore --to-zxid 0x100000017 /backup/zookeeper /var/lib/zookeeper
  pinfold restore --to-time 2026-11-22T02:45:00Z /backup/zookeeper /var/lib/zookeeper
  pinfold restore --to-zxid 0x100000017 --subtree /app --server zk1:2181 --dry-run /backup/zookeeper
  pinfold restore --to-zxid 0x100000017 --subtree /app --server zk1:2181 /backup/zookeeper
  pinfold restore --list /backup/zookeeper
  pinfold restore s3://backups/zookeeper /var/lib/zookeeper`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) (err error) {
			if r.Store, err = store.open(args[0]); err != nil {
				return err
			}
			if list && len(args) == 1 {
				return listBackups(c, r.Store, r.MaxEntry)
			}
			if list || (len(args) == 1) != (subtree.path != "") {
				return errors.New("want a store and a data directory, or a store and --list or --subtree")
			}
			if r.Zxid, r.Time, err = endOf(zxid, at); err != nil {
				return err
			}
			ctx, stop := untilStopped(c.Context())
			defer stop()
			if subtree.path != "" {
				return restoreSubtree(ctx, c, &r, &subtree)
			}
			r.DataDir = args[1]
			if err := r.Run(ctx); err != nil {
				return err
			}
			return printRestored(c, &r.Result)
		},
	}
	p := c.Flags()
	p.StringVar(&zxid, "to-zxid", "", "the last transaction to restore, decimal or 0x... (default the last in the store)")
	p.StringVar(&at, "to-time", "", "restore what was there at this time, as 2026-11-22T02:45:00Z, by the clock of the leader")
	p.StringVar(&r.LogDir, "log-dir", "", "dataLogDir of zoo.cfg, if it is another directory")
	p.IntVar(&r.Generation, "generation", 0, "restore from this generation (default the newest that has the end)")
	p.BoolVar(&list, "list", false, "print what is in the store")
	store.register(c)
	subtree.register(c)
	maxEntryFlag(c, &r.MaxEntry)
	return c
}

// endOf reads the end of a restore.
func endOf(zxid, at string) (z zk.Zxid, t time.Time, err error) {
	if zxid != "" && at != "" {
		return 0, t, errors.New("want one of --to-zxid and --to-time")
	}
	if zxid != "" {
		v, err := strconv.ParseInt(zxid, 0, 64)
		if err != nil || v <= 0 {
			return 0, t, fmt.Errorf("--to-zxid: %q is not a zxid", zxid)
		}
		return zk.Zxid(v), t, nil
	}
	if at != "" {
		if t, err = time.Parse(time.RFC3339, at); err != nil {
			return 0, t, fmt.Errorf("--to-time: %q is not a time as 2026-11-22T02:45:00Z", at)
		}
	}
	return 0, t, nil
}

func printRestored(c *cobra.Command, r *backup.Restored) error {
	when := ""
	if !r.Time.IsZero() {
		when = " of " + r.Time.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for _, name := range r.Damaged {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%s of the store is not used: it is damaged, or leads to a tree that the log contradicts\n", name); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "restored the state of %v%s from generation %d: %s and the log after it; verified, %d digests compared\n",
		r.Zxid, when, r.Generation, r.Snapshot, r.Compared)
	return err
}

func listBackups(c *cobra.Command, s backup.Store, maxEntry int) error {
	generations, err := backup.Describe(c.Context(), s, maxEntry)
	if err != nil {
		return err
	}
	for _, g := range generations {
		until := ""
		if !g.Time.IsZero() {
			until = ", until " + g.Time.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		if _, err := fmt.Fprintf(c.OutOrStdout(), "generation %d: %v to %v%s; %d snapshots, %d bytes\n",
			g.Number, g.Snapshots[0].Zxid, g.Last, until, len(g.Snapshots), g.Bytes); err != nil {
			return err
		}
	}
	return nil
}
