package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/recipe"
)

// electExcludes says which clients --names makes one election of.
const electExcludes = `
--names says which candidates belong to the same election, beside every 'pinfold cli
elect' and recipe.Election with the same names:
  curator    Curator's LeaderLatch (the default)
  selector   Curator's LeaderSelector
  kazoo      kazoo's Election
  zookeeper  clients that follow ZooKeeper's recipes page (znodes GUID-n_NUMBER)
No names make one election of candidates of two of these.
`

func electCommand() command {
	return command{
		name: "elect", synopsis: holdSynopsis, short: "Run a command while leading",
		long: "Becomes a candidate, runs the command when it leads, and resigns when the command has\nended. Candidates are ephemeral sequential znodes below the path; the one with the\nsmallest number leads, and its data identifies the leader.\n" +
			electExcludes + fmt.Sprintf(holdLong, "the leadership"),
		examples: `elect /app/leader -- scheduler
elect --data host1:8080 /app/leader -- scheduler   # other clients read the leader's address
elect --names kazoo /app/leader -- scheduler       # with zk.Election("/app/leader") of Python's kazoo
elect -w 1m /app/leader -- migrate`,
		min: 2, max: -1, raw: true, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			o := holdOptions{names: electNames()}
			o.declare(f)
			return func(ctx context.Context, s *shell, args []string) error {
				words, err := commandOf(args)
				if err != nil {
					return err
				}
				return s.elect(ctx, args[0], words, o)
			}
		},
	}
}

func (s *shell) elect(ctx context.Context, path string, words []string, o holdOptions) error {
	c, err := s.client(ctx)
	if err != nil {
		return s.notHeld(err)
	}
	wait, cancel := o.waiting(ctx)
	defer cancel()
	lead, err := recipe.NewElection(c, path, o.lockOptions()...).Campaign(wait)
	if err != nil {
		return s.notHeld(o.names.refused(err))
	}
	return s.runHolding(ctx, holding{
		what: "the leadership", path: lead.Path(), token: lead.Epoch(), lost: lead.Lost(), release: lead.Resign,
	}, words, o.grace)
}
