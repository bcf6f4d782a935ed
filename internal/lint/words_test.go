package lint

import (
	"fmt"
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// plain reports whether a file's comments are in plain English: a subject that is named, a
// standard verb. Those of all packages are, but the packages that exist for tests.
func plain(f *goFile) bool { return !f.test() && !strings.HasPrefix(f.path, "test/") }

// nameOrLink is what is not read in a line of a document: a name or an output, a mutant or a path, and the
// target of a link.
var nameOrLink = regexp.MustCompile("`[^`]*`|" + `\b[a-z]+/[\w-]+|` + linkPattern.String())

// riddles are words that plain comments and documents do not use: pronouns in place of the
// component that acts, and verbs and prepositions that mean nothing in particular.
var riddles = regexp.MustCompile(`\b(?:[Ww]ho|[Ww]hoever|[Ww]hom|[Ww]homever|[Nn]obody|[Ss]omebody|[Ee]verybody|[Aa]nybody|that which|in earnest|in vain|anew|behind|stands?|brings?|for good|held against|as good as|lives? by|save for|lest|shall|ought|nowhere)\b`)

// notPlain is the checker of words in comments, in log messages and in errors.
func notPlain(f *goFile) (findings []string) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !speaks(call) {
			return true
		}
		for _, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool { // a message may be put together of several literals
				part, _ := n.(*ast.BasicLit)
				if part == nil {
					return true
				}
				for _, word := range riddles.FindAllString(part.Value, -1) {
					findings = append(findings, fmt.Sprintf("%s: %q in a message: name the actor, and use a standard word", f.at(part), word))
				}
				return true
			})
		}
		return true
	})
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			for _, word := range riddles.FindAllString(c.Text, -1) {
				findings = append(findings, fmt.Sprintf("%s: %q in a comment: name the actor, and use a standard word", f.at(c), word))
			}
		}
	}
	return findings
}

// speaks reports whether call logs, or creates an error.
func speaks(call *ast.CallExpr) bool {
	if _, ok := loggedBy(call); ok {
		return true
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (is(s, "errors") && s.Sel.Name == "New" || is(s, "fmt") && s.Sel.Name == "Errorf")
}

func TestCommentsArePlain(t *testing.T) {
	checkAll(t, notPlain, plain)
}

func TestDocumentsArePlain(t *testing.T) {
	for _, name := range documents(load(t)) {
		for _, finding := range notPlainText(name, readText(t, name)) {
			t.Error(finding)
		}
	}
}

// notPlainText is the checker of words in a document.
func notPlainText(name, text string) (findings []string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, word := range riddles.FindAllString(nameOrLink.ReplaceAllString(line, ""), -1) {
			findings = append(findings, fmt.Sprintf("%s:%d: %q: name the actor, and use a standard word", name, number, word))
		}
	}
	return findings
}

func TestWordCheckerFindsRiddles(t *testing.T) {
	checkSamples(t, "internal/x/a.go", notPlain, []sample{
		{"// The caller that waits is woken.", ""},
		{"// Who waits is woken.", `"Who"`},
		{"// It is what whoever waits for it gets.", `"whoever"`},
		{"// An answer that nobody waits for.", `"nobody"`},
		{"// What stands in the queue.", `"stands"`},
		{"// The request behind it.", `"behind"`},
		{"// whose, whole, standard, brings", `"brings"`},
		{`var s = "who"`, ""},
		{"// The last one is kept for good.", `"for good"`},
		{`func f() { log.Info("a peer that nobody knows") }`, `"nobody" in a message`},
		{`func f() { x := fmt.Errorf("x: %w behind it", err) }`, `"behind" in a message`},
		{`func f() { x := errors.New("somebody has it") }`, `"somebody" in a message`},
		{`func f() { log.Info("a peer that "+"nobody knows", "id", 1) }`, `"nobody" in a message`},
		{`func f() { fmt.Println("nobody") }`, ""},
	})
	for text, want := range map[string]int{
		"The request after it.\n":                          0,
		"The request behind it.\n\nWho waits is woken.\n":  2,
		"`row-behind-writes`: [9](0009-wakes-nobody.md)\n": 0,
		"`a` behind `b`, [nobody](b.md)\n":                 2,
		"| prep/judged-by-nobody | Nobody judges. |\n":     1,
	} {
		if got := notPlainText("docs/x.md", text); len(got) != want {
			t.Errorf("%q: found %q, want %d", text, got, want)
		}
	}
}
