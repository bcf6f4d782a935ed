package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/alone"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

func memberRecover(f *memberFlags) *cobra.Command {
	var lost []int64
	var id string
	c := &cobra.Command{
		Use:   "recover --lost ID,… ZOO.CFG",
		Short: "Make a server the only member, when the majority is lost for ever",
		Long: `Recover is for the machine of a server that is left, and that does not run. It asks no
ensemble: so many voters are lost for ever that the others can have no leader. --lost says
which; it is your statement, and what those servers alone had acknowledged is lost.

The server becomes the only member of its ensemble. Start it, and add the others with
pinfold member add. The command refuses if the servers that are not lost are a majority,
or if one that is said to be lost answers.`,
		Example: `  pinfold member recover --dry-run --lost 2,3 /etc/zookeeper/conf/zoo.cfg
  pinfold member recover --lost 2,3 /etc/zookeeper/conf/zoo.cfg`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.output != "text" && f.output != "json" {
				return fmt.Errorf("--output %q: must be text or json", f.output)
			}
			if err := canConfirm(c, f.o); err != nil {
				return err
			}
			source := config.Source{File: args[0], Environ: config.ReadEnvironment(), Settings: map[string]string{}}
			if id != "" {
				number, err := serverID(id, os.Hostname)
				if err != nil {
					return err
				}
				source.ID = &number
			}
			cfg, _, err := source.Load()
			if err != nil {
				return err
			}
			s, err := alone.Open(cfg)
			if errors.Is(err, vfs.ErrLocked) {
				return fmt.Errorf("the server runs: stop it first: %w", err)
			}
			if err != nil {
				return err
			}
			slices.Sort(lost)
			p, err := s.Plan(c.Context(), slices.Compact(lost), alone.Dial)
			if err == nil {
				out := &plan.Printer{Out: c.OutOrStdout(), JSON: f.output == "json"}
				err = p.Run(c.Context(), f.o, out, confirm(c))
			}
			return errors.Join(err, s.Close())
		},
	}
	c.Flags().Int64SliceVar(&lost, "lost", nil, "numbers of the members that are lost for ever")
	c.Flags().StringVar(&id, "id", "", "as of pinfold server")
	c.Flags().BoolVarP(&f.o.Yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&f.o.DryRun, "dry-run", false, "only show the plan")
	if err := c.MarkFlagRequired("lost"); err != nil {
		panic(err) // there is no such flag
	}
	return c
}
