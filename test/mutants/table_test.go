package mutants

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The table of all mutants is in page, between begin and end.
const (
	page      = "docs/testing.md"
	begin     = "<!-- The table is written by: go test ./test/mutants -run TestFound -found -update -timeout 30m -->\n\n"
	end       = "\n<!-- end of the mutants -->"
	tableHead = "| mutant | bug | found by |\n|---|---|---|\n"
)

// rowHead is what a mutant's row in the table begins with.
func rowHead(m *Mutant) string { return fmt.Sprintf("| %s | %s | ", m.Name, m.What) }

// row is a mutant's row in the table.
func row(m *Mutant, how []string) string { return rowHead(m) + strings.Join(how, "; ") + " |\n" }

// splitPage returns the page before the table, the table, and what is after it.
func splitPage() (before, table, after string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return "", "", "", err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%s has no %q ... %q", page, begin, end)
	}
	return before, table, after, nil
}

// updateTable writes the table anew: a row for each mutant, that of rows if it is
// there, else the one that the page has.
func updateTable(ms []Mutant, rows []string) error {
	before, table, after, err := splitPage()
	if err != nil {
		return err
	}
	lines := slices.Concat(rows, strings.SplitAfter(table, "\n"))
	table = tableHead
	for i := range ms {
		head := rowHead(&ms[i])
		at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, head) })
		if at < 0 {
			table += head + "not run |\n"
			continue
		}
		table += lines[at]
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(page)), []byte(before+begin+table+end+after), 0o644)
}

// The documentation names every mutant, and no other.
func TestTable(t *testing.T) {
	_, table, _, err := splitPage()
	if err != nil {
		t.Fatal(err)
	}
	rows, ok := strings.CutPrefix(table, tableHead)
	if !ok {
		t.Fatalf("%s: the table does not begin with\n%s", page, tableHead)
	}
	lines := strings.SplitAfter(rows, "\n")
	ms := read(t)
	if len(lines)-1 != len(ms) {
		t.Errorf("%s has %d mutants, there are %d", page, len(lines)-1, len(ms))
	}
	for i := range min(len(ms), len(lines)) {
		if want := rowHead(&ms[i]); !strings.HasPrefix(lines[i], want) {
			t.Fatalf("%s: want %q, got %q", page, want, lines[i])
		}
	}
}
