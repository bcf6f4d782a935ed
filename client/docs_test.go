package client_test

import (
	"os"
	"strings"
	"testing"
)

// The guide's code is that of the examples, which are compiled.
func TestGuideShowsExamples(t *testing.T) {
	guide, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(guide)) {
		code, ok := strings.CutPrefix(line, "    ")
		code = strings.TrimSpace(code)
		if !ok || code == "" || strings.HasPrefix(code, "go ") {
			continue
		}
		if shown++; !strings.Contains(string(examples), code+"\n") {
			t.Errorf("no example has the line %q", code)
		}
	}
	if shown < 10 {
		t.Errorf("the guide shows %d lines of code", shown)
	}
}
