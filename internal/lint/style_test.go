package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A file longer than this holds more than one thing.
const (
	maxLines     = 700
	maxTestLines = 1100
)

// banned words in the names of packages and files say nothing of what is inside.
var banned = []string{"util", "utils", "common", "helper", "helpers", "manager", "impl", "misc"}

// machineTraces are parts of paths that mean something on one machine only, by
// the directory that they begin with. They are put together here so that this
// file does not have them.
var machineTraces = []string{
	"/" + "home/", "/" + "Users/", "/" + "root/", "/" + "work/", "/" + ".library", "farm" + "-",
}

func tooLong(f *goFile) []string {
	limit := maxLines
	if f.test() {
		limit = maxTestLines
	}
	if f.lines > limit {
		return []string{fmt.Sprintf("%s has %d lines, more than %d", f.path, f.lines, limit)}
	}
	return nil
}

func emptyNames(f *goFile) (findings []string) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(f.path, ".go"), "_test"), "/")
	for _, p := range append(parts, f.ast.Name.Name) {
		if slices.Contains(banned, p) {
			return []string{fmt.Sprintf("%s: %q says nothing of what is inside", f.path, p)}
		}
	}
	return nil
}

func inits(f *goFile) (findings []string) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			findings = append(findings, f.at(fn)+": init: what a package needs is made by who uses it")
		}
	}
	return findings
}

// sleeps is the checker of waiting in tests. A function that uses synctest may
// sleep: it runs where time jumps.
func sleeps(f *goFile) (findings []string) {
	for _, d := range f.ast.Decls {
		if uses(d, "synctest", "") != nil {
			continue
		}
		if s := uses(d, "time", "Sleep"); s != nil {
			findings = append(findings, f.at(s)+": time.Sleep in a test: use testing/synctest, or wait for what you wait for")
		}
	}
	return findings
}

// uses returns the first mention of pkg.name in d, of any name if it is "".
func uses(d ast.Node, pkg, name string) (found ast.Node) {
	ast.Inspect(d, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && is(s, pkg) && (name == "" || s.Sel.Name == name) && found == nil {
			found = s
		}
		return found == nil
	})
	return found
}

// undocumented is the checker of doc comments on exported names.
func undocumented(f *goFile) (findings []string) {
	found := func(n ast.Node, name string) {
		findings = append(findings, fmt.Sprintf("%s: %s has no doc comment", f.at(n), name))
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				found(d, d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				if name := exportedOf(spec); name != "" && !documented(d, spec) {
					found(spec, name)
				}
			}
		}
	}
	return findings
}

// exportedReceiver reports whether fn is a function, or the method of a type
// that others can name.
func exportedReceiver(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return true
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// exportedOf returns the first exported name that spec declares.
func exportedOf(spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return s.Name.Name
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				return n.Name
			}
		}
	}
	return ""
}

// documented accepts a comment above or behind the spec, or above its group.
func documented(d *ast.GenDecl, spec ast.Spec) bool {
	if d.Doc != nil {
		return true
	}
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return s.Doc != nil
	case *ast.ValueSpec:
		return s.Doc != nil || s.Comment != nil
	}
	return false
}

func every(*goFile) bool { return true }

func isTest(f *goFile) bool { return f.test() }

func isNoTest(f *goFile) bool { return !f.test() }

func TestFilesAreShort(t *testing.T)         { checkAll(t, tooLong, every) }
func TestNamesSaySomething(t *testing.T)     { checkAll(t, emptyNames, every) }
func TestNoInit(t *testing.T)                { checkAll(t, inits, every) }
func TestTestsDoNotSleep(t *testing.T)       { checkAll(t, sleeps, isTest) }
func TestExportedNamesHaveDocs(t *testing.T) { checkAll(t, undocumented, isNoTest) }

func TestPackagesHaveDocs(t *testing.T) {
	docs := map[string]string{}
	for _, f := range load(t).gos {
		if f.test() {
			continue
		}
		docs[f.dir()] += f.ast.Doc.Text()
	}
	for dir, text := range docs {
		if text == "" {
			t.Errorf("package %s has no doc comment", dir)
		}
	}
}

// No file says where on whose machine it was written.
func TestNoTraceOfAMachine(t *testing.T) {
	for _, name := range load(t).files {
		text := readText(t, name)
		for _, trace := range tracesIn(text) {
			t.Errorf("%s names %q, which is of one machine", filepath.ToSlash(name), trace)
		}
	}
}

func tracesIn(text string) (found []string) {
	for _, trace := range machineTraces {
		if strings.Contains(text, trace) {
			found = append(found, trace)
		}
	}
	return found
}

func TestStyleCheckersFindBreaks(t *testing.T) {
	checkSamples(t, "internal/x/a.go", tooLong, []sample{
		{strings.Repeat("\n", maxLines-1), ""}, {strings.Repeat("\n", maxLines), "701 lines"},
	})
	checkSamples(t, "internal/x/a_test.go", tooLong, []sample{
		{strings.Repeat("\n", maxTestLines-1), ""}, {strings.Repeat("\n", maxTestLines), "1101 lines"},
	})
	checkSamples(t, "internal/x/table.go", emptyNames, []sample{{"", ""}})
	checkSamples(t, "internal/x/util_test.go", emptyNames, []sample{{"", `"util"`}})
	checkSamples(t, "internal/common/a.go", emptyNames, []sample{{"", `"common"`}})
	checkSamples(t, "internal/x/a.go", inits, []sample{
		{"func init() {}", "init"}, {"type t int; func (t) init() {}", ""}, {"func initial() {}", ""},
	})
	checkSamples(t, "internal/x/a_test.go", sleeps, []sample{
		{`import "time"; func f() { time.Sleep(1) }`, "time.Sleep"}, {`func f(x nap) { x.Sleep(1) }`, ""},
		{`func f() { synctest.Test(t, func(t *T) { time.Sleep(1) }) }`, ""},
		{`func f() { time.Sleep(1); synctest.Wait() }; func g() { time.Sleep(1) }`, "time.Sleep"},
	})
	checkSamples(t, "internal/x/a.go", undocumented, []sample{
		{"func F() {}", "F has no"}, {"// F is.\nfunc F() {}", ""}, {"func f() {}", ""},
		{"type T int", "T has no"}, {"// Some.\ntype (A int; B int)", ""},
		{"const C = 1", "C has no"}, {"const (\n\tA = 1 // one\n\tb = 2\n)", ""}, {"const (\n\tA = 1\n\tb = 2\n)", "A has no"},
		{"type t int; func (*t) M() {}", ""}, {"// T is.\ntype T[K any] struct{}\nfunc (T[K]) M() {}", "M has no"},
	})
	if got := tracesIn("cd /" + "home/me and " + "farm" + "-run"); len(got) != 2 {
		t.Errorf("tracesIn found %q", got)
	}
	if got := tracesIn("$HOME/work in java.library.path"); got != nil {
		t.Errorf("tracesIn found %q", got)
	}
}
