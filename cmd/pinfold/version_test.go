package main

import (
	"runtime/debug"
	"testing"
)

// A binary that `go install` has made of a fetched module knows its version by the module alone.
func TestVersionOf(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v1.2.3", nil, "v1.2.3"},
		{"v0.0.0-20261125234738-ac62c60abcde", nil, "v0.0.0-20261125234738-ac62c60abcde"},
		{"(devel)", commit, "0123456789ab"},
		{"", commit, "0123456789ab"},
		{"(devel)", nil, "devel"},
	} {
		if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}); got != c.want {
			t.Errorf("%q with %v: %q, want %q", c.version, c.settings, got, c.want)
		}
	}
}
