package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/recipe"
)

// holdSynopsis is the synopsis that lock and elect share.
const holdSynopsis = "[--names library] [--wait time] [--data text] path -- command [argument...]"

func (o *holdOptions) declare(f *pflag.FlagSet) {
	f.Var(&o.names, "names", "names of the znodes; the text above says which clients each excludes")
	f.DurationVarP(&o.wait, "wait", "w", 0, "give up after this time; 0 waits without limit")
	f.StringVar(&o.data, "data", "", "data of the znode, which other clients read (default this host and process)")
	f.DurationVar(&o.grace, "grace", 5*time.Second, "time between SIGTERM and SIGKILL")
}

const holdLong = `
If the queue has a znode of a client that does not wait for znodes with these
names, the command is not run: the error names that znode and the --names to use.
Such a client that comes later is not noticed. Clients of one path must use one
kind of names.

The environment of the command has PINFOLD_FENCING_TOKEN, a number that grows from
holder to holder. A system that the command writes to should refuse a smaller
number than it has seen: a process that was stopped can be late to learn that it
has lost %[1]s.

When %[1]s is lost, because the session has ended or may have ended, or when
pinfold receives SIGINT or SIGTERM, the command gets SIGTERM and, after --grace,
SIGKILL. Without a terminal, all processes that the command has started get them
too.

The exit status is that of the command; 125 if %[1]s was not acquired or was
lost, 126 if the command could not be started, 127 if it does not exist, 128 plus
the number of the signal that ended it.`

// lockExcludes says which clients --names makes one queue of.
const lockExcludes = `
--names says which clients the lock excludes, beside every 'pinfold cli lock' and
recipe.Lock with the same names:
  curator    Curator's InterProcessMutex (the default)
  kazoo      kazoo's Lock, ReadLock and WriteLock
  zookeeper  clients that follow ZooKeeper's recipes page (znodes
             GUID-lock-NUMBER); Curator's InterProcessMutex
No names exclude Curator's and kazoo's clients at the same time, and none exclude
Curator's InterProcessReadWriteLock.
`

func lockCommand() command {
	return command{
		name: "lock", synopsis: "[-n] " + holdSynopsis, short: "Run a command while holding a lock",
		long: "Acquires a lock, runs the command, and releases the lock. Contenders are ephemeral\nsequential znodes below the path and hold the lock in the order of their numbers.\n" +
			lockExcludes + fmt.Sprintf(holdLong, "the lock"),
		examples: `lock /locks/backup -- backup.sh
lock --names kazoo /locks/backup -- backup.sh   # excludes zk.Lock("/locks/backup") of Python's kazoo
lock -n /locks/cron -- job       # fails if another client has the lock
lock -w 30s /locks/deploy -- make deploy
lock /locks/x -- sh -c 'store --fence "$PINFOLD_FENCING_TOKEN"'`,
		min: 2, max: -1, raw: true, complete: []argKind{argPath, argNone},
		setup: func(f *pflag.FlagSet) runFunc {
			o := holdOptions{names: lockNames()}
			try := f.BoolP("nonblock", "n", false, "do not wait: fail if another client has the lock")
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
	l := recipe.NewLock(c, path, o.lockOptions()...)
	wait, cancel := o.waiting(ctx)
	defer cancel()
	var held *recipe.Held
	if try {
		held, err = l.TryLock(wait)
	} else {
		held, err = l.Lock(wait)
	}
	if err != nil {
		return s.notHeld(o.names.refused(err))
	}
	return s.runHolding(ctx, holding{
		what: "the lock", path: held.Path(), token: held.Token(), lost: held.Lost(), release: held.Unlock,
	}, words, o.grace)
}

// commandOf returns the command that follows the path; a "--" before it is optional.
func commandOf(args []string) ([]string, error) {
	words := args[1:]
	if words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, usageError{"the command is missing: PATH -- COMMAND"}
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
