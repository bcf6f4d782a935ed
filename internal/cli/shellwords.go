package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// shellCommands are those that need no server.
func shellCommands() []command {
	quit := command{
		name: "quit", short: "End the session and the shell",
		long:     "Ends the session, which deletes its ephemeral nodes, and the shell. exit is the\nsame, and so is Ctrl-D.",
		examples: "quit",
		run: func(_ context.Context, s *shell, _ []string) error {
			s.quit = true
			return nil
		},
	}
	exit := quit
	exit.name, exit.examples = "exit", "exit"
	exit.long = "Ends the session, which deletes its ephemeral nodes, and the shell, as quit does."
	return []command{historyCommand(), redoCommand(), timeCommand(), helpCommand(), quit, exit}
}

// shownHistory is how many lines history prints.
const shownHistory = 11

func historyCommand() command {
	return command{
		name: "history", short: "Print the last commands, with their numbers",
		long:     fmt.Sprintf("Prints the last %d commands of this run, with the numbers that redo takes. The\narrow keys show the lines of earlier runs too.", shownHistory),
		examples: "history",
		run: func(_ context.Context, s *shell, _ []string) error {
			r := s.rows("number", "command")
			defer r.end()
			for i := max(0, len(s.history)-shownHistory); i < len(s.history); i++ {
				value := struct {
					Number  int    `json:"number"`
					Command string `json:"command"`
				}{i, s.history[i]}
				one := row{plain: fmt.Sprintf("%d - %s", i, s.history[i]), cells: []string{strconv.Itoa(i), s.history[i]}, value: value}
				if err := r.add(one); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func redoCommand() command {
	return command{
		name: "redo", synopsis: "cmdno", short: "Run a command again, by its number in history",
		long:     "Runs a command of this run again, by the number that history prints.",
		examples: "redo 3",
		min:      1, max: 1,
		run: func(ctx context.Context, s *shell, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 0 || n >= len(s.history)-1 {
				return usageError{"Command index out of range\n(history prints the numbers)"}
			}
			words, err := splitLine(s.history[n])
			if err != nil {
				return err
			}
			if isRedo(words) {
				return usageError{"No redoing redos: " + s.history[n]}
			}
			s.history[len(s.history)-1] = s.history[n] // so that it is no redo of a redo
			return s.call(ctx, words)
		},
	}
}

// isRedo reports whether a line is a redo that was not replaced by what it
// stood for, because it failed.
func isRedo(words []string) bool {
	for len(words) > 0 && words[0] == "time" {
		words = words[1:]
	}
	return len(words) > 0 && words[0] == "redo"
}

func timeCommand() command {
	return command{
		name: "time", synopsis: "command …", short: "Run a command and say how long it took",
		long:     "Runs a command, and prints on the error stream how long it took.",
		examples: "time ls -R /",
		min:      1, max: -1, complete: []argKind{argCommand, argPath}, raw: true,
		run: func(ctx context.Context, s *shell, args []string) error {
			begun := time.Now()
			err := s.call(ctx, args)
			fmt.Fprintf(s.errs, "took %v\n", time.Since(begun).Round(time.Microsecond))
			return err
		},
	}
}
