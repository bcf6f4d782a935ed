package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A shown is a command that a page shows, with the output that it shows.
type shown struct {
	line   int
	words  []string
	output string
}

// shownIn returns the commands of a page: lines that begin with "    $ pinfold ", each
// followed by its output.
func shownIn(text string) (list []shown) {
	number := 0
	var open *shown
	for line := range strings.Lines(text) {
		number++
		code, indented := strings.CutPrefix(line, "    ")
		if command, ok := strings.CutPrefix(code, "$ pinfold "); ok && indented {
			list = append(list, shown{line: number, words: strings.Fields(command)})
			open = &list[len(list)-1]
			continue
		}
		if !indented {
			open = nil
		}
		if open != nil {
			open.output += code
		}
	}
	return list
}

// matches reports whether a command has printed what a page shows. "…" stands for anything.
func matches(got, want string) bool {
	parts := strings.Split(want, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(got)
}

// Every command that these pages show prints what they show, in a directory with the files
// of an Apache server.
func TestPagesShowWhatCommandsPrint(t *testing.T) {
	for _, page := range []string{"data.md", "backup.md"} {
		t.Run(page, func(t *testing.T) { runPage(t, "docs/ops/"+page) })
	}
}

func runPage(t *testing.T, name string) {
	page, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "data", "version-2"), os.DirFS("../../test/datadir/testdata/apache-3.9/version-2")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := shownIn(string(page))
	if len(commands) < 8 {
		t.Errorf("%d commands were found", len(commands))
	}
	for _, c := range commands {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(c.words)
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.Execute()
		if differ := c.words[1] == "compare"; (err != nil) != differ {
			t.Errorf("%s:%d: %v", name, c.line, err)
		}
		if !matches(out.String(), c.output) {
			t.Errorf("%s:%d: pinfold %s prints\n%s\nnot\n%s", name, c.line, strings.Join(c.words, " "), &out, c.output)
		}
	}
}
