package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// calls matches `pinfold cli …` in a document, up to the end of what the shell gives it.
var calls = regexp.MustCompile(`(?m)(?:^|[ \x60/])pinfold cli([^\n\x60|<&#]*)`)

// Every command line of the documents names options and commands that exist, with as
// many arguments as the commands take.
func TestDocumentsNameCommandsThatExist(t *testing.T) {
	found := 0
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
				complete := strings.HasPrefix(m[0], " pinfold") || strings.HasPrefix(m[0], "/pinfold") // in a block: with all arguments
				if err := check(m[1], complete); err != nil {
					t.Errorf("%s: pinfold cli%s: %v", file, m[1], err)
				}
				found++
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d command lines", found)
	}
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
