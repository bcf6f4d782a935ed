package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// memberFlags are those of all commands of `pinfold member`. internal/member does the work.
type memberFlags struct {
	operatorFlags
	clientPort int
	o          plan.Options
}

func memberCommand() *cobra.Command {
	f := &memberFlags{}
	c := &cobra.Command{
		Use:   "member",
		Short: "Show and change the members of an ensemble while it serves",
		Long: `Member shows and changes the members of an ensemble of Pinfold or Apache ZooKeeper 3.5
or later. A command first shows its plan: what it has checked and what it will do, step by
step. It refuses what would stop the ensemble, and says what to do instead; then nothing
was changed. It may be interrupted, and run again.

The servers need reconfigEnabled=true, and the command the right to write
/zookeeper/config, which the superuser has.`,
		Example: `  pinfold member list --server zk1:2181
  pinfold member add --auth-file super 4=zk4:2888:3888;2181
  pinfold member replace --auth-file super 2 5=zk5:2888:3888;2181
  pinfold member remove --auth-file super --dry-run 3`,
	}
	f.register(c.PersistentFlags())
	c.AddCommand(memberList(f), memberAdd(f), memberByID(f, "remove ID", "Take a member out of the ensemble"),
		memberByID(f, "promote ID", "Give an observer a vote"), memberByID(f, "demote ID", "Make a participant an observer"),
		memberReplace(f), memberMoveLeader(f), memberRecover(f))
	return c
}

func (f *memberFlags) register(p *pflag.FlagSet) {
	f.connect.RegisterOnly(p, "server")
	f.operatorFlags.register(p)
	p.IntVar(&f.clientPort, "client-port", 0, "client port of members whose server lines have none")
}

// registerChange declares the flags of a command that changes something.
func (f *memberFlags) registerChange(p *pflag.FlagSet) {
	p.BoolVarP(&f.o.Yes, "yes", "y", false, "do not ask")
	p.BoolVar(&f.o.DryRun, "dry-run", false, "only show the plan")
	p.DurationVar(&f.o.Wait, "wait", 5*time.Minute, "how long each step may take")
}

func memberList(f *memberFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the members, and what each of them does",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.with(c, func(ctx context.Context, e *member.Live, out *plan.Printer) error {
				return member.List(ctx, e, out)
			})
		},
	}
}

func memberAdd(f *memberFlags) *cobra.Command {
	observer := false
	c := &cobra.Command{
		Use:   "add LINE",
		Short: "Make a server that follows already a member",
		Long: `Add makes a server a member: a participant, or with --observer one without a vote. LINE
is its server line, as in zoo.cfg. The server must run and follow already: without it, the
command says how to start it.`,
		Example: "  pinfold member add 4=zk4:2888:3888;2181",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			m, err := client.ParseMember(args[0])
			if err != nil {
				return err
			}
			if observer {
				m = m.WithRole(true)
			}
			return f.change(c, member.Command{Name: "add", ID: m.ID, New: m})
		},
	}
	c.Flags().BoolVar(&observer, "observer", false, "without a vote")
	f.registerChange(c.Flags())
	return c
}

// memberByID is a command whose only argument is the number of a member.
func memberByID(f *memberFlags, use, short string) *cobra.Command {
	name, _, _ := strings.Cut(use, " ")
	c := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: "  pinfold member " + name + " 3",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := memberID(args[0])
			if err != nil {
				return err
			}
			return f.change(c, member.Command{Name: name, ID: id})
		},
	}
	f.registerChange(c.Flags())
	return c
}

func memberReplace(f *memberFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "replace ID LINE",
		Short: "Put another server in the place of a member, which may be down",
		Long: `Replace makes the new server an observer, waits until it has all data, and puts it in the
place of the member in one transaction: the number of votes is never less.`,
		Example: "  pinfold member replace 2 5=zk5:2888:3888;2181",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := memberID(args[0])
			if err != nil {
				return err
			}
			m, err := client.ParseMember(args[1])
			if err != nil {
				return err
			}
			return f.change(c, member.Command{Name: "replace", ID: id, New: m})
		},
	}
	f.registerChange(c.Flags())
	return c
}

func memberMoveLeader(f *memberFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "move-leader",
		Short: "Have another member lead",
		Long: `Move-leader has the leader leave, before maintenance for example; the others elect one of
them. With --admin-port the leader of Pinfold's hands over. Without, and with Apache
ZooKeeper, it becomes an observer and then a participant again, by two changes of the
configuration; if the command is interrupted in between, give it its vote back by
pinfold member promote.`,
		Example: `  pinfold member move-leader --admin-port 8080
  pinfold member move-leader --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.change(c, member.Command{Name: "move-leader"})
		},
	}
	f.registerChange(c.Flags())
	return c
}

func memberID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 0 {
		return 0, fmt.Errorf("%q is not the number of a member; pinfold member list shows them", text)
	}
	return id, nil
}

// change carries a command out.
func (f *memberFlags) change(c *cobra.Command, do member.Command) error {
	return f.with(c, func(ctx context.Context, e *member.Live, out *plan.Printer) error {
		if err := canConfirm(c, f.o); err != nil {
			return err
		}
		return member.Run(ctx, e, do, f.o, out, confirm(c))
	})
}

// with connects to the ensemble, and runs a command on it.
func (f *memberFlags) with(c *cobra.Command, run func(context.Context, *member.Live, *plan.Printer) error, opts ...client.Option) error {
	ctx, stop := untilStopped(c.Context())
	defer stop()
	live, out, err := f.begin(c)
	if err != nil {
		return err
	}
	live.ClientPort = f.clientPort
	if live.Client, err = f.connect.Dial(ctx, f.connect.Servers, append(opts, client.NewSession())...); err != nil {
		return err
	}
	live.Dial = func(ctx context.Context, server string) (*client.Client, error) { return f.connect.Dial(ctx, server) }
	return errors.Join(run(ctx, live, out), live.Client.Close())
}
