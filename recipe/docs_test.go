package recipe_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the code of docs/recipes.md anew")

// example matches the code of an example that docs/recipes.md shows, up to its output.
var example = regexp.MustCompile(`(?ms)^func Example(\w+)\(\) \{\n(.*?)^\t// Output:`)

// shown matches the code in docs/recipes.md.
var shown = regexp.MustCompile("(?ms)^<!-- Example(\\w+) -->\n```go\n.*?^```\n")

// failed matches what an example does with an error, where other code would return it.
var failed = regexp.MustCompile(`(?m)^(\t\t)fmt\.Println\(err\)\n\t\treturn\n`)

// asCode is an example as a reader needs it: without the test's server, whose clients are
// all called c.
func asCode(body string) string {
	body = strings.NewReplacer("\ts, t, stop := exampleServer()\n\tdefer stop()\n", "", "\tctx := context.Background()\n", "",
		"context.WithCancel(context.Background())", "context.WithCancel(ctx)", "s.Client(t)", "c").Replace(body)
	body = failed.ReplaceAllString(body, "${1}return err\n")
	return strings.Trim(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n") + "\n"
}

// Every recipe has its example in docs/recipes.md.
func TestGuideShowsExamples(t *testing.T) {
	files, err := filepath.Glob("*example*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range example.FindAllStringSubmatch(string(text), -1) {
			code[m[1]] = asCode(m[2])
		}
	}
	const guide = "../docs/recipes.md"
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	want := shown.ReplaceAllStringFunc(string(text), func(old string) string {
		name := shown.FindStringSubmatch(old)[1]
		seen[name] = true
		return fmt.Sprintf("<!-- Example%s -->\n```go\n%s```\n", name, code[name])
	})
	for name := range code {
		if !seen[name] {
			t.Errorf("%s does not show Example%s", guide, name)
		}
	}
	for name := range seen {
		if code[name] == "" {
			t.Errorf("%s shows Example%s, which does not exist", guide, name)
		}
	}
	switch {
	case *update:
		if err := os.WriteFile(guide, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	case want != string(text):
		t.Errorf("the code of %s is not that of the examples: run with -update", guide)
	}
}
