package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/test/documents"
)

// calls matches a command line of pinfold in a document, without cli, whose lines
// internal/cli tests; up to the end of what the shell gives it.
var calls = regexp.MustCompile(`(?m)(?:^|[ \x60/])pinfold ((?:server|ensemble|member|migrate|bench|data|backup|restore|broadcast|config explain|version)\b[^\n\x60|<&#;)]*)`)

func newRoot() *cobra.Command {
	root := &cobra.Command{Use: "pinfold"}
	root.AddCommand(serverCommand(), ensembleCommand(), memberCommand(), migrateCommand(), benchCommand(), dataCommand(), backupCommand(), restoreCommand(), broadcastCommand(), configCommand(), manualCommand(), versionCommand())
	return root
}

// Every command line of the documents names commands and flags that exist.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	documents.Each(t, "../..", calls, 20, func(file string, match []string) {
		if err := check(match[1]); err != nil {
			t.Errorf("%s: pinfold %s: %v", file, match[1], err)
		}
	})
}

// check looks up the command of a line and its flags. Values are not looked at: quotes
// and line breaks of the shell may split them.
func check(line string) error {
	c, rest, err := newRoot().Find(strings.Fields(line))
	if err != nil {
		return err
	}
	if c.HasSubCommands() && len(rest) > 0 && regexp.MustCompile(`^[a-z]`).MatchString(rest[0]) {
		return fmt.Errorf("%s has no %s", c.Name(), rest[0])
	}
	c.InitDefaultHelpFlag()
	for _, word := range rest {
		name, isLong := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isLong && name != "" && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
		}
	}
	return nil
}

func TestDocumentCheckFindsBreaks(t *testing.T) {
	for line, good := range map[string]bool{
		"server zoo.cfg": true, "ensemble --servers 3": true, "bench mix --read-ratio 0": true, "bench --help": true, "version": true,
		"data log -c -z 5 log.1": true, "data log --nope": false, "data nope x": false,
		"ensemble --nope 3": false, "bench nope --size 3": false, "bench mix --nope": false,
	} {
		if err := check(line); (err == nil) != good {
			t.Errorf("%q: %v, want good: %v", line, err, good)
		}
	}
}
