package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A section is replaced where it is; what people wrote around it stays.
func TestWriteSection(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.md")
	write := func(section, body string) string {
		t.Helper()
		if err := writeSection(name, section, "Title of "+section, body); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const first = "# Measured\n\n## Title of a\n\n<!-- begin measured: a -->\none\n<!-- end measured: a -->\n"
	if got := write("a", "one\n"); got != first {
		t.Errorf("a new page is %q, want %q", got, first)
	}
	got := write("b", "two")
	if !strings.HasPrefix(got, first) || !strings.Contains(got, "## Title of b\n\n<!-- begin measured: b -->\ntwo\n") {
		t.Errorf("with a second section it is %q", got)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(got, "## Title of b", "by hand\n\n## Other", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	got = write("a", "three\n")
	want := strings.Replace(first, "one", "three", 1) +
		"\nby hand\n\n## Other\n\n<!-- begin measured: b -->\ntwo\n<!-- end measured: b -->\n"
	if got != want {
		t.Errorf("the page is %q, want %q", got, want)
	}
}

func TestWriteSectionWithoutEnd(t *testing.T) {
	const page = "<!-- begin measured: a -->\nwhat people wrote"
	if got, err := replaceSection(page, "a", "A", "b"); err == nil {
		t.Errorf("the page became %q", got)
	}
}
