package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manualCommand writes the man pages of all commands and the completions of shells. The
// packages have them.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write man pages and completions of shells",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return writeManual(c.Root(), args[0])
		},
	}
}

// writeManual writes dir/man1 and dir/completions.
func writeManual(root *cobra.Command, dir string) error {
	pages := filepath.Join(dir, "man1")
	completions := filepath.Join(dir, "completions")
	for _, d := range []string{pages, completions} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("manual: %w", err)
		}
	}
	var bash, zsh, fish bytes.Buffer
	if err := root.GenBashCompletionV2(&bash, true); err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	if err := root.GenZshCompletion(&zsh); err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	if err := root.GenFishCompletion(&fish, true); err != nil {
		return fmt.Errorf("manual: %w", err)
	}
	files := map[string][]byte{
		filepath.Join(completions, "pinfold"):      bash.Bytes(),
		filepath.Join(completions, "_pinfold"):     zsh.Bytes(),
		filepath.Join(completions, "pinfold.fish"): fish.Bytes(),
	}
	eachCommand(root, func(c *cobra.Command) {
		files[filepath.Join(pages, pageName(c)+".1")] = manPage(c)
	})
	for name, text := range files {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return fmt.Errorf("manual: %w", err)
		}
	}
	return nil
}

// eachCommand calls f for a command and all below it, without those that are hidden or
// made by cobra.
func eachCommand(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		eachCommand(sub, f)
	}
}

// pageName is the name of a command's man page: pinfold-bench-mix.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the man page of a command.
func manPage(c *cobra.Command) []byte {
	var b bytes.Buffer
	name := pageName(c)
	// The year is not that of the build: equal sources make equal packages.
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Pinfold manual\"\n", strings.ToUpper(name), "pinfold "+buildVersion())
	fmt.Fprintf(&b, ".nh\n.ad l\n.SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	if c.Long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(c.Long))
	}
	c.InitDefaultHelpFlag()
	if c.Flags().HasAvailableFlags() || c.InheritedFlags().HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n")
		each := func(f *pflag.Flag) { writeFlag(&b, f) }
		c.LocalFlags().VisitAll(each)
		c.InheritedFlags().VisitAll(each)
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var others []string
	if c.HasParent() {
		others = append(others, pageName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		eachCommand(sub, func(s *cobra.Command) {
			if s == sub {
				others = append(others, pageName(s))
			}
		})
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", strings.Join(others, " (1),\n.BR "))
	}
	return b.Bytes()
}

func writeFlag(b *bytes.Buffer, f *pflag.Flag) {
	if f.Hidden {
		return
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if kind != "" {
		name += " " + kind
	}
	fmt.Fprintf(b, ".TP\n.B %s\n%s", roff(name), roff(usage))
	switch f.DefValue {
	case "", "false", "[]", "0", time.Duration(0).String():
	default:
		fmt.Fprintf(b, " (default %s)", roff(f.DefValue))
	}
	b.WriteByte('\n')
}

// roff escapes text for a man page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
