package cli

import (
	"context"
	"fmt"
	"strings"
)

// Help is the text of `pinfold cli --help` after the options: every command
// with an example or more.
func Help() string {
	var b strings.Builder
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %s\n      %s\n", c.usage(), c.short)
		for line := range strings.Lines(c.examples) {
			fmt.Fprintf(&b, "        %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return b.String()
}

// printHelp prints all that there is to say of a command.
func (s *shell) printHelp(c command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", c.usage(), c.long)
	f := newFlagSet(c.name)
	if c.setup != nil {
		c.setup(f)
	}
	if f.HasFlags() {
		fmt.Fprintf(&b, "\nOptions:\n%s", f.FlagUsages())
	}
	if c.examples != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.Lines(c.examples) {
			b.WriteString("  " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	_, err := s.out.Write([]byte(b.String()))
	return err
}

func helpCommand() command {
	return command{
		name: "help", synopsis: "[command]", short: "What commands there are, and what one does",
		long: "Without an argument, prints all commands, a line each. With one, prints what the\ncommand does, its options and examples; so does COMMAND --help.",
		examples: `help
help create`,
		max: 1, complete: []argKind{argCommand},
		run: func(_ context.Context, s *shell, args []string) error {
			if len(args) == 1 {
				c, ok := s.find(args[0])
				if !ok {
					return usageError{s.unknown(args[0])}
				}
				return s.printHelp(c)
			}
			return s.printCommands()
		},
	}
}

func (s *shell) printCommands() error {
	r := s.rows("command", "options and arguments", "what it does")
	defer r.end()
	width := 0
	for _, c := range s.commands {
		width = max(width, len(c.name))
	}
	for _, c := range s.commands {
		err := r.add(row{
			plain: fmt.Sprintf("  %-*s  %s", width, c.name, c.short), cells: []string{c.name, c.synopsis, c.short},
		})
		if err != nil {
			return err
		}
	}
	return r.addNote("help COMMAND says more of one; Tab completes commands, options and paths.")
}

// unknown says that there is no such command, and which may be meant.
func (s *shell) unknown(name string) string {
	old := map[string]string{"rmr": "deleteall", "ls2": "ls -s"} // of zkCli.sh before 3.6
	if now, ok := old[name]; ok {
		return "Command not found: " + name + "\n(" + now + " does that)"
	}
	var near []string
	for _, c := range s.commands {
		if strings.EqualFold(c.name, name) || distance(strings.ToLower(c.name), strings.ToLower(name)) <= 2 ||
			len(name) > 2 && strings.HasPrefix(strings.ToLower(c.name), strings.ToLower(name)) {
			near = append(near, c.name)
		}
	}
	text := "Command not found: " + name
	if len(near) > 0 {
		return text + "\n(did you mean " + strings.Join(near, " or ") + "?)"
	}
	return text + "\n(help lists all commands)"
}

// distance is how many letters must be added, left out or replaced to make b of
// a.
func distance(a, b string) int {
	before := make([]int, len(b)+1)
	for j := range before {
		before[j] = j
	}
	for i := range len(a) {
		now := make([]int, len(b)+1)
		now[0] = i + 1
		for j := range len(b) {
			replace := before[j]
			if a[i] != b[j] {
				replace++
			}
			now[j+1] = min(replace, before[j+1]+1, now[j]+1)
		}
		before = now
	}
	return before[len(b)]
}
