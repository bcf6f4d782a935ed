package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// watchCommands are those about watches. ls, get, stat and config leave them
// too, by -w.
func watchCommands() []command {
	return []command{addWatchCommand(), removeWatchesCommand(), printWatchesCommand()}
}

func addWatchCommand() command {
	return command{
		name: "addWatch", synopsis: "[-m mode] path", short: "Print all changes of a node until removewatches",
		long: `Leaves a watch that stays until removewatches or the end of the session. Mode
PERSISTENT_RECURSIVE, which is the default, tells of the creation, deletion and
changes of data of the node and of all below it; PERSISTENT of those of the node
and of its list of children. The node need not exist.`,
		examples: `addWatch /app
addWatch -m PERSISTENT /app/members`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			mode := f.StringP("mode", "m", "PERSISTENT_RECURSIVE", "PERSISTENT or PERSISTENT_RECURSIVE")
			return func(ctx context.Context, s *shell, args []string) error {
				kind, m := watchRecursive, zk.AddWatchPersistentRecursive
				switch strings.ToUpper(*mode) {
				case "PERSISTENT_RECURSIVE":
				case "PERSISTENT":
					kind, m = watchPersistent, zk.AddWatchPersistent
				default:
					return usageError{"the mode is PERSISTENT or PERSISTENT_RECURSIVE, not " + *mode}
				}
				c, err := s.client(ctx)
				if err != nil {
					return err
				}
				w, err := c.AddWatch(ctx, args[0], m)
				if err != nil {
					return err
				}
				s.follow(kind, w)
				return nil
			}
		},
	}
}

func removeWatchesCommand() command {
	return command{
		name: "removewatches", synopsis: "path [-c|-d|-p|-r|-a] [-l]", short: "Take watches on a node back",
		long: `Takes watches of this session on a node back: those on its children (ls -w), on
its data (get -w, stat -w), persistent ones (addWatch), or all.`,
		examples: `removewatches /app
removewatches -d /app/config
removewatches -a -l /app       # though no server can be reached`,
		min: 1, max: 1, complete: []argKind{argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			chosen := [...]*bool{
				watchChildren:   f.BoolP("children", "c", false, "watches on the list of children"),
				watchData:       f.BoolP("data", "d", false, "watches on the data"),
				watchPersistent: f.BoolP("persistent", "p", false, "persistent watches"),
				watchRecursive:  f.BoolP("recursive", "r", false, "persistent, recursive watches"),
			}
			all := f.BoolP("any", "a", false, "all of them, as without an option")
			local := f.BoolP("local", "l", false, "remove it here even if the server cannot be reached")
			return func(ctx context.Context, s *shell, args []string) error {
				var kinds []watchKind
				for kind, on := range chosen {
					if *on {
						kinds = append(kinds, watchKind(kind))
					}
				}
				if len(kinds) == 0 || *all {
					kinds = []watchKind{watchChildren, watchData, watchPersistent, watchRecursive}
				}
				return s.removeWatches(ctx, args[0], kinds, *local)
			}
		},
	}
}

// removeWatches removes those on path of these kinds. With local, they are gone
// for this client even if the server was not told; one before 3.5, which cannot be
// told, has only such as end with the next event, and that is not printed.
func (s *shell) removeWatches(ctx context.Context, path string, kinds []watchKind, local bool) error {
	if err := client.CheckPath(path); err != nil {
		return &client.Error{Op: "removewatches", Path: path, Err: zk.ErrBadArguments, Reason: err}
	}
	found := s.watches.on(path, kinds...)
	if len(found) == 0 {
		return &client.Error{Op: "removewatches", Path: path, Err: zk.ErrNoWatcher}
	}
	var failed error
	for _, h := range found {
		if err := h.watch.Remove(ctx); err != nil && !local && !errors.Is(err, zk.ErrUnimplemented) {
			failed = errors.Join(failed, err)
		}
		s.printEvent(zk.Event{Type: h.kind.removed(), State: zk.StateSyncConnected, Path: path})
	}
	return failed
}

// removed is the event that reports the removal of a watch.
func (k watchKind) removed() zk.EventType {
	switch k {
	case watchChildren:
		return zk.EventChildWatchRemoved
	case watchData:
		return zk.EventDataWatchRemoved
	}
	return zk.EventPersistentWatchRemoved
}

func printWatchesCommand() command {
	return command{
		name: "printwatches", synopsis: "on|off", short: "Whether events are printed",
		long: "Turns the printing of events on or off, or says which. Watches that fire while it\nis off have fired all the same.",
		examples: `printwatches
printwatches off`,
		max: 1,
		run: func(_ context.Context, s *shell, args []string) error {
			state := "off"
			if s.printWatches.Load() {
				state = "on"
			}
			switch {
			case len(args) == 0:
				return s.print([]string{"printwatches"}, row{plain: "printwatches is " + state, cells: []string{state}})
			case args[0] != "on" && args[0] != "off":
				return usageError{fmt.Sprintf("printwatches on or off, not %s", args[0])}
			}
			s.printWatches.Store(args[0] == "on")
			return nil
		},
	}
}
