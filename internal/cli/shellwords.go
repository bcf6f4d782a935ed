package cli

import "context"

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
	return []command{helpCommand(), quit, exit}
}
