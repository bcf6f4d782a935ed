package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/bench"
	"github.com/pinfold-zk/pinfold/internal/bench/report"
)

// benchPaper is `pinfold bench paper`.
func benchPaper(f *benchFlags) *cobra.Command {
	var w bench.Paper
	var systems, hosts []string
	var against string
	c := &cobra.Command{
		Use:   "paper [--against apache] [--quick]",
		Short: "Repeat the evaluation of the ZooKeeper paper, and write a report",
		Long: `Paper runs the experiments of section 5 of the ZooKeeper paper, and further ones, on
servers that it starts on this machine: throughput by share of reads and number of
servers (figure 5, table 1), all clients on the leader (figure 6), atomic broadcast
alone (figure 7; this server only), members that fail (figure 8), synchronous creates
(table 2), double barriers (table 3); then one request at a time, syncs, open loops up
to saturation, a production profile, watch fan-out, many sessions, large trees.

It alternates between this program and the systems that --against and --system name.
It saves the results below --out after every point, and continues there when the
command is repeated after an interrupt. At the end it writes report.html, with all
plots, and the data as CSV and JSON; "--runs 0" only writes the report from existing results. Experiments:
` + strings.Join(bench.Experiments(), ", ") + ".",
		Example: `  pinfold bench paper --quick                         # this server alone, some minutes
  pinfold bench paper --against apache --runs 3       # and Apache ZooKeeper; hours
  pinfold bench paper --against apache --quick --bar-runs 3   # few points, but all bars three times
  pinfold bench paper --against apache --runs 1 --bar-runs 3 --barriers 200 --duration 3s --warmup 1s
  pinfold bench paper --against apache --experiments throughput,creates --sizes 3,5
  pinfold bench paper --system "other=/opt/other/bin/server --config"
  pinfold bench paper --hosts zk1:2181,zk2:2181,zk3:2181 --sizes 3`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if w.Systems, err = paperSystems(against, systems, hosts); err != nil {
				return err
			}
			for i := range w.Systems {
				if err := f.encrypt(&w.Systems[i].TLS); err != nil {
					return err
				}
			}
			w.Duration, w.Warmup, w.Progress = f.options.Duration, f.options.Warmup, c.ErrOrStderr()
			if w.Quick {
				quicken(c, &w)
			}
			return runPaper(c, &w)
		},
	}
	c.Flags().StringVar(&against, "against", "", `also measure "apache": Apache ZooKeeper as scripts/apache-server starts it`)
	c.Flags().StringArrayVar(&systems, "system", nil, "also measure NAME=COMMAND, which runs a server in the foreground; the path of a zoo.cfg is appended")
	c.Flags().StringSliceVar(&hosts, "hosts", nil, "also measure the running service at these host:port; experiments that kill servers skip it")
	c.Flags().IntSliceVar(&w.Sizes, "sizes", []int{1, 3, 5, 7}, "servers of an ensemble")
	c.Flags().IntSliceVar(&w.Barriers, "barriers", []int{200, 400, 800, 1600}, "numbers of double barriers for table 3, one after the other; 1600 with 200 clients takes minutes")
	c.Flags().IntVar(&w.Runs, "runs", 3, "number of runs of each measurement")
	c.Flags().IntVar(&w.BarRuns, "bar-runs", 0, "runs of each measurement that has a target, if more than --runs; --quick then measures all of them")
	c.Flags().BoolVar(&w.Quick, "quick", false, "few points, one run, small trees")
	c.Flags().StringSliceVar(&w.Experiments, "experiments", nil, "what to measure (default all)")
	c.Flags().StringVar(&w.Out, "out", "build/paper", "directory of the report")
	c.Flags().StringVar(&w.Dir, "dir", "build/bench", "directory for the servers' data during the run")
	c.Flags().IntVar(&w.Port, "port", 25181, "client port of the first server; the others' ports follow")
	return c
}

// runPaper runs the experiments, and writes the report.
func runPaper(c *cobra.Command, w *bench.Paper) error {
	ctx, stop := untilStopped(c.Context())
	defer stop()
	run := func() (*bench.PaperData, error) { return w.Run(ctx) }
	if w.Runs == 0 {
		run = func() (*bench.PaperData, error) { return bench.ReadPaper(w.Out) }
	}
	found, err := run()
	if found == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if err = errors.Join(err, report.Write(w.Out, found)); err == nil {
		fmt.Fprintf(c.OutOrStdout(), "the report is in %s\n", filepath.Join(w.Out, "report.html"))
	}
	return err
}

// quicken sets the values of --quick for flags that are not set.
func quicken(c *cobra.Command, w *bench.Paper) {
	for name, set := range map[string]func(){
		"sizes":    func() { w.Sizes = []int{1, 3, 5} },
		"runs":     func() { w.Runs = 1 },
		"duration": func() { w.Duration = 2e9 },
		"warmup":   func() { w.Warmup = 5e8 },
	} {
		if !c.Flags().Changed(name) {
			set()
		}
	}
}

// paperSystems returns the systems to measure. The system to compare with comes first.
func paperSystems(against string, systems, hosts []string) ([]bench.System, error) {
	var list []bench.System
	switch against {
	case "":
	case "apache":
		list = append(list, bench.System{Name: "apache", Command: []string{"scripts/apache-server"}})
	default:
		return nil, fmt.Errorf("--against %s: only apache is known; name another by --system NAME=COMMAND", against)
	}
	more, err := parseSystems(systems)
	if err != nil {
		return nil, err
	}
	if len(hosts) > 0 {
		more = append(more, bench.System{Name: "hosts", Hosts: hosts})
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return append(append(list, more...), bench.System{Name: "pinfold", Command: []string{self, "server"}, Broadcast: []string{self, "broadcast"}}), nil
}
