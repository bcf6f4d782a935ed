package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/internal/server"
)

// cliCommand is `pinfold cli`. The work is done by internal/cli, which also
// reads the options: those of zkCli.sh have one dash.
func cliCommand() *cobra.Command {
	var o cli.Options
	c := &cobra.Command{
		Use:   "cli [options] [command]",
		Short: "Work with the znodes of any ZooKeeper ensemble: zkCli.sh and more",
		Long: `Cli runs one command, or those that come on its input, or, on a terminal, an
interactive shell. Commands are those of zkCli.sh, with its options, and more.

Exit status: 0 done, 1 a command failed, 2 not a command as it should be,
3 no connection.`,
		Example: `  pinfold cli                                     # a shell, on localhost:2181
  pinfold cli --server zk1:2181,zk2:2181/app ls /
  pinfold cli -server zk1:2181 get -s /config     # as zkCli.sh has it
  pinfold cli --output json ls -s / | jq .children
  pinfold cli -c 'addauth digest me:secret; get /private'
  pinfold cli < commands.txt

Commands (COMMAND --help says more of one):
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
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		context.AfterFunc(ctx, stop) // a second interrupt does not wait for the tidying up
		o.Version = server.Version + " (pinfold " + buildVersion() + ")"
		o.Args, o.In, o.Out, o.Err = args, os.Stdin, os.Stdout, os.Stderr
		return cli.Run(ctx, o)
	}
	return c
}
