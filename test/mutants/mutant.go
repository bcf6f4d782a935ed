// Package mutants puts bugs into the product, one at a time, to prove that the
// tests find them. A mutant is a text file that edits the product's source: the
// edit is given to the compiler with -overlay, so the product holds no code for
// it and the work tree never changes.
//
// A mutant's file AREA/NAME.mutant says what the bug is, what finds it and what
// changes:
//
//	A transaction is acknowledged before it is durable.
//
//	with: zab/assertions-off
//	found by: sim 300 AckedIsDurable
//	found by: test ./internal/zab TestChaos -seeds 3000
//	-- internal/zab --
//	the lines as they are, which the package must hold exactly once
//	-- becomes --
//	the lines with the bug
//
// "with" adds the edits of AREA/NAME.edit, which several mutants share. Each
// "found by" must find the bug: "sim N INVARIANT..." runs up to N seeds of the
// simulator and expects one of the invariants to be violated (any, if none is
// named); "test PACKAGE NAME ARGS..." runs one test, or with NAME/CASE one of its
// cases, which must fail.
//
// When the source has changed such that an edit no longer applies, go test fails:
// write the bug anew for the new source, or remove the mutant with the mechanism
// that it attacked.
package mutants

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mutant is a bug that can be put into the product.
type Mutant struct {
	Name  string // AREA/NAME
	What  string // the bug, in a sentence
	Edits []Edit // in the order in which they are applied
	Hunts []Hunt // each must find the bug; there is at least one
}

// Edit replaces Old by New. Exactly one file of the package in Dir, tests left out,
// must hold Old, and once. Both are whole lines; New may be empty. Dir is relative
// to the root of the module; it may name one file instead.
type Edit struct {
	Dir, Old, New string
}

// Hunt is a way to find a bug: the simulator if Seeds is not 0, else a test.
type Hunt struct {
	Seeds      int
	Invariants []string // one of them must be violated; none: any

	Package string // ./internal/zab
	Test    string // the name of a test, which must fail
	Args    []string
}

// Read reads all mutants of a directory, sorted by name.
func Read(dir fs.FS) ([]Mutant, error) {
	names, err := fs.Glob(dir, "*/*.mutant")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var ms []Mutant
	for _, name := range names {
		m, err := parse(dir, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		ms = append(ms, *m)
	}
	return ms, nil
}

func parse(dir fs.FS, name string) (*Mutant, error) {
	text, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, err
	}
	m := &Mutant{Name: strings.TrimSuffix(name, ".mutant")}
	head, body := cutHead(string(text))
	for line := range strings.Lines(head) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
		case m.What == "":
			m.What = line
		case key == "with":
			err = m.include(dir, value)
		case key == "found by":
			err = m.addHunt(strings.Fields(value))
		default:
			err = fmt.Errorf("line %q is neither \"with: \" nor \"found by: \"", line)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(m.Hunts) == 0 {
		return nil, fmt.Errorf("no line \"found by: \"")
	}
	own, err := parseEdits(body)
	if err == nil && len(own) == 0 {
		err = fmt.Errorf("no edit")
	}
	m.Edits = append(m.Edits, own...)
	return m, err
}

// include adds the edits of a file that several mutants share.
func (m *Mutant) include(dir fs.FS, name string) error {
	text, err := fs.ReadFile(dir, path.Clean(name)+".edit")
	if err != nil {
		return err
	}
	_, body := cutHead(string(text))
	es, err := parseEdits(body)
	m.Edits = append(m.Edits, es...)
	return err
}

func (m *Mutant) addHunt(fields []string) error {
	switch {
	case len(fields) >= 2 && fields[0] == "sim":
		n, err := strconv.Atoi(fields[1])
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is no number of seeds", fields[1])
		}
		m.Hunts = append(m.Hunts, Hunt{Seeds: n, Invariants: fields[2:]})
	case len(fields) >= 3 && fields[0] == "test":
		m.Hunts = append(m.Hunts, Hunt{Package: fields[1], Test: fields[2], Args: fields[3:]})
	default:
		return fmt.Errorf("found by %q: want \"sim N INVARIANT...\" or \"test PACKAGE NAME ARGS...\"", fields)
	}
	return nil
}

// cutHead returns what comes before the first marker, and the rest.
func cutHead(text string) (head, body string) {
	if i := strings.Index("\n"+text, "\n-- "); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// becomes is the marker between an edit's old and new lines.
const becomes = "becomes"

func parseEdits(body string) (es []Edit, err error) {
	var to *string // where the next lines go
	for line := range strings.Lines(body) {
		inner, opened := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		marker, closed := strings.CutSuffix(inner, " --")
		switch {
		case !opened || !closed:
			*to += line // the body begins with a marker
		case marker == becomes:
			if to == nil || len(es) == 0 || to != &es[len(es)-1].Old {
				return nil, fmt.Errorf("%q without lines to replace", line)
			}
			to = &es[len(es)-1].New
		default:
			es = append(es, Edit{Dir: marker})
			to = &es[len(es)-1].Old
		}
	}
	for _, e := range es {
		if e.Old == "" || e.Old == e.New {
			return nil, fmt.Errorf("an edit of %s changes nothing", e.Dir)
		}
	}
	return es, nil
}

// Apply returns the files that the mutant changes, by name, as they are with the
// bug. src holds the module's source. An edit whose old lines are not there
// exactly once is an error.
func (m *Mutant) Apply(src fs.FS) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range m.Edits {
		if err := e.apply(src, changed); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return changed, nil
}

// apply makes one edit, on top of those that changed holds.
func (e *Edit) apply(src fs.FS, changed map[string][]byte) error {
	pattern := e.Dir + "/*.go"
	if path.Ext(e.Dir) == ".go" {
		pattern = e.Dir
	}
	names, err := fs.Glob(src, pattern)
	if err != nil {
		return err
	}
	file, text, found := "", []byte(nil), []int(nil)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, ok := changed[name]
		if !ok {
			if b, err = fs.ReadFile(src, name); err != nil {
				return err
			}
		}
		if at := places(string(b), e.Old); len(at) > 0 {
			file, text, found = name, b, append(found, at...)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("%s holds these lines %d times, not once:\n%s", e.Dir, len(found), e.Old)
	}
	changed[file] = slices.Concat(text[:found[0]], []byte(e.New), text[found[0]+len(e.Old):])
	return nil
}

// places returns where in the text whole lines are.
func places(text, lines string) (at []int) {
	for i := 0; i < len(text); {
		if strings.HasPrefix(text[i:], lines) {
			at = append(at, i)
		}
		next := strings.IndexByte(text[i:], '\n')
		if next < 0 {
			break
		}
		i += next + 1
	}
	return at
}
