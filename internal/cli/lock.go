package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/recipe"
)

// holdSynopsis is what that lock and elect share.
const holdSynopsis = "[--wait time] [--data text] path -- command [argument...]"

func (o *holdOptions) declare(f *pflag.FlagSet) {
	f.DurationVarP(&o.wait, "wait", "w", 0, "give up after this time; 0 for never")
	f.StringVar(&o.data, "data", "", "what others see of the holder; this host and process if not given")
	f.DurationVar(&o.grace, "grace", 5*time.Second, "between the request to end and the kill")
}

const holdLong = `
Its environment has PINFOLD_FENCING_TOKEN, a number that is larger for each holder
than for those before: what the command writes to should refuse smaller numbers than
it has seen, as a process that was stopped can learn late that it has lost %[1]s.

When %[1]s is lost, because the session has ended or may have, the command
is asked to end (SIGTERM) and, after --grace, killed; so it is when pinfold itself
is asked to end. Unless there is a terminal, that goes for all that the command has
started.

The exit status is that of the command; 125 if %[1]s could not be had or was
lost, 126 if the command could not be started, 127 if it does not exist, 128 and the
signal's number if one ended it.`

func lockCommand() command {
	return command{
		name: "lock", synopsis: "[-n] " + holdSynopsis, short: "Run a command while holding a lock",
		long: "Waits for a lock, runs the command, and gives the lock back. Contenders are\nephemeral sequential nodes below the path, as recipe.Lock, Curator and kazoo have them.\n" +
			fmt.Sprintf(holdLong, "the lock"),
		examples: `lock /locks/backup -- backup.sh
lock -n /locks/cron -- job       # not if another has it
lock -w 30s /locks/deploy -- make deploy
lock /locks/x -- sh -c 'store --fence "$PINFOLD_FENCING_TOKEN"'`,
		min: 2, max: -1, raw: true, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			var o holdOptions
			try := f.BoolP("nonblock", "n", false, "do not wait")
			o.declare(f)
			return func(ctx context.Context, s *shell, args []string) error {
				words, err := commandOf(args)
				if err != nil {
					return err
				}
				return s.lock(ctx, args[0], words, o, *try)
			}
		},
	}
}

func (s *shell) lock(ctx context.Context, path string, words []string, o holdOptions, try bool) error {
	c, err := s.client(ctx)
	if err != nil {
		return s.notHeld(err)
	}
	l := recipe.NewLock(c, path, recipe.HolderData(o.holderData()))
	wait, cancel := o.waiting(ctx)
	defer cancel()
	var held *recipe.Held
	if try {
		held, err = l.TryLock(wait)
	} else {
		held, err = l.Lock(wait)
	}
	if err != nil {
		return s.notHeld(err)
	}
	return s.runHolding(ctx, holding{
		what: "the lock", path: held.Path(), token: held.Token(), lost: held.Lost(), release: held.Unlock,
	}, words, o.grace)
}

// commandOf is the command behind the path, with or without "--" before it.
func commandOf(args []string) ([]string, error) {
	words := args[1:]
	if words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, usageError{"what is to be run? lock path -- command"}
	}
	return words, nil
}

// waiting bounds the wait for what is to be held.
func (o *holdOptions) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	if o.wait <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("not had within %v", o.wait))
}
