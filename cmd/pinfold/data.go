package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// dataCommand is `pinfold data`, the tools for the files of a data directory. This file has
// the flags; internal/history does the work.
func dataCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Inspect, verify and repair the files of a data directory",
		Long: `Data works on the files of a data directory, of Pinfold or of Apache ZooKeeper, while no
server uses them, or on copies. It changes no file that it reads, but for purge, which is for
directories in use too. log, snapshot,
summary and compare have the options and the output of Apache's zkTxnLogToolkit.sh,
zkSnapShotToolkit.sh, zkSnapshotRecursiveSummaryToolkit.sh and zkSnapshotComparer.sh;
times are in UTC, and children come in the order of their names.

Exit status: 0 success, 1 damage or a difference was found, or the command failed.`,
		Example: `  pinfold data verify /var/lib/zookeeper
  pinfold data log -o json --path /app --since 2026-11-22T02:00:00Z /var/lib/zookeeper
  pinfold data snapshot /var/lib/zookeeper/version-2/snapshot.100000002
  pinfold data summary /var/lib/zookeeper/version-2/snapshot.100000002 / 2
  pinfold data compare snapshot.100000002 snapshot.100000040
  pinfold data chop log.100000001 0x100000017
  pinfold data recover log.100000001`,
	}
	c.AddCommand(dataVerify(), dataLog(), dataSnapshot(), dataSummary(), dataCompare(), dataChop(), dataRecover(), dataPurge())
	return c
}

// maxEntryFlag is for files of servers with a larger jute.maxbuffer.
func maxEntryFlag(c *cobra.Command, to *int) {
	c.Flags().IntVar(to, "max-transaction", storage.DefaultMaxEntryBytes,
		"length of the longest transaction in bytes: jute.maxbuffer of the server, twice")
}

func dataVerify() *cobra.Command {
	var v history.Verification
	var logDir string
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read everything: checksums, digests, gaps; say what is lost",
		Long: `Verify reads every snapshot and every transaction, replays the log over the snapshots,
and compares the digests. It says which transactions are lost, and which earlier states
cannot be restored any more. DIR is dataDir of zoo.cfg. While a server writes, the end of
the log may look damaged: verify a copy then.`,
		Example: `  pinfold data verify /var/lib/zookeeper
  pinfold data verify --log-dir /log/zookeeper /var/lib/zookeeper`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v.Out = c.OutOrStdout()
			return v.Verify(args[0], logDir)
		},
	}
	c.Flags().StringVar(&logDir, "log-dir", "", "dataLogDir of zoo.cfg, if it is another directory")
	maxEntryFlag(c, &v.MaxEntry)
	return c
}

// filterFlags are the flags of a filter, as text.
type filterFlags struct{ path, session, from, to, since, before string }

// register adds the flags; the texts say what each selects.
func (f *filterFlags) register(c *cobra.Command, path, session, bounds string) {
	p := c.Flags()
	p.StringVar(&f.path, "path", "", path)
	p.StringVar(&f.session, "session", "", session)
	p.StringVar(&f.from, "from", "", "from this zxid on, decimal or 0x..."+bounds)
	p.StringVar(&f.to, "to", "", "up to this zxid")
	p.StringVar(&f.since, "since", "", "from this time on, as 2026-11-22T02:00:00Z")
	p.StringVar(&f.before, "before", "", "before this time")
}

func (f *filterFlags) filter() (h history.Filter, err error) {
	h.Path = f.path
	for _, n := range []struct {
		flag, text string
		set        func(uint64)
	}{
		{"--session", f.session, func(v uint64) { h.Session = zk.SessionID(v) }},
		{"--from", f.from, func(v uint64) { h.From = zk.Zxid(v) }},
		{"--to", f.to, func(v uint64) { h.To = zk.Zxid(v) }},
	} {
		if n.text == "" {
			continue
		}
		v, err := strconv.ParseUint(n.text, 0, 64)
		if err != nil {
			return h, fmt.Errorf("%s: %q is not a number", n.flag, n.text)
		}
		n.set(v)
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--since", f.since, &h.Since}, {"--before", f.before, &h.Before}} {
		if t.text == "" {
			continue
		}
		if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
			return h, fmt.Errorf("%s: %q is not a time as 2026-11-22T02:00:00Z", t.flag, t.text)
		}
	}
	return h, nil
}

// logFlags are the flags of `pinfold data log`: those of TxnLogToolkit and our own.
type logFlags struct {
	filter                            filterFlags
	output, zxid                      string
	dump, recover, chop, yes, verbose bool
	maxEntry                          int
}

func dataLog() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "log FILE|DIR ...",
		Short: "Print transactions; with -r or -c, repair or cut a log file",
		Long: `Log prints the transactions of log files; of a directory, those of all its log files in
order. A transaction with a wrong checksum is printed and marked. Without -o json the
output is that of Apache's zkTxnLogToolkit.sh, whose options -d, -r, -y, -v, -c and -z it
has.`,
		Example: `  pinfold data log /var/lib/zookeeper/version-2/log.100000001
  pinfold data log -o json --path /app --session 0x1000022aa080000 /var/lib/zookeeper
  pinfold data log --from 0x100000010 --to 0x100000017 log.100000001
  pinfold data log -r -y log.100000001            # as pinfold data recover --yes
  pinfold data log -c -z 0x100000017 log.100000001`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	p := c.Flags()
	p.StringVarP(&f.output, "output", "o", "apache", "apache or json: a line for each transaction")
	p.BoolVarP(&f.dump, "dump", "d", false, "print (the default)")
	p.BoolVarP(&f.recover, "recover", "r", false, "write FILE.fixed, with right checksums for damaged transactions")
	p.BoolVarP(&f.yes, "yes", "y", false, "with -r: ask nothing")
	p.BoolVarP(&f.verbose, "verbose", "v", false, "with -r: print all transactions, not only damaged ones")
	p.BoolVarP(&f.chop, "chop", "c", false, "write FILE.choppedN with the transactions up to -z")
	p.StringVarP(&f.zxid, "zxid", "z", "", "with -c: the last zxid to keep")
	f.filter.register(c, "only transactions that touch this znode or one below it", "only transactions of this session, 0x...", "")
	maxEntryFlag(c, &f.maxEntry)
	return c
}

func (f *logFlags) run(c *cobra.Command, args []string) error {
	if f.output != "apache" && f.output != "json" {
		return fmt.Errorf("-o %s: want apache or json", f.output)
	}
	switch {
	case (f.recover || f.chop) && len(args) > 1:
		return errors.New("-r and -c take one file")
	case f.recover:
		return recoverLog(c, args[0], f.yes, f.verbose, f.maxEntry)
	case f.chop && f.zxid == "":
		return errors.New("-c needs -z: the last zxid to keep")
	case f.chop:
		return chopLog(c, args[0], "", f.zxid, f.maxEntry)
	}
	filter, err := f.filter.filter()
	if err != nil {
		return err
	}
	p := history.LogPrinter{Out: c.OutOrStdout(), JSON: f.output == "json", Filter: filter, MaxEntry: f.maxEntry}
	var errs []error
	for _, arg := range args {
		files, err := logsOf(arg)
		errs = append(errs, err)
		for _, file := range files {
			errs = append(errs, p.Print(file))
		}
	}
	return errors.Join(errs...)
}

// logsOf returns the log files that an argument names: itself, or those in a data
// directory, or in its version-2.
func logsOf(name string) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	if filepath.Base(filepath.Clean(name)) == "version-2" {
		name = filepath.Dir(filepath.Clean(name))
	}
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: name})
	if err != nil {
		return nil, err
	}
	logs, err := d.Logs()
	if err == nil && len(logs) == 0 {
		err = fmt.Errorf("%s has no log file: %w", name, fs.ErrNotExist)
	}
	names := make([]string, len(logs))
	for i, l := range logs {
		names[i] = l.Name
	}
	return names, err
}

func dataRecover() *cobra.Command {
	var yes, verbose bool
	var maxEntry int
	c := &cobra.Command{
		Use:   "recover FILE",
		Short: "Copy a log file, with right checksums for damaged transactions",
		Long: `Recover writes FILE.fixed, in which every transaction has a right checksum. A server reads
it again, but a damaged transaction stays what the damage has made of it: its data may be
wrong. It asks for each one. A member of an ensemble needs this only if a majority of the
members is damaged: otherwise start it, and it heals itself with the state of its leader.
Do not empty its directory: it may then vote without what it has acknowledged.`,
		Example: `  pinfold data recover log.100000001
  pinfold data recover --yes log.100000001`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return recoverLog(c, args[0], yes, verbose, maxEntry) },
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "ask nothing")
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all transactions, not only damaged ones")
	maxEntryFlag(c, &maxEntry)
	return c
}

func recoverLog(c *cobra.Command, name string, yes, verbose bool, maxEntry int) error {
	r := history.Recovery{Out: c.OutOrStdout(), In: c.InOrStdin(), Yes: yes, Verbose: verbose, MaxEntry: maxEntry}
	return r.Run(name)
}

func dataChop() *cobra.Command {
	var to string
	var maxEntry int
	c := &cobra.Command{
		Use:   "chop FILE ZXID",
		Short: "Copy a log file up to a zxid",
		Long: `Chop writes FILE.choppedN, N being the zxid in decimal, with the transactions up to
ZXID, which must be in the file. The copy takes the place of FILE; later log files and
later snapshots have to be removed then, and so has the file synced beside the log.
pinfold restore does all of that from a backup.`,
		Example: `  pinfold data chop log.100000001 0x100000017
  pinfold data chop --to log.new log.100000001 4294967319`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return chopLog(c, args[0], to, args[1], maxEntry) },
	}
	c.Flags().StringVar(&to, "to", "", "file to write, which must not exist")
	maxEntryFlag(c, &maxEntry)
	return c
}

func chopLog(c *cobra.Command, name, to, zxid string, maxEntry int) error {
	last, err := strconv.ParseInt(zxid, 0, 64)
	if err != nil || last <= 0 {
		return fmt.Errorf("%q is not a zxid: want a decimal number, or 0x and a hexadecimal one", zxid)
	}
	if to == "" {
		to = fmt.Sprintf("%s.chopped%d", name, last)
	}
	return history.Chop(c.OutOrStdout(), name, to, zk.Zxid(last), maxEntry)
}

func dataSnapshot() *cobra.Command {
	var data, apacheJSON bool
	var output string
	var flags filterFlags
	var maxEntry int
	c := &cobra.Command{
		Use:   "snapshot [-d|-json] FILE",
		Short: "Print the znodes and sessions of a snapshot",
		Long: `Snapshot prints a snapshot file, compressed or not, after checking it to its end. Its
output is that of Apache's zkSnapShotToolkit.sh: with -d it has the data, with -json the
sizes as the program ncdu reads them. With -o json it prints a line for each znode, with
everything that the snapshot has of it. --path to --before select znodes in both forms: by the
session that owns them, and by zxid and time of the last change of their data.`,
		Example: `  pinfold data snapshot snapshot.100000002
  pinfold data snapshot -d snapshot.100000002
  pinfold data snapshot -json snapshot.100000002 > sizes.json
  pinfold data snapshot -o json --path /app snapshot.100000002.gz
  pinfold data snapshot --session 0x1000022aa080000 snapshot.100000002`,
		DisableFlagParsing: true, // -json does not have the form of other flags
	}
	p := c.Flags()
	p.BoolVarP(&data, "data", "d", false, "print the data, in base64")
	p.BoolVar(&apacheJSON, "json", false, "print the sizes for ncdu; also as -json")
	p.StringVarP(&output, "output", "o", "apache", "apache or json: a line for each znode")
	flags.register(c, "only this znode and those below it", "only ephemerals of this session, 0x...", ": the mzxid")
	maxEntryFlag(c, &maxEntry)
	c.RunE = func(c *cobra.Command, words []string) error {
		name, help, err := snapshotArguments(c, words)
		switch {
		case err != nil:
			return err
		case help:
			return c.Help()
		case data && apacheJSON:
			return errors.New("cannot specify both data dump (-d) and json mode (-json) in same call")
		case output != "apache" && output != "json":
			return fmt.Errorf("-o %s: want apache or json", output)
		case apacheJSON && flags != (filterFlags{}):
			return errors.New("-json has the sizes of all znodes: use -o json to select some")
		}
		filter, err := flags.filter()
		if err != nil {
			return err
		}
		s, err := history.ReadSnapshot(name, maxEntry)
		switch {
		case err != nil:
			return err
		case output == "json":
			return s.PrintJSON(c.OutOrStdout(), filter)
		case apacheJSON:
			return s.PrintApacheJSON(c.OutOrStdout(), time.Now())
		}
		return s.PrintApache(c.OutOrStdout(), data, filter)
	}
	return c
}

// snapshotArguments parses the flags, of which -json is Apache's.
func snapshotArguments(c *cobra.Command, words []string) (name string, help bool, err error) {
	c.InitDefaultHelpFlag()
	for i, w := range words {
		if w == "-json" {
			words[i] = "--json"
		}
	}
	if err := c.Flags().Parse(words); err != nil {
		return "", false, err
	}
	if help, err = c.Flags().GetBool("help"); help || err != nil {
		return "", help, err
	}
	if c.Flags().NArg() != 1 {
		return "", false, errors.New("want one snapshot file; see pinfold data snapshot --help")
	}
	return c.Flags().Arg(0), false, nil
}

func dataSummary() *cobra.Command {
	var maxEntry int
	c := &cobra.Command{
		Use:   "summary FILE [PATH [DEPTH]]",
		Short: "Count znodes and bytes by subtree of a snapshot",
		Long: strings.TrimSpace(`
Summary prints, for PATH and each znode below that has children, the number of its
descendants, and the bytes of data that they and it have. DEPTH is how deep it prints, 0
for no bound. The output is that of Apache's zkSnapshotRecursiveSummaryToolkit.sh.`),
		Example: `  pinfold data summary snapshot.100000002
  pinfold data summary snapshot.100000002 /app 2`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(c *cobra.Command, args []string) error {
			args = append(args, []string{"", "/", "0"}[len(args):]...)
			depth, err := strconv.Atoi(args[2])
			if err != nil {
				return fmt.Errorf("the depth %q is not a number", args[2])
			}
			s, err := history.ReadSnapshot(args[0], maxEntry)
			if err != nil {
				return err
			}
			return s.PrintSummary(c.OutOrStdout(), args[1], depth)
		},
	}
	maxEntryFlag(c, &maxEntry)
	return c
}

func dataCompare() *cobra.Command {
	var apache history.ApacheComparison
	var left, right string
	var interactive bool
	c := &cobra.Command{
		Use:   "compare LEFT RIGHT",
		Short: "Print in what two snapshots differ",
		Long: `Compare prints a line for each znode in which two snapshot files differ: "-" and "+" for one
that only LEFT or only RIGHT has, "~" and the fields that differ for one that both have. The
exit status is 1 if there is any. With -l, -r, -b and -n it compares the sizes of subtrees,
as Apache's zkSnapshotComparer.sh; with -i it asks which depth or which subtree to compare.
pinfold cli diff compares servers.`,
		Example: `  pinfold data compare snapshot.100000002 snapshot.100000040
  pinfold data compare -l snapshot.100000002 -r snapshot.100000040 -b 100 -n 10`,
		Args: cobra.MaximumNArgs(2),
	}
	p := c.Flags()
	p.StringVarP(&left, "left", "l", "", "the left snapshot")
	p.StringVarP(&right, "right", "r", "", "the right snapshot")
	p.Int64VarP(&apache.Bytes, "bytes", "b", 0, "print subtrees that differ by more bytes of data")
	p.Int64VarP(&apache.Znodes, "nodes", "n", 0, "or by more znodes")
	p.BoolVarP(&apache.Debug, "debug", "d", false, "print what is compared and left out")
	p.BoolVarP(&interactive, "interactive", "i", false, "with -l, -r, -b and -n: ask which depth or which subtree to compare")
	c.RunE = func(c *cobra.Command, args []string) error {
		apache.Out = c.OutOrStdout()
		if interactive {
			apache.In = c.InOrStdin()
		}
		switch {
		case left != "" && right != "" && len(args) == 0 && p.Changed("bytes") && p.Changed("nodes"):
			return apache.Run(left, right)
		case left != "" || right != "" || interactive || len(args) != 2:
			return errors.New("want two snapshot files, or all of -l, -r, -b and -n")
		}
		l, err := history.ReadSnapshot(args[0], 0)
		if err != nil {
			return err
		}
		r, err := history.ReadSnapshot(args[1], 0)
		if err != nil {
			return err
		}
		return history.Compare(apache.Out, l, r)
	}
	return c
}
