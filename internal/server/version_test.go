package server

import (
	"runtime/debug"
	"testing"
	"time"
)

// The commit of a binary is what the linker's stamp says, then what Go has seen of the repository, then
// what the version of the module has.
func TestCommit(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	repository := []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-11-25T23:47:38Z"}}
	for _, c := range []struct {
		name, stamp, version string
		settings             []debug.BuildSetting
		revision             string
		at                   time.Time
	}{
		{"stamped", "fedcba9876543210 2026-11-24T01:02:03Z", "v0.0.0-20261125234738-ac62c60abcde", repository, "fedcba9876543210", time.Date(2026, 11, 24, 1, 2, 3, 0, time.UTC)},
		{"of a repository", "", "v0.0.0-20261125234738-ac62c60abcde", repository, hash, time.Date(2026, 11, 25, 23, 47, 38, 0, time.UTC)},
		{"installed by commit", "", "v0.0.0-20261125234738-ac62c60abcde", nil, "ac62c60abcde", time.Date(2026, 11, 25, 23, 47, 38, 0, time.UTC)},
		{"installed by commit, after a release", "", "v1.2.4-0.20261125234738-ac62c60abcde", nil, "ac62c60abcde", time.Date(2026, 11, 25, 23, 47, 38, 0, time.UTC)},
		{"installed by release", "", "v1.2.3", nil, "", time.Time{}},
		{"neither", "", "(devel)", nil, "", time.Time{}},
	} {
		revision, at := commitOf(c.stamp, &debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings})
		if revision != c.revision || !at.Equal(c.at) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, revision, at, c.revision, c.at)
		}
	}
}
