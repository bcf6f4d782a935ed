package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/recipe"
)

func electCommand() command {
	return command{
		name: "elect", synopsis: holdSynopsis, short: "Run a command while leading",
		long: "Stands for election, runs the command when it is won, and resigns when the command has\nended. Candidates are ephemeral sequential nodes below the path, as recipe.Election and\nCurator's LeaderLatch have them; the data of the first says who leads.\n" +
			fmt.Sprintf(holdLong, "the leadership"),
		examples: `elect /app/leader -- scheduler
elect --data host1:8080 /app/leader -- scheduler   # others read where the leader is
elect -w 1m /app/leader -- migrate`,
		min: 2, max: -1, raw: true, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			var o holdOptions
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
	lead, err := recipe.NewElection(c, path, recipe.HolderData(o.holderData())).Campaign(wait)
	if err != nil {
		return s.notHeld(err)
	}
	return s.runHolding(ctx, holding{
		what: "the leadership", path: lead.Path(), token: lead.Epoch(), lost: lead.Lost(), release: lead.Resign,
	}, words, o.grace)
}
