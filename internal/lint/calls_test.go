package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// The lists of calls in docs/architecture.md: a sentence that says how many calls and files
// there are, and then a block with a line for each function, as that page explains.
var (
	callsHead = regexp.MustCompile(`These are (\d+) calls\s+in (\d+)\s+files`)
	callsLine = regexp.MustCompile(`^( +)(?:([a-z]+/[a-z_]+\.go) )?(\w+)( …)?$`)
)

// functions are what the functions of a file mention: the names by file and function.
// Methods of one name in a file are taken together.
type functions map[string]map[string]map[string]bool

// note adds the functions of a file.
func (fs functions) note(path string, file *ast.File) {
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		if fs[path] == nil {
			fs[path] = map[string]map[string]bool{}
		}
		mentioned := fs[path][fn.Name.Name]
		if mentioned == nil {
			mentioned = map[string]bool{}
			fs[path][fn.Name.Name] = mentioned
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				switch f := call.Fun.(type) {
				case *ast.Ident:
					mentioned[f.Name] = true
				case *ast.SelectorExpr:
					mentioned[f.Sel.Name] = true
				}
			}
			return true
		})
	}
}

// listed is a function in a list of calls.
type listed struct{ file, name string }

// wrongCalls returns what is wrong with the lists of calls in a page: functions that do not
// exist, calls that their caller does not make, and wrong numbers.
func wrongCalls(page string, known functions) (findings []string) {
	heads := callsHead.FindAllStringSubmatchIndex(page, -1)
	if len(heads) == 0 {
		return []string{"there is no list of calls"}
	}
	for _, head := range heads {
		calls, files := map[listed]bool{}, map[string]bool{}
		var callers []listed
		begun := false
		for line := range strings.Lines(page[head[1]:]) {
			m := callsLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
			if m == nil {
				if begun {
					break
				}
				continue
			}
			begun = true
			depth, call := len(m[1])/4-1, listed{m[2], m[3]}
			if depth < 0 || depth > len(callers) || depth == 0 && call.file == "" {
				findings = append(findings, "nobody calls "+call.name)
				break
			}
			if callers = callers[:depth]; call.file == "" {
				call.file = callers[depth-1].file
			}
			if known["internal/"+call.file][call.name] == nil {
				findings = append(findings, call.file+" has no function "+call.name)
			}
			if depth > 0 && !known["internal/"+callers[depth-1].file][callers[depth-1].name][call.name] {
				findings = append(findings, fmt.Sprintf("%s of %s does not call %s", callers[depth-1].name, callers[depth-1].file, call.name))
			}
			if again := m[4] != ""; again != calls[call] {
				findings = append(findings, fmt.Sprintf("%s: … is for what is listed again", call.name))
			}
			calls[call], files[call.file] = true, true
			callers = append(callers, call)
		}
		want := fmt.Sprintf("%d calls in %d files", len(calls), len(files))
		if got := strings.Join(strings.Fields(page[head[0]:head[1]]), " "); got != "These are "+want {
			findings = append(findings, "the list has "+want)
		}
	}
	return findings
}

func TestListedCallsAreMade(t *testing.T) {
	known := functions{}
	for _, f := range load(t).gos {
		if !f.test() {
			known.note(f.path, f.ast)
		}
	}
	for _, finding := range wrongCalls(readText(t, "docs/architecture.md"), known) {
		t.Error("docs/architecture.md: " + finding)
	}
}

func TestCallCheckerFindsBreaks(t *testing.T) {
	known := functions{}
	for path, text := range map[string]string{
		"internal/a/x.go": "package a; func f() { g() }; func (v T) g() { v.b.h(); go run() }; func run() {}",
		"internal/b/y.go": "package b; func h() { go func() { last() }() }; func last() {}",
	} {
		f, err := parseGo(path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		known.note(path, f.ast)
	}
	const list = "\n\n    a/x.go f\n        g\n            b/y.go h\n                last\n    a/x.go run\n        g …\n\nMore."
	ok := strings.Replace(list, "        g …\n", "", 1)
	for page, want := range map[string]string{
		"These are 5 calls in 2 files." + ok:                                    "",
		"These are 5 calls\nin 2 files." + ok:                                   "",
		"These are 5 calls in 2 files." + list:                                  "run of a/x.go does not call g",
		"These are 4 calls in 2 files." + ok:                                    "the list has 5 calls in 2 files",
		"These are 5 calls in 1 files." + ok:                                    "the list has 5 calls in 2 files",
		"No list":                                                               "there is no list of calls",
		"These are 1 calls in 1 files.\n\n    a/x.go gone\n":                    "a/x.go has no function gone",
		"These are 2 calls in 1 files.\n\n    a/x.go f\n        run\n":          "f of a/x.go does not call run",
		"These are 1 calls in 1 files.\n\n    f\n":                              "nobody calls f",
		"These are 2 calls in 1 files.\n\n    a/x.go f\n        g\n        g\n": "g: … is for what is listed again",
	} {
		if got := strings.Join(wrongCalls(page, known), "; "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("of %q: %q, want %q", page, got, want)
		}
	}
}
