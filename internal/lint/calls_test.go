package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The list of the calls of a write in docs/architecture.md: its head, which says how many
// calls and files there are, and its rows. A row has a stage, files below internal, and
// the calls. "A or B" is one call.
var (
	callsHead = regexp.MustCompile(`These are (\d+) calls in (\d+)\s+files`)
	callsRow  = regexp.MustCompile("(?m)^\\| ([a-z-]+) \\| ((?:`[a-z]+/[a-z]+\\.go`(?:, )?)+) \\| ([^|]+) \\|$")
)

// wrongCalls returns what is wrong with the list of calls in a page: calls of functions
// that no file of their row has, and wrong numbers. functions are the names of functions by
// file.
func wrongCalls(page string, functions map[string][]string) (findings []string) {
	head := callsHead.FindStringSubmatchIndex(page)
	if head == nil {
		return []string{"there is no list of calls"}
	}
	list, _, _ := strings.Cut(page[head[1]:], "\n\n#")
	calls, files := 0, map[string]bool{}
	for _, row := range callsRow.FindAllStringSubmatch(list, -1) {
		var names []string
		for _, file := range regexp.MustCompile("[^`, ]+").FindAllString(row[2], -1) {
			files[file] = true
			names = append(names, functions["internal/"+file]...)
		}
		for _, call := range regexp.MustCompile(`[,;] `).Split(row[3], -1) {
			calls++
			for _, name := range strings.Split(call, " or ") {
				name = name[strings.LastIndex(name, ".")+1:]
				if !slices.Contains(names, name) {
					findings = append(findings, fmt.Sprintf("%s: no file of the row has the function %s", row[1], name))
				}
			}
		}
	}
	if want := fmt.Sprintf("%d calls in %d", calls, len(files)); !strings.HasSuffix(strings.Join(strings.Fields(page[head[0]:head[1]]), " "), want+" files") {
		findings = append(findings, "the list has "+want+" files")
	}
	return findings
}

func TestCallsOfAWriteExist(t *testing.T) {
	functions := map[string][]string{}
	for _, f := range load(t).gos {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				functions[f.path] = append(functions[f.path], fn.Name.Name)
			}
		}
	}
	for _, finding := range wrongCalls(readText(t, "docs/architecture.md"), functions) {
		t.Error("docs/architecture.md: " + finding)
	}
}

func TestCallCheckerFindsBreaks(t *testing.T) {
	functions := map[string][]string{"internal/a/x.go": {"f", "g"}, "internal/b/y.go": {"h"}}
	const rows = "\n\n| one | `a/x.go`, `b/y.go` | f; h |\n| two | `a/x.go` | x.g or f |\n"
	for page, want := range map[string]string{
		"These are 3 calls in 2 files." + rows:                         "",
		"These are 3 calls in 2\nfiles." + rows:                        "",
		"These are 4 calls in 2 files." + rows:                         "the list has 3 calls in 2 files",
		"These are 3 calls in 1 files." + rows:                         "the list has 3 calls in 2 files",
		"No list":                                                      "there is no list of calls",
		"These are 1 calls in 1 files.\n\n| one | `a/x.go` | gone |\n": "one: no file of the row has the function gone",
	} {
		if got := strings.Join(wrongCalls(page, functions), "; "); got != want {
			t.Errorf("of %q: %q, want %q", page, got, want)
		}
	}
}
