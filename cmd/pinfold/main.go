// Pinfold is ZooKeeper in one binary: the server, and the tools around it.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/cli"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

// run carries out a command line, and returns the status that the program ends with. An error that
// its command has not printed goes to errs, as a line of JSON if the command's output is JSON.
func run(args []string, errs io.Writer) int {
	root := &cobra.Command{
		Use:   "pinfold",
		Short: "ZooKeeper in one binary: server and tools",
		Long: `Pinfold speaks ZooKeeper's client protocol and keeps its data directory.

  pinfold server               a standalone server on 127.0.0.1:2181
  pinfold server zoo.cfg       a server as zoo.cfg says
  pinfold server --check       would it start with this zoo.cfg, and how safe is it?
  pinfold config explain KEY   what a setting does
  pinfold ensemble             three servers on this machine, to try an ensemble
  pinfold cli                  a shell for the znodes of any server
  pinfold member --help        show and change the members of an ensemble
  pinfold migrate --help       from Apache ZooKeeper to Pinfold, and back
  pinfold backup --help        back up a running server, and restore it
  pinfold data --help          inspect and repair the files of a data directory
  pinfold bench --help         measure any ZooKeeper server`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(serverCommand(), ensembleCommand(), cliCommand(), memberCommand(), migrateCommand(), benchCommand(), dataCommand(), backupCommand(), restoreCommand(), broadcastCommand(), configCommand(), manualCommand(), versionCommand())
	root.SetArgs(args)
	c, err := root.ExecuteC()
	switch {
	case err == nil || cli.Told(err):
	case inJSON(c):
		fmt.Fprintln(errs, cli.ErrorInJSON(err))
	default:
		fmt.Fprintln(errs, "pinfold:", err)
	}
	return cli.ExitStatus(err)
}

// inJSON reports whether a command was asked for JSON by --output.
func inJSON(c *cobra.Command) bool {
	f := c.Flags().Lookup("output")
	return f != nil && f.Value.String() == "json"
}
