package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a document names must exist. A name is looked for in the whole text,
// code blocks included:
//
//   - a path from the root: internal/storage, docs/formats.md, ./cmd/pinfold;
//   - a link to a file of the repository;
//   - a file by its name alone, in backquotes: `pipeline.go`;
//   - a symbol of a package, in backquotes: `storage.Open`, `replica.Stats.Fsync`;
//   - a test, fuzz target or benchmark by its function's name;
//   - a target of the Makefile, a part of the CI script, a command of pinfold.
var (
	pathPattern   = regexp.MustCompile(`(?:^|[\s"'(\x60=])((?:\./)?(?:cmd|internal|zk|test|docs|scripts|\.ci)/[\w./*-]+)`)
	linkPattern   = regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)`)
	namePattern   = regexp.MustCompile("`([\\w.-]+\\.(?:go|md|py|txt|golden))`")
	symbolPattern = regexp.MustCompile("`([a-z]+)\\.([A-Za-z]\\w*)(?:\\.([A-Za-z]\\w*))?(?:\\(\\))?`")
	testPattern   = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	makePattern   = regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z-]*)\\b")
	ciPattern     = regexp.MustCompile(`\.ci/run ([a-z][a-z-]*)`)
)

// notHere are names in documents that look as if they were of the repository.
var notHere = map[string]string{
	"TestIntegration_Multi": "a test of go-zookeeper's",
	"TestClient":            "a class of kazoo's tests",
}

// documents are the texts for readers of the repository.
func documents(t *tree) (names []string) {
	for _, name := range t.files {
		if strings.HasSuffix(name, ".md") {
			names = append(names, name)
		}
	}
	return names
}

// An index is what documents may name.
type index struct {
	tree     *tree
	base     map[string]bool            // files by their names alone
	packages map[string]map[string]bool // package name -> symbol or Type.Member
	tests    map[string]bool
	targets  map[string]bool // of the Makefile
	parts    map[string]bool // of .ci/run
	settings map[string]bool // of the configuration, and their first two words
}

func newIndex(t *testing.T) *index {
	x := &index{
		tree: load(t), base: map[string]bool{}, packages: map[string]map[string]bool{}, tests: map[string]bool{},
		targets: map[string]bool{}, parts: map[string]bool{}, settings: map[string]bool{},
	}
	for _, name := range x.tree.files {
		x.base[path.Base(name)] = true
	}
	for _, f := range x.tree.gos {
		x.addSymbols(f)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z -]*):`).FindAllStringSubmatch(readText(t, "Makefile"), -1) {
		for _, target := range strings.Fields(m[1]) {
			x.targets[target] = true
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^part_([a-z_]+)\(\)`).FindAllStringSubmatch(readText(t, ".ci/run"), -1) {
		x.parts[strings.ReplaceAll(m[1], "_", "-")] = true
	}
	page := readText(t, "docs/ops/configuration.md")
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(page, -1) {
		x.settings[m[1]] = true
	}
	return x
}

// addSymbols enters what a file declares at its top level, fields and methods
// by their type.
func (x *index) addSymbols(f *goFile) {
	name := strings.TrimSuffix(f.ast.Name.Name, "_test")
	if x.packages[name] == nil {
		x.packages[name] = map[string]bool{}
	}
	for _, d := range f.ast.Decls {
		for _, s := range symbolsOf(d) {
			x.packages[name][s] = true
			if f.test() {
				x.tests[s] = true
			}
		}
	}
}

func symbolsOf(d ast.Decl) (list []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiverName(d) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					list = append(list, n.Name)
				}
			case *ast.TypeSpec:
				list = append(list, s.Name.Name)
				for _, m := range members(s.Type) {
					list = append(list, s.Name.Name+"."+m)
				}
			}
		}
	}
	return list
}

// receiverName is the type that a method belongs to.
func receiverName(fn *ast.FuncDecl) (name string) {
	ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// members are the fields of a struct or the methods of an interface.
func members(t ast.Expr) (list []string) {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			list = append(list, n.Name)
		}
	}
	return list
}

// missing returns what the document name says that does not exist.
func (x *index) missing(name, text string) (findings []string) {
	report := func(kind, what string) {
		if _, known := notHere[what]; !known {
			findings = append(findings, fmt.Sprintf("%s names %s %s, which does not exist", name, kind, what))
		}
	}
	for _, m := range pathPattern.FindAllStringSubmatch(text, -1) {
		if p := strings.TrimRight(strings.TrimPrefix(m[1], "./"), "./-"); !x.exists(p) {
			report("the path", p)
		}
	}
	for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
		if p := path.Join(path.Dir(name), m[1]); !strings.Contains(m[1], "://") && !x.exists(p) {
			report("the link", m[1])
		}
	}
	for _, m := range namePattern.FindAllStringSubmatch(text, -1) {
		if !x.base[m[1]] {
			report("the file", m[1])
		}
	}
	for _, m := range symbolPattern.FindAllStringSubmatch(text, -1) {
		if s := strings.Trim(m[0], "`()"); !x.symbol(m[1], m[2], m[3]) && !x.settings[s] && !x.base[s] {
			report("the symbol", s)
		}
	}
	for _, m := range testPattern.FindAllString(text, -1) {
		if !x.tests[m] {
			report("the test", m)
		}
	}
	for _, m := range makePattern.FindAllStringSubmatch(text, -1) {
		if !x.targets[m[1]] {
			report("the make target", m[1])
		}
	}
	for _, m := range ciPattern.FindAllStringSubmatch(text, -1) {
		if !x.parts[m[1]] {
			report("the CI part", m[1])
		}
	}
	return findings
}

// exists reports whether p, which may hold wildcards, is a file or directory.
func (x *index) exists(p string) bool {
	if !strings.Contains(p, "*") {
		return x.tree.has(p) || x.tree.hasDir(p)
	}
	return slices.ContainsFunc(x.tree.files, func(name string) bool {
		for ; name != "."; name = path.Dir(name) {
			if ok, err := path.Match(p, name); ok && err == nil {
				return true
			}
		}
		return false
	})
}

// symbol reports whether pkg is no package of ours, or has the symbol.
func (x *index) symbol(pkg, first, second string) bool {
	symbols, ours := x.packages[pkg]
	if !ours || pkg == "main" {
		return true
	}
	if second == "" {
		return symbols[first]
	}
	return symbols[first+"."+second]
}

func TestDocumentsNameWhatExists(t *testing.T) {
	x := newIndex(t)
	for _, name := range documents(x.tree) {
		for _, finding := range x.missing(name, readText(t, name)) {
			t.Error(finding)
		}
	}
}

// Comments in the code that send the reader to a document name one that exists.
func TestCommentsNameDocumentsThatExist(t *testing.T) {
	x := newIndex(t)
	pattern := regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)
	for _, f := range x.tree.gos {
		for _, group := range f.ast.Comments {
			for _, p := range pattern.FindAllString(group.Text(), -1) {
				if !x.tree.has(p) {
					t.Errorf("%s: %s does not exist", f.at(group), p)
				}
			}
		}
	}
}

func TestDocumentCheckerFindsWhatIsMissing(t *testing.T) {
	x := newIndex(t)
	for _, s := range []sample{
		{"see internal/storage and `internal/lint/doc.go`.", ""},
		{"go test ./internal/lint/...", ""},
		{"read docs/adr/*.md", ""},
		{"`storage.Open`, `zk.ErrNoNode`, `znode.Tree.Apply()`", ""},
		{"`jute.maxbuffer` and `zoo.cfg`", ""},
		{"[formats](formats.md) and [Go](https://go.dev/x.md)", ""},
		{"TestPurePackagesArePure, `make fuzz FUZZTIME=1m`, .ci/run lint", ""},
		{"to make it bearable", ""},
		{"`doc.go` and `formats.md`", ""},
		{"see internal/storagee", "the path internal/storagee"},
		{"go run ./cmd/pinfoldd", "the path cmd/pinfoldd"},
		{"docs/adr/*.txt", "the path docs/adr/*.txt"},
		{"[formats](format.md)", "the link format.md"},
		{"`storage.Openn`", "the symbol storage.Openn"},
		{"`znode.Tree.Applied`", "the symbol znode.Tree.Applied"},
		{"`jute.minbuffer`", "the symbol jute.minbuffer"},
		{"`nosuch.go`", "the file nosuch.go"},
		{"FuzzNothingAtAll", "the test FuzzNothingAtAll"},
		{"`make cofee`", "the make target cofee"},
		{".ci/run cofee", "the CI part cofee"},
	} {
		got := x.missing("docs/sample.md", s.src)
		switch {
		case s.want == "" && len(got) > 0:
			t.Errorf("%q: found %q, want nothing", s.src, got)
		case s.want != "" && (len(got) != 1 || !strings.Contains(got[0], s.want)):
			t.Errorf("%q: found %q, want one finding with %q", s.src, got, s.want)
		}
	}
}

// unlisted returns the decisions that the table of the first one does not have, or
// that are out of order there.
func unlisted(files []string, table string) (findings []string) {
	at := 0
	for _, name := range files {
		base := path.Base(name)
		if path.Dir(name) != "docs/adr" || !strings.HasSuffix(base, ".md") {
			continue
		}
		number := strings.TrimLeft(base[:min(4, len(base))], "0")
		row := "\n| [" + number + "](" + base + ") | "
		i := strings.Index(table, row)
		switch {
		case i < 0:
			findings = append(findings, "docs/adr/0001-record-decisions.md does not list "+base)
		case i < at:
			findings = append(findings, "docs/adr/0001-record-decisions.md lists "+base+" out of order")
		}
		at = max(at, i)
	}
	return findings
}

func TestDecisionsAreListed(t *testing.T) {
	for _, finding := range unlisted(load(t).files, readText(t, "docs/adr/0001-record-decisions.md")) {
		t.Error(finding)
	}
}

func TestDecisionCheckerFindsWhatIsMissing(t *testing.T) {
	files := []string{"docs/adr/0001-a.md", "docs/adr/0002-b.md", "docs/adr/0010-c.md", "docs/zab.md"}
	one, two, ten := "\n| [1](0001-a.md) | a |", "\n| [2](0002-b.md) | b |", "\n| [10](0010-c.md) | c |"
	for table, want := range map[string]string{
		one + two + ten:                       "",
		one + ten:                             "does not list 0002-b.md",
		one + ten + two:                       "lists 0010-c.md out of order",
		one + "\n| 2 | 0002-b.md |" + ten:     "does not list 0002-b.md",
		one + two + "\n| [0010](0010-c.md) |": "does not list 0010-c.md",
	} {
		got := strings.Join(unlisted(files, table), "; ")
		if want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("of %q: %q, want %q", table, got, want)
		}
	}
}

// binaryBuild matches a command that builds the server.
var binaryBuild = regexp.MustCompile(`go build\b.*\./cmd/pinfold`)

// The binary is promised to be static: cgo is off wherever a reader, a script or
// CI builds it. (.ci/run part_build looks at the binary itself.)
func TestBinaryIsBuiltStatic(t *testing.T) {
	builds := 0
	for _, name := range load(t).files {
		for line := range strings.Lines(readText(t, name)) {
			if binaryBuild.MatchString(line) && !strings.Contains(name, "internal/lint/") {
				builds++
				if !strings.Contains(line, "CGO_ENABLED=0 go build") {
					t.Errorf("%s builds a dynamic binary: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if builds < 3 {
		t.Errorf("found %d builds: Makefile, .ci/run and README.md have one each", builds)
	}
}
