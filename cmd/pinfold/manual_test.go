package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that a user sees has a man page with its flags and examples, and shells
// have their completions.
func TestManual(t *testing.T) {
	root, dir := newRoot(), t.TempDir()
	if err := writeManual(root, dir); err != nil {
		t.Fatal(err)
	}
	pages := 0
	eachCommand(root, func(c *cobra.Command) {
		pages++
		text, err := os.ReadFile(filepath.Join(dir, "man1", pageName(c)+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("the page of %s has no %q", c.CommandPath(), want)
			}
		}
		if c.Example != "" && !bytes.Contains(text, []byte(".SH EXAMPLES\n")) {
			t.Errorf("the page of %s has no examples", c.CommandPath())
		}
	})
	if pages < 20 {
		t.Errorf("%d pages", pages)
	}
	text, err := os.ReadFile(filepath.Join(dir, "man1", "pinfold-server.1"))
	if err != nil || !bytes.Contains(text, []byte(".B \\-\\-log\\-format string\ntext or json (default text)\n")) {
		t.Errorf("%v: the page of server does not describe --log-format:\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "man1", "pinfold-broadcast.1")); err == nil {
		t.Error("a hidden command has a page")
	}
	for _, name := range []string{"pinfold", "_pinfold", "pinfold.fish"} {
		if info, err := os.Stat(filepath.Join(dir, "completions", name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestRoff(t *testing.T) {
	if got, want := roff(".a\n'b\n-c \\n"), "\\&.a\n\\&'b\n\\-c \\en"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSBOM(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.0", Main: debug.Module{Path: "example.org/x", Version: "(devel)"},
		Deps:     []*debug.Module{{Path: "example.org/y", Version: "v1.2.3", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-22T00:00:00Z"}},
	}
	var out bytes.Buffer
	if err := writeSBOM(&out, info); err != nil || !json.Valid(out.Bytes()) {
		t.Fatalf("%v: %s", err, out.String())
	}
	for _, want := range []string{
		`"purl": "pkg:golang/example.org/x@0123456789ab"`, `"purl": "pkg:golang/std@1.26.0"`, `"purl": "pkg:golang/example.org/y@v1.2.3"`,
		`"timestamp": "2026-11-22T00:00:00Z"`, `"content": "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}
