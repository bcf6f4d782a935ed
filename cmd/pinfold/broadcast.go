package main

import (
	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/broadcast"
)

// broadcastCommand is a server that generates its own load. `pinfold bench paper`
// starts it.
func broadcastCommand() *cobra.Command {
	g := &broadcast.Generator{}
	c := &cobra.Command{
		Use:    "broadcast zoo.cfg",
		Short:  "Run a server that submits transactions itself while it leads",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runServer(c.Context(), &serverFlags{file: args[0], logFormat: "text", logLevel: "info"}, g.Run)
		},
	}
	c.Flags().IntVar(&g.Outstanding, "outstanding", 10000, "transactions in flight: proposed and not applied yet")
	c.Flags().IntVar(&g.Size, "size", 1024, "bytes of data of each transaction")
	return c
}
