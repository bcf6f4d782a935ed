package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The results are those of `sh -c 'for w in ...'` for the same line.
func TestSplitWords(t *testing.T) {
	tests := []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  \t\n ", nil},
		{"-Xmx1g -Da=b", []string{"-Xmx1g", "-Da=b"}},
		{`-Da="b c" '-Dd=e f'`, []string{"-Da=b c", "-Dd=e f"}},
		{`-Da=b\ c`, []string{"-Da=b c"}},
		{`'' ""`, []string{"", ""}},
		{`"a\"b\\c\$d\e"`, []string{`a"b\c$d\e`}},
		{`'a\b"c'`, []string{`a\b"c`}},
		{"a\\\nb \"c\\\nd\"", []string{"ab", "cd"}},
		{`"$HOME" *`, []string{"$HOME", "*"}}, // nothing is expanded
		{`"open end`, []string{"open end"}},
		{`'open end`, []string{"open end"}},
		{`a\`, []string{"a"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, splitWords(tt.line)); diff != "" {
			t.Errorf("splitWords(%q) (-want +got):\n%s", tt.line, diff)
		}
	}
}

func FuzzSplitWords(f *testing.F) {
	f.Add(`-Da="b c" '-Dd=e f' g\ h "i`)
	f.Fuzz(func(t *testing.T, line string) {
		words := splitWords(line)
		size := 0
		quoted := make([]string, len(words))
		for i, w := range words {
			size += len(w)
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		if size > len(line) {
			t.Fatalf("splitWords(%q) grew to %q", line, words)
		}
		again := splitWords(strings.Join(quoted, " "))
		if strings.Join(again, "\x00") != strings.Join(words, "\x00") || len(again) != len(words) {
			t.Errorf("splitWords(%q) = %q; quoted and split again %q", line, words, again)
		}
	})
}

func TestParseFlags(t *testing.T) {
	got := parseFlags([]string{"-Xmx1g", "-Da=b=c", "-Dd", "-D", "-De=", "-server", "Df=g", "-XX:+UseG1GC"}, "here")
	want := []definition{{"a", "b=c", "here"}, {"d", "", "here"}, {"e", "", "here"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(definition{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
