package mutants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"testing/fstest"
)

// root is the module's root.
const root = "../.."

func read(t *testing.T) []Mutant {
	t.Helper()
	ms, err := Read(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// Every mutant applies to the source as it is, and the mutated packages are
// correct Go. Whether the mutants are found is TestFound's.
func TestApply(t *testing.T) {
	ms := read(t)
	changed := make([]map[string][]byte, len(ms))
	dirs := map[string]bool{}
	for i := range ms {
		var err error
		if changed[i], err = ms[i].Apply(os.DirFS(root)); err != nil {
			t.Error(err)
		}
		for file := range changed[i] {
			dirs[path.Dir(file)] = true
		}
	}
	c, err := newChecker(slices.Sorted(maps.Keys(dirs)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range ms {
		for _, dir := range dirsOf(changed[i]) {
			if err := c.check(dir, changed[i]); err != nil {
				t.Errorf("%s: %v", ms[i].Name, err)
			}
		}
	}
}

// The parts have every mutant once, in its order.
func TestChoose(t *testing.T) {
	ms, every := read(t), regexp.MustCompile("")
	const of = 3
	var parts [of][]Mutant
	for i := range parts {
		parts[i] = choose(ms, every, of, uint64(7*of+i))
	}
	for i := range ms {
		if got := parts[i%of][i/of].Name; got != ms[i].Name {
			t.Fatalf("mutant %d is %s, want %s", i, got, ms[i].Name)
		}
	}
	if n := len(parts[0]) + len(parts[1]) + len(parts[2]); n != len(ms) {
		t.Errorf("the parts have %d mutants of %d", n, len(ms))
	}
	if only := choose(ms, regexp.MustCompile("^prep/"), 1, 0); len(only) == 0 || len(only) == len(ms) {
		t.Errorf("%d mutants are of prep", len(only))
	}
}

func dirsOf(files map[string][]byte) []string {
	dirs := map[string]bool{}
	for file := range files {
		dirs[path.Dir(file)] = true
	}
	return slices.Sorted(maps.Keys(dirs))
}

// checker checks the types of single packages, against the compiled form of what
// they import.
type checker struct {
	fset     *token.FileSet
	packages map[string]*listed // by directory, relative to the root
	exports  map[string]string  // by import path: a file
	importer types.Importer
	parsed   map[string]*ast.File // of the files as they are
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard                bool
}

func newChecker(dirs []string) (*checker, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Standard"}
	for _, dir := range dirs {
		args = append(args, "./"+dir)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = abs, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	c := &checker{fset: token.NewFileSet(), packages: map[string]*listed{}, exports: map[string]string{}, parsed: map[string]*ast.File{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		c.exports[p.ImportPath] = p.Export
		if rel, err := filepath.Rel(abs, p.Dir); err == nil && !p.Standard {
			c.packages[filepath.ToSlash(rel)] = p
		}
	}
	c.importer = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	return c, nil
}

// check checks the package in dir, with some files changed.
func (c *checker) check(dir string, changed map[string][]byte) error {
	p := c.packages[dir]
	if p == nil {
		return fmt.Errorf("%s is not a package", dir)
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		name = path.Join(dir, name)
		f, err := c.parse(name, changed[name])
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: c.importer}
	_, err := conf.Check(p.ImportPath, c.fset, files, nil)
	return err
}

// parse parses a file; src is its text, nil if it is unchanged.
func (c *checker) parse(name string, src []byte) (*ast.File, error) {
	if src != nil {
		return parser.ParseFile(c.fset, name, src, parser.SkipObjectResolution)
	}
	if f := c.parsed[name]; f != nil {
		return f, nil
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	f, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
	c.parsed[name] = f
	return f, err
}

// A mutant that has rotted, or is not complete, is refused with the reason.
func TestRefused(t *testing.T) {
	const head = "A bug.\n\nfound by: test ./p TestP\n"
	for text, want := range map[string]string{
		head + "-- q --\nb\n-- becomes --\nc\n":                       "holds these lines 0 times",
		head + "-- q --\na\n-- becomes --\nc\n":                       "holds these lines 2 times",
		head + "-- r --\na\n-- becomes --\nc\n":                       "holds these lines 0 times",
		head + "-- q --\na\n-- becomes --\na\n":                       "changes nothing",
		head + "-- q --\n-- becomes --\na\n":                          "changes nothing",
		head + "-- becomes --\na\n":                                   "without lines to replace",
		head:                                                          "no edit",
		"A bug.\n-- q --\na\n-- becomes --\nb\n":                      "found by",
		"A bug.\nfound by: sim x\n-- q --\na\n-- becomes --\nb\n":     "no number of seeds",
		"A bug.\nfound by: luck\n-- q --\na\n-- becomes --\nb\n":      "want",
		"A bug.\nwith: p/none\n-- q --\na\n-- becomes --\nb\n":        "file does not exist",
		"A bug.\nlooked for: nowhere\n-- q --\na\n-- becomes --\nb\n": "neither",
	} {
		err := tryMutant(text)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if err := tryMutant(head + "-- q --\na\n}\n-- becomes --\n-- q --\n{\na\n-- becomes --\n"); err != nil {
		t.Error(err)
	}
}

// tryMutant reads a mutant and applies it to a package "q".
func tryMutant(text string) error {
	ms, err := Read(fstest.MapFS{"p/m.mutant": {Data: []byte(text)}})
	if err != nil {
		return err
	}
	var src fs.FS = fstest.MapFS{
		"q/a.go":      {Data: []byte("{\na\n ab\n{\n")},
		"q/b.go":      {Data: []byte("a\n}\n")},
		"q/a_test.go": {Data: []byte("a\n}\n")},
	}
	_, err = ms[0].Apply(src)
	return err
}
