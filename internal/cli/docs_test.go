package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/documents"
)

// calls matches `pinfold cli …` in a document, up to the end of what the shell gives it.
var calls = regexp.MustCompile(`(?m)(?:^|[ \x60/])pinfold cli((?:'[^'\n]*'|[^\n\x60|<&#;'])*)`)

// Every command line of the documents names options and commands that exist, with as
// many arguments as the commands take.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	documents.Each(t, "../..", calls, 20, func(file string, match []string) {
		inBlock := strings.HasPrefix(match[0], " pinfold") || strings.HasPrefix(match[0], "/pinfold") // with all arguments
		if err := check(match[1], inBlock); err != nil {
			t.Errorf("%s: pinfold cli%s: %v", file, match[1], err)
		}
	})
}

// check parses what follows `pinfold cli`. A line that is not complete is only text with
// the name of a command.
func check(line string, complete bool) error {
	words, err := splitLine(line)
	if err != nil {
		return err
	}
	var o Options
	f := newFlagSet("pinfold cli")
	f.BoolP("help", "h", false, "")
	o.Register(f)
	args, err := Arguments(f, words)
	if err != nil || len(args) == 0 || strings.ToUpper(args[0]) == args[0] || strings.HasPrefix(args[0], "[") {
		return err // a placeholder: COMMAND, [options]
	}
	s := &shell{commands: commands()}
	c, ok := s.find(args[0])
	switch {
	case !ok && complete:
		return usageError{s.unknown(args[0])}
	case !ok || !complete:
		return nil
	}
	_, _, _, err = c.prepare(args[1:])
	return err
}

func TestDocumentCheckFindsBreaks(t *testing.T) {
	for line, good := range map[string]bool{
		" ls -R /": true, "": true, " --server h:1 get -s /a": true, " -c 'ls /; ls /'": true, " COMMAND --help": true,
		" lock --names kazoo /x -- sh -c true": true,
		" lss /":                               false, " ls --nope /": false, " --nope ls /": false, " get": false, " delete /a 1 2": false,
	} {
		if err := check(line, true); (err == nil) != good {
			t.Errorf("%q: %v, want good: %v", line, err, good)
		}
	}
}
