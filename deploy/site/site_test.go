package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repositoryOf makes a repository with a document of this text beside others.
func repositoryOf(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"README.md": "# Pinfold\n", "CHANGELOG.md": "# Changelog\n", "CONTRIBUTING.md": "# Contributing\n",
		"docs/ops/b.md": "# The `b`, page\n\n## One: two_three\n\n## One: two_three\n", "docs/a.md": text, "docs/a.svg": "<svg/>", "test/run": "",
	} {
		if err := writeFile(root, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestLinks(t *testing.T) {
	for link, want := range map[string]string{
		"ops/b.md":                    "../docs/ops/b.html",
		"ops/b.md#the-b-page":         "../docs/ops/b.html#the-b-page",
		"ops/b.md#one-two_three-1":    "../docs/ops/b.html#one-two_three-1",
		"../README.md":                "../index.html",
		"#here":                       "../docs/a.html#here",
		"a.svg":                       "../docs/a.svg",
		"../test/run":                 repository + "test/run",
		"https://example.org/#nobody": "https://example.org/#nobody",
		"ops/b.md#two":                "!docs/a.md: link ops/b.md#two: docs/ops/b.md has no heading #two",
		"#nowhere":                    "!docs/a.md: link #nowhere: docs/a.md has no heading #nowhere",
		"ops/c.md":                    "!docs/a.md: link ops/c.md: ",
	} {
		root, out := repositoryOf(t, "# Here\n\n[link]("+link+")\n"), t.TempDir()
		s, err := load(root)
		if wrong, ok := strings.CutPrefix(want, "!"); ok {
			if err == nil || !strings.HasPrefix(err.Error(), wrong) {
				t.Errorf("%s: error %v, want %q", link, err, wrong)
			}
			continue
		}
		if err == nil {
			err = s.write(out)
		}
		if err != nil {
			t.Errorf("%s: %v", link, err)
			continue
		}
		text, err := os.ReadFile(filepath.Join(out, "docs/a.html"))
		if err != nil || !strings.Contains(string(text), `<a href="`+want+`">link</a>`) {
			t.Errorf("%s does not become %s (%v):\n%s", link, want, err, text)
		}
	}
}

func TestSearch(t *testing.T) {
	root, out := repositoryOf(t, "# Here\n\n| a | b |\n|---|---|\n| some *words* | `code` |\n\n    command\n"), t.TempDir()
	s, err := load(root)
	if err == nil {
		err = s.write(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "search.js"))
	want := `{"title":"Here","url":"docs/a.html#here","text":"a b some words code command "}`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %s, want %s", err, text, want)
	}
}
