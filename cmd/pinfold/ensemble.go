package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/trial"
)

// stopWithin is the time for a server of `pinfold ensemble` to stop before it is
// killed.
const stopWithin = 15 * time.Second

func ensembleCommand() *cobra.Command {
	e := trial.Ensemble{StopWithin: stopWithin}
	cmd := &cobra.Command{
		Use:   "ensemble [flags] [-- -Dname=value ...]",
		Short: "Run a trial ensemble on this machine",
		Long: `Run a trial ensemble on this machine. Each server is a process of its own, on
127.0.0.1 only. The command prints the connect string and the leader, then
reports each new leader and each server that ends. Ctrl-C stops all servers. The
data stays in --dir, and the next start continues with it.

Server N keeps its files in DIR/N: zoo.cfg (written at each start), data and log
(its output). Its client port is --base-port + N - 1; its quorum and election
ports are 100 and 200 higher. Arguments after -- are passed to every server.`,
		Example: `  pinfold ensemble
  pinfold ensemble --servers 5 --observers 1 --dir /tmp/five --base-port 3181
  pinfold ensemble -- -Dzookeeper.extendedTypesEnabled=true

  kill -9 $(cat pinfold-ensemble/3/pid)          # kill a server, see who leads
  pinfold server pinfold-ensemble/3/zoo.cfg      # start it again by hand`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return fmt.Errorf("ensemble: unknown argument %q; arguments for the servers come after --", args[0])
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
			var err error
			if e.Executable, err = os.Executable(); err != nil {
				return fmt.Errorf("ensemble: %w", err)
			}
			e.ServerArgs, e.Out = args, cmd.OutOrStdout()
			return e.Run(ctx)
		},
	}
	f := cmd.Flags()
	f.IntVar(&e.Participants, "servers", 3, "number of participants (members with a vote)")
	f.IntVar(&e.Observers, "observers", 0, "number of observers (members without a vote)")
	f.StringVar(&e.Dir, "dir", "pinfold-ensemble", "data directory; created if missing")
	f.IntVar(&e.BasePort, "base-port", 2181, "client port of server 1")
	return cmd
}
