// Pinfold is ZooKeeper in one binary: the server, and the tools around it.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{
		Use:   "pinfold",
		Short: "ZooKeeper in one binary: server and tools",
		Long: `Pinfold speaks ZooKeeper's client protocol and keeps its data directory.

  pinfold server               a standalone server on 127.0.0.1:2181
  pinfold server zoo.cfg       a server as zoo.cfg says
  pinfold ensemble             three servers on this machine, to try an ensemble
  pinfold bench --help         measure any ZooKeeper server`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serverCommand(), ensembleCommand(), benchCommand(), versionCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "pinfold:", err)
		os.Exit(1)
	}
}
