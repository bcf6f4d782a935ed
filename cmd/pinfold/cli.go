package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/internal/server"
)

// cliCommand is `pinfold cli`. internal/cli does the work, and also reads the options:
// those of zkCli.sh have one dash.
func cliCommand() *cobra.Command {
	var o cli.Options
	c := &cobra.Command{
		Use:   "cli [options] [command]",
		Short: "Work with the znodes of any ZooKeeper ensemble: zkCli.sh and more",
		Long: `Cli runs one command, or the commands on its input, or, on a terminal, an
interactive shell. It has the commands and options of zkCli.sh, and more.

Exit status: 0 success, 1 a command failed, 2 a command is not valid,
3 no connection.`,
		Example: `  pinfold cli                                     # a shell, on localhost:2181
  pinfold cli --server zk1:2181,zk2:2181/app ls /
  pinfold cli -server zk1:2181 get -s /config     # as for zkCli.sh
  pinfold cli --output json ls -s / | jq .children
  pinfold cli --auth-file mine get /private       # a line digest:me:password
  pinfold cli < commands.txt

Commands (COMMAND --help describes one):
` + cli.Help(),
		DisableFlagParsing:    true,
		DisableFlagsInUseLine: true,
	}
	o.Register(c.Flags())
	c.RunE = func(c *cobra.Command, words []string) error {
		args, err := cli.Arguments(c.Flags(), words)
		if err != nil {
			return err
		}
		if help, err := c.Flags().GetBool("help"); err == nil && help {
			return c.Help()
		}
		o.Version = server.Version + " (pinfold " + buildVersion() + ")"
		o.Args, o.In, o.Out, o.Err = args, os.Stdin, os.Stdout, os.Stderr
		o.JVMFlags = os.Getenv("CLIENT_JVMFLAGS") + " " + os.Getenv("JVMFLAGS") // in zkCli.sh's order
		return cli.Run(c.Context(), o)
	}
	c.ValidArgsFunction = func(c *cobra.Command, words []string, begun string) ([]string, cobra.ShellCompDirective) {
		args, err := cli.Arguments(c.Flags(), words)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found := cli.Complete(c.Context(), o, args, begun)
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(found) == 1 && strings.HasPrefix(found[0], "/") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
	return c
}
