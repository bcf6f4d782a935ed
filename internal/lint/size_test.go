package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the present sizes into docs/architecture.md")

// The tables of docs/architecture.md about the size of the source: the last column of a row
// says what is now. A row names packages, or a type, or is the one of the longest functions.
const sizesPage = "docs/architecture.md"

var (
	sizesHead = "## Size\n"
	linesRow  = regexp.MustCompile("^\\| ((?:`[^`]+`|package pinfold)(?:, (?:`[^`]+`|package pinfold))*) \\|.* (\\S+) \\|$")
	allRow    = regexp.MustCompile(`^\| all \|.* (\S+) \|$`)
	typeRow   = regexp.MustCompile("^\\| (methods|fields) of `([a-z]+)\\.(\\w+)` \\|.* (\\S+) \\|$")
	longRow   = regexp.MustCompile(`^\| the longest functions \| (.*) \|$`)
)

// sizes are the numbers that the tables state.
type sizes struct {
	lines   map[string]int // by the directory of a package
	methods map[string]int // by package and type
	fields  map[string]int
	longest []longFunction // the longest first
}

type longFunction struct {
	name  string // with its package
	lines int
}

func (l longFunction) String() string { return fmt.Sprintf("`%s` %d", l.name, l.lines) }

// measure returns the sizes of the product's source: without tests, this package, test/, and the
// programs of deploy/.
func measure(gos []*goFile) sizes {
	s := sizes{lines: map[string]int{}, methods: map[string]int{}, fields: map[string]int{}}
	for _, f := range gos {
		if f.test() || strings.HasPrefix(f.path, "test/") || strings.HasPrefix(f.path, "deploy/") || f.dir() == "internal/lint" {
			continue
		}
		s.lines[f.dir()] += f.lines
		pkg := f.ast.Name.Name + "."
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := pkg
				if d.Recv != nil {
					of := receiver(d.Recv.List[0].Type)
					s.methods[pkg+of]++
					name += of + "."
				}
				lines := f.fset.Position(d.End()).Line - f.fset.Position(d.Pos()).Line + 1
				s.longest = append(s.longest, longFunction{name + d.Name.Name, lines})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok {
						if st, ok := t.Type.(*ast.StructType); ok {
							s.fields[pkg+t.Name.Name] = numFields(st)
						}
					}
				}
			}
		}
	}
	slices.SortStableFunc(s.longest, func(a, b longFunction) int { return b.lines - a.lines })
	return s
}

// receiver is the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// numFields counts fields; an embedded one is one.
func numFields(st *ast.StructType) (n int) {
	for _, f := range st.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

// rewriteSizes returns the page with the present numbers, and what was wrong: a number that
// is wrong by more than a twentieth, a package in no row or in two, a type that does not
// exist. So most changes need no update of the page.
func rewriteSizes(page string, s *sizes) (rewritten string, findings []string) {
	before, after, found := strings.Cut(page, sizesHead)
	if !found {
		return page, []string{"there is no section " + strings.TrimSpace(sizesHead)}
	}
	section, rest, _ := strings.Cut(after, "\n## ")
	rows, listed, all := strings.Split(section, "\n"), map[string]bool{}, 0
	for _, n := range s.lines {
		all += n
	}
	put := func(row *string, stated string, n int) {
		if was, err := strconv.Atoi(strings.ReplaceAll(stated, ",", "")); err != nil || max(was-n, n-was)*20 > n {
			findings = append(findings, fmt.Sprintf("the row %q has to say %s", *row, grouped(n)))
		}
		*row = strings.TrimSuffix(*row, " "+stated+" |") + " " + grouped(n) + " |"
	}
	for i := range rows {
		row := &rows[i]
		if m := typeRow.FindStringSubmatch(*row); m != nil {
			counts := map[string]map[string]int{"methods": s.methods, "fields": s.fields}[m[1]]
			put(row, m[4], counts[m[2]+"."+m[3]])
		} else if m := allRow.FindStringSubmatch(*row); m != nil {
			put(row, m[1], all)
		} else if m := longRow.FindStringSubmatch(*row); m != nil {
			now := listOf(s.longest[:min(5, len(s.longest))])
			if m[1] != now && !longestStated(m[1], s.longest) {
				findings = append(findings, "the longest functions are "+now)
			}
			*row = "| the longest functions | " + now + " |"
		} else if m := linesRow.FindStringSubmatch(*row); m != nil {
			n := 0
			for _, name := range strings.Split(m[1], ", ") {
				name = strings.TrimPrefix(strings.Trim(name, "`"), "package ")
				if s.lines[name] == 0 || listed[name] {
					findings = append(findings, "the package "+name+" does not exist, or is in two rows")
				}
				listed[name] = true
				n += s.lines[name]
			}
			put(row, m[2], n)
		}
	}
	for name := range s.lines {
		if !listed[name] {
			findings = append(findings, "the package "+name+" is in no row")
		}
	}
	slices.Sort(findings)
	return before + sizesHead + strings.Join(rows, "\n") + "\n## " + rest, findings
}

func listOf(fs []longFunction) string {
	var texts []string
	for _, f := range fs {
		texts = append(texts, f.String())
	}
	return strings.Join(texts, ", ")
}

// longestStated reports whether a row names the longest function, with its length.
func longestStated(row string, longest []longFunction) bool {
	return len(longest) == 0 || strings.HasPrefix(row, longest[0].String())
}

// grouped is n with a comma between thousands.
func grouped(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func TestSizesAreStated(t *testing.T) {
	s := measure(load(t).gos)
	page, findings := rewriteSizes(readText(t, sizesPage), &s)
	if *update {
		if err := os.WriteFile(filepath.Join(root, sizesPage), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, finding := range findings {
		t.Errorf("%s: %s; go test ./internal/lint -run TestSizes -update writes numbers", sizesPage, finding)
	}
}

func TestSizeCheckerFindsBreaks(t *testing.T) {
	f, err := parseGo("internal/a/x.go", []byte("package a\n\ntype T struct {\n\tx, y int\n\tU\n}\n\nfunc (t *T) long() {\n\tf()\n}\n\nfunc f() {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s := measure([]*goFile{f})
	const page = "## Size\n\n| `internal/a` | 7 | 12 |\n| all | 7 | 12 |\n| methods of `a.T` | 1 |\n| fields of `a.T` | 3 |\n" +
		"| the longest functions | `a.T.long` 3, `a.f` 1 |\n\n## Next\n"
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"`internal/a` | 7 | 12", "`internal/a` | 7 | 11", `the row "| ` + "`internal/a`" + ` | 7 | 11 |" has to say 12`},
		{"all | 7 | 12", "all | 7 | 13", `the row "| all | 7 | 13 |" has to say 12`},
		{"methods of `a.T` | 1", "methods of `a.T` | 2", "the row \"| methods of `a.T` | 2 |\" has to say 1"},
		{"fields of `a.T` | 3", "fields of `a.T` | 2", "the row \"| fields of `a.T` | 2 |\" has to say 3"},
		{"`a.T.long` 3", "`a.T.long` 4", "the longest functions are `a.T.long` 3, `a.f` 1"},
		{"`internal/a` |", "`internal/b` |", "the package internal/a is in no row"},
	} {
		was := strings.Replace(page, c.old, c.new, 1)
		rewritten, findings := rewriteSizes(was, &s)
		if got := strings.Join(findings, "; "); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("of %q: %q, want %q", was, got, c.want)
		}
		if rewritten != page && !strings.Contains(c.new, "internal/b") {
			t.Errorf("%q was rewritten to %q", was, rewritten)
		}
	}
}
