package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// benchCommand is `pinfold bench`: the load generator. The work is done by
// internal/bench; here are the flags.
func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure a ZooKeeper server",
		Long: `Bench applies a load to any ZooKeeper server, and measures rates, latencies and
(with --pids, for servers on this machine) what the server spends on it. The
generator is meant to cost far less than the server; both costs are printed.`,
		Example: `  pinfold bench mix --servers 127.0.0.1:2181 --read-ratio 0.8 --pids $(pgrep -f QuorumPeerMain)
  pinfold bench mix --connections 120 --outstanding 1
  pinfold bench mix --rate 20000            # an open loop: latency from the scheduled time
  pinfold bench create --workers 1 --size 1024
  pinfold bench fill --count 1000000 --size 100
  pinfold bench watch --watchers 200
  pinfold bench idle --sessions 10000 --pids 4711`,
	}
	var f benchFlags
	f.register(c)
	c.AddCommand(benchMix(&f), benchCreate(&f), benchFill(&f))
	return c
}

// benchFlags are those that all workloads take.
type benchFlags struct {
	options bench.Options
	json    string
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
	p.DurationVar(&o.SessionTimeout, "session-timeout", 30*time.Second, "session timeout to ask for")
	p.IntVar(&o.Loops, "loops", 0, "goroutines that drive connections (0: half the processors)")
	p.StringVar(&f.json, "json", "", "also write everything to this file")
	p.BoolVarP(&f.quiet, "quiet", "q", false, "no progress lines")
}

// A benchWorkload is one of internal/bench's.
type benchWorkload interface {
	Run(ctx context.Context) (*bench.Result, error)
}

// run applies a workload that is made after the flags are read. An interrupt
// ends it early, and what was measured is printed all the same.
func (f *benchFlags) run(workload func(o bench.Options) benchWorkload) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if !f.quiet {
			f.options.Progress = c.ErrOrStderr()
		}
		res, err := workload(f.options).Run(ctx)
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		if res == nil {
			return err
		}
		err = errors.Join(err, res.Print(c.OutOrStdout()))
		if f.json != "" {
			err = errors.Join(err, res.WriteJSON(f.json))
		}
		if n := res.ErrorCount(); n > 0 {
			err = errors.Join(err, fmt.Errorf("the server refused %d operations", n))
		}
		return err
	}
}

func benchMix(f *benchFlags) *cobra.Command {
	var w bench.Mix
	c := &cobra.Command{
		Use:   "mix",
		Short: "Read and write znodes chosen at random",
		Args:  cobra.NoArgs,
		RunE: f.run(func(o bench.Options) benchWorkload {
			w.Options = o
			return w
		}),
	}
	c.Flags().IntVar(&w.Connections, "connections", 20, "number of sessions")
	c.Flags().IntVar(&w.Outstanding, "outstanding", 100, "requests under way on each")
	c.Flags().Float64Var(&w.ReadRatio, "read-ratio", 1, "share of reads, 0 to 1")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of a value")
	c.Flags().IntVar(&w.Keys, "keys", 1000, "number of znodes")
	c.Flags().Float64Var(&w.Rate, "rate", 0,
		"requests per second in all, by schedule; latency counts from the scheduled time (0: as fast as replies come)")
	return c
}

func benchCreate(f *benchFlags) *cobra.Command {
	var w bench.Create
	c := &cobra.Command{
		Use:   "create",
		Short: "Create synchronously, delete asynchronously (the paper's section 5.2)",
		Args:  cobra.NoArgs,
		RunE: f.run(func(o bench.Options) benchWorkload {
			w.Options = o
			return w
		}),
	}
	c.Flags().IntVar(&w.Workers, "workers", 1, "number of sessions")
	c.Flags().IntVar(&w.Size, "size", 1024, "bytes of a value")
	return c
}

func benchFill(f *benchFlags) *cobra.Command {
	var w bench.Fill
	c := &cobra.Command{
		Use:   "fill",
		Short: "Create many znodes and leave them there",
		Args:  cobra.NoArgs,
		RunE: f.run(func(o bench.Options) benchWorkload {
			w.Options = o
			return w
		}),
	}
	c.Flags().IntVar(&w.Connections, "connections", 8, "number of sessions")
	c.Flags().IntVar(&w.Outstanding, "outstanding", 200, "requests under way on each")
	c.Flags().StringVar(&w.Path, "path", "/pinfold-fill", "znode below which they are")
	c.Flags().IntVar(&w.Count, "count", 1000000, "number of znodes")
	c.Flags().IntVar(&w.Size, "size", 100, "bytes of a value")
	c.Flags().IntVar(&w.Parents, "parents", 1, "number of znodes between path and them, if more than 1")
	c.Flags().BoolVar(&w.Delete, "delete", false, "remove what an equal fill has created")
	return c
}
