package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainPackages are the directories whose comments are in plain English: a subject that
// is named, a standard verb. The list grows; it is to hold every package.
var plainPackages = []string{
	"client", "cmd/pinfold", "internal/cli", "internal/config", "internal/metric", "internal/node", "internal/node/options",
	"internal/pipeline", "internal/prep", "internal/rawio", "internal/refusal", "internal/replica", "internal/session",
	"internal/sim", "internal/socket", "internal/storage", "internal/transport", "internal/trial", "internal/vfs",
	"internal/watch", "internal/znode", "pinfold", "recipe",
}

// plainDocuments are the documents for which the same holds.
var plainDocuments = []string{"README.md", "docs/cli.md", "docs/client.md", "docs/recipes.md"}

// riddles are words that comments of plainPackages do not use: pronouns in place of the
// component that acts, and verbs and prepositions that mean nothing in particular.
var riddles = regexp.MustCompile(`\b(?:[Ww]ho|[Ww]hoever|[Ww]hom|[Ww]homever|[Nn]obody|[Ss]omebody|[Ee]verybody|[Aa]nybody|that which|in earnest|in vain|anew|behind|stands?|brings?)\b`)

// notPlain is the checker of words in comments.
func notPlain(f *goFile) (findings []string) {
	for _, group := range f.ast.Comments {
		for _, c := range group.List {
			for _, word := range riddles.FindAllString(c.Text, -1) {
				findings = append(findings, fmt.Sprintf("%s: %q in a comment: name the actor, and use a standard word", f.at(c), word))
			}
		}
	}
	return findings
}

func TestCommentsArePlain(t *testing.T) {
	checkAll(t, notPlain, func(f *goFile) bool { return !f.test() && slices.Contains(plainPackages, f.dir()) })
	for _, dir := range plainPackages {
		if dir != path.Base(module) && !load(t).hasDir(dir) {
			t.Errorf("plainPackages has %s, which does not exist", dir)
		}
	}
}

func TestDocumentsArePlain(t *testing.T) {
	for _, name := range plainDocuments {
		number := 0
		for line := range strings.Lines(readText(t, name)) {
			number++
			for _, word := range riddles.FindAllString(line, -1) {
				t.Errorf("%s:%d: %q: name the actor, and use a standard word", name, number, word)
			}
		}
	}
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
	})
}
