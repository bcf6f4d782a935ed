// Package documents finds what the documents of the repository quote, for tests that
// the quotes are right.
package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Each calls f with each match of a pattern in a document, as FindStringSubmatch
// returns it. root is the path of the repository's root. The test fails if there are
// fewer than least matches: then the pattern has come apart from the documents.
func Each(t *testing.T, root string, pattern *regexp.Regexp, least int, f func(file string, match []string)) {
	t.Helper()
	found := 0
	for _, place := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, place))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %q, %v", place, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
				found++
				f(file, match)
			}
		}
	}
	if found < least {
		t.Errorf("%v matches %d times", pattern, found)
	}
}
