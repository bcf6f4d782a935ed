package lint

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is the repository's module path.
const module = "github.com/pinfold-zk/pinfold"

// root is the repository, seen from this package's directory.
const root = "../.."

// skippedDirs are not sources: outputs and what tools leave behind.
var skippedDirs = []string{".git", "build", "pinfold-data", "out", "__pycache__", ".pytest_cache"}

// A goFile is one parsed source file.
type goFile struct {
	path  string // from the root, with slashes
	lines int
	fset  *token.FileSet
	ast   *ast.File
}

func (f *goFile) test() bool { return strings.HasSuffix(f.path, "_test.go") }

// dir is the package's directory from the root; "pinfold" for the root itself.
func (f *goFile) dir() string {
	if dir := path.Dir(f.path); dir != "." {
		return dir
	}
	return path.Base(module)
}

// at is "path:line" of a node, for messages.
func (f *goFile) at(n ast.Node) string {
	return f.fset.Position(n.Pos()).String()
}

// A tree is all that the repository holds.
type tree struct {
	files []string // paths of all files, from the root, with slashes
	gos   []*goFile
}

func (t *tree) has(name string) bool {
	_, found := slices.BinarySearch(t.files, name)
	return found
}

// hasDir reports whether some file lies below dir.
func (t *tree) hasDir(dir string) bool {
	i, _ := slices.BinarySearch(t.files, dir+"/")
	return i < len(t.files) && strings.HasPrefix(t.files[i], dir+"/")
}

// loadOnce reads and parses the repository.
var loadOnce = sync.OnceValues(func() (*tree, error) {
	t := &tree{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && slices.Contains(skippedDirs, d.Name()):
			return filepath.SkipDir
		case d.IsDir(), d.Name() == ".git": // a file, in a work tree beside the first
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || !d.Type().IsRegular() || rel == ".git" { // a file in a work tree
			return err
		}
		t.files = append(t.files, filepath.ToSlash(rel))
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(t.files)
	for _, name := range t.files {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		f, err := parseGo(name, text)
		if err != nil {
			return nil, err
		}
		t.gos = append(t.gos, f)
	}
	return t, nil
})

func parseGo(name string, text []byte) (*goFile, error) {
	f := &goFile{path: name, lines: bytes.Count(text, []byte("\n")), fset: token.NewFileSet()}
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func load(t *testing.T) *tree {
	t.Helper()
	all, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	if len(all.gos) < 50 {
		t.Fatalf("found %d Go files below %s: this is not the repository", len(all.gos), root)
	}
	return all
}

func readText(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A checker returns what is wrong with one file, a line per finding.
type checker func(f *goFile) []string

// checkAll runs a checker over the files that want accepts.
func checkAll(t *testing.T, check checker, want func(*goFile) bool) {
	t.Helper()
	for _, f := range load(t).gos {
		if !want(f) {
			continue
		}
		for _, finding := range check(f) {
			t.Error(finding)
		}
	}
}

// sample is a source for the test of a checker, and a part of the one finding
// that it must have; "" is none.
type sample struct{ src, want string }

// checkSamples tests a checker.
func checkSamples(t *testing.T, name string, check checker, samples []sample) {
	t.Helper()
	for _, s := range samples {
		f, err := parseGo(name, []byte("package sample\n"+s.src))
		if err != nil {
			t.Fatalf("%q: %v", s.src, err)
		}
		got := check(f)
		switch {
		case s.want == "" && len(got) > 0:
			t.Errorf("%q: found %q, want nothing", s.src, got)
		case s.want != "" && (len(got) != 1 || !strings.Contains(got[0], s.want)):
			t.Errorf("%q: found %q, want one finding with %q", s.src, got, s.want)
		}
	}
}
