package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A block is one piece of code in a document: fenced by ``` or indented by four
// columns or more.
type block struct {
	file string
	line int    // of the first line of text
	lang string // after the opening fence; "" if there is none
	text string // without the indentation that all lines share
}

// looksLikeGo matches a block without a language that must be Go.
var looksLikeGo = regexp.MustCompile(`(?m):= |^func |^package |^case .*:$|\bif err != nil\b|\bclient\.\w+\(`)

func (b *block) isGo() bool { return b.lang == "go" || b.lang == "" && looksLikeGo.MatchString(b.text) }

// blocksOf returns the blocks of a document in order. An indented block ends at
// the first line with text that is indented less.
func blocksOf(file, text string) (blocks []block) {
	var open *block
	fenced := ""
	finish := func() {
		if open != nil {
			open.text = unindent(strings.TrimRight(open.text, "\n \t") + "\n")
			blocks = append(blocks, *open)
		}
		open = nil
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		trimmed := strings.TrimSpace(line)
		indented := strings.HasPrefix(line, "    ")
		switch {
		case fenced != "" && trimmed == fenced:
			finish()
			fenced = ""
		case fenced != "", open != nil && (indented || trimmed == ""):
			open.text += line
		case strings.HasPrefix(trimmed, "```"):
			finish()
			fenced = "```"
			open = &block{file: file, line: number + 1, lang: strings.TrimLeft(trimmed, "`")}
		default:
			finish()
			if indented && trimmed != "" {
				open = &block{file: file, line: number, text: line}
			}
		}
	}
	finish()
	return blocks
}

// unindent removes the blanks that all lines with text begin with.
func unindent(text string) string {
	least := -1
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		if n := len(line) - len(strings.TrimLeft(line, " ")); least < 0 || n < least {
			least = n
		}
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(line[min(max(least, 0), len(line)-len(strings.TrimLeft(line, " "))):])
	}
	return b.String()
}

// importable are the packages that code in a document may name without an import
// of its own.
var importable = []string{
	"context", "crypto/tls", "crypto/x509", "errors", "fmt", "log", "log/slog", "os", "sync", "time",
	module, module + "/client", module + "/recipe", module + "/zk",
}

// goFileOf makes a block a file of package documents. A block that is no file is the
// body of a function that has a ctx and a connected client c, and may return
// an error. Compilers report its errors by the lines of the document.
func goFileOf(b block, n int) string {
	at := fmt.Sprintf("//line %s:%d\n", path.Join("/", b.file), b.line)
	if strings.HasPrefix(b.text, "package ") {
		_, rest, _ := strings.Cut(b.text, "\n")
		return "package documents\n" + fmt.Sprintf("//line %s:%d\n", path.Join("/", b.file), b.line+1) + rest
	}
	var imports strings.Builder
	for _, p := range append([]string{"context", module + "/client"}, importable...) {
		used := regexp.MustCompile(`(?:^|[^.\w])` + path.Base(p) + `\.[A-Z]`).MatchString(b.text)
		signature := p == "context" || path.Base(p) == "client"
		if line := fmt.Sprintf("import %q\n", p); (used || signature) && !strings.Contains(imports.String(), line) {
			imports.WriteString(line)
		}
	}
	return fmt.Sprintf("package documents\n%sfunc block%d(ctx context.Context, c *client.Client) error {\n%s%s\nreturn nil\n}\n",
		imports.String(), n, at, b.text)
}

// compile builds the blocks as one package of the module, which exists in an overlay
// of the build only, and returns what the compiler says.
func compile(t *testing.T, blocks []block) string {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for i, b := range blocks {
		source := filepath.Join(dir, fmt.Sprintf("block%d.go", i))
		text := goFileOf(b, i)
		if _, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution); err != nil {
			return fmt.Sprintf("%s:%d: %v", b.file, b.line, err) // one syntax error would hide the errors of other blocks
		}
		if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(top, "internal", "lint", "documents", fmt.Sprintf("block%d.go", i))] = source
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-gcflags=-e", "-overlay", file, "./internal/lint/documents")
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	if err != nil && len(bytes.TrimSpace(out)) == 0 {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

func TestCodeInDocumentsCompiles(t *testing.T) {
	var blocks []block
	for _, name := range documents(load(t)) {
		blocks = append(blocks, slices.DeleteFunc(blocksOf(name, readText(t, name)), func(b block) bool { return !b.isGo() })...)
	}
	if len(blocks) < 10 {
		t.Errorf("found %d blocks of Go: README.md and docs/client.md have more", len(blocks))
	}
	if out := compile(t, blocks); out != "" {
		t.Errorf("the code in the documents does not compile:\n%s", out)
	}
}

func TestBlocksAreFound(t *testing.T) {
	const text = "Text\n\n    c, err := f()\n\n      if err != nil {}\nmore\n\n```go\nx()\n```\n- item\n\n      $ shell\n\n```\nplain\n```\n"
	want := []block{
		{"a.md", 3, "", "c, err := f()\n\n  if err != nil {}\n"}, {"a.md", 9, "go", "x()\n"},
		{"a.md", 13, "", "$ shell\n"}, {"a.md", 16, "", "plain\n"},
	}
	got := blocksOf("a.md", text)
	if !slices.Equal(got, want) {
		t.Fatalf("found %+v, want %+v", got, want)
	}
	for i, isGo := range []bool{true, true, false, false} {
		if got[i].isGo() != isGo {
			t.Errorf("%q is Go: %v, want %v", got[i].text, !isGo, isGo)
		}
	}
}

func TestCompilerFindsBreaks(t *testing.T) {
	good := block{"good.md", 1, "go", "if _, err := c.Set(ctx, \"/a\", nil, -1); errors.Is(err, zk.ErrNoNode) {\n\treturn err\n}\n"}
	if out := compile(t, []block{good}); out != "" {
		t.Errorf("a good block does not compile:\n%s", out)
	}
	for text, want := range map[string]string{
		"stat, err := c.Set(ctx, \"/a\", nil, -1)\nif err != nil {\n\treturn err\n}\n": "declared and not used: stat",
		"client.NoSuchThing()\n": "undefined: client.NoSuchThing",
		"if {\n":                 "missing condition",
	} {
		if out := compile(t, []block{good, {"bad.md", 7, "go", text}}); !strings.Contains(out, "bad.md:7") || !strings.Contains(out, want) {
			t.Errorf("of %q the compiler says %q, want bad.md:7 and %q", text, out, want)
		}
	}
}
