package znode

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrPath is what every error of ValidatePath wraps.
var ErrPath = errors.New("invalid path")

// ValidatePath checks that path may name a new znode (protocol page, section 7): it is
// absolute, has no empty, "." or ".." component, no slash at the end, and no character
// that ZooKeeper excludes. The error names the first violation.
func ValidatePath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w: it is empty", ErrPath)
	case path[0] != '/':
		return fmt.Errorf("%w %q: it must start with /", ErrPath, path)
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return fmt.Errorf("%w %q: it must not end with /", ErrPath, path)
	}
	if plain(path) {
		return nil
	}
	for rest := path[1:]; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if name == "" || name == "." || name == ".." {
			return fmt.Errorf("%w %q: component %q", ErrPath, path, name)
		}
	}
	for i, r := range path {
		if excluded(r) || r == utf8.RuneError && invalidAt(path, i) {
			return fmt.Errorf("%w %q: character %U at byte %d", ErrPath, path, r, i)
		}
	}
	return nil
}

// plain reports whether path, which begins with a slash and does not end with one, has
// only visible ASCII and no component that is empty or begins with a dot. Nearly all
// paths are plain.
func plain(path string) bool {
	prev := byte(0)
	for i := range len(path) {
		c := path[i]
		if c < 0x20 || c > 0x7e || prev == '/' && (c == '/' || c == '.') {
			return false
		}
		prev = c
	}
	return true
}

// excluded reports whether r may not be in a path. Apache checks UTF-16, where
// characters beyond the first plane are pairs of excluded surrogates.
func excluded(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

func invalidAt(s string, i int) bool {
	_, n := utf8.DecodeRuneInString(s[i:])
	return n <= 1
}

// Parent returns the path of path's parent; "" for a child of the root, and for a path
// without a slash.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return ""
}

// split splits path into the path of its parent, "" if that is the root, and its name.
// ok is false for the root itself and for some invalid paths; the look-up of the parent
// finds the others.
func split(path string) (parent, name string, ok bool) {
	slash := strings.LastIndexByte(path, '/')
	if slash < 0 || slash == len(path)-1 || path[:slash] == "/" {
		return "", "", false
	}
	return path[:slash], path[slash+1:], true
}

// The system znodes.
const (
	systemPath     = "/zookeeper"
	systemPrefix   = "/zookeeper/"
	quotaPath      = "/zookeeper/quota"
	ConfigPath     = "/zookeeper/config"
	limitsName     = "zookeeper_limits"
	statsName      = "zookeeper_stats"
	quotaPrefix    = quotaPath + "/"
	limitsSuffix   = "/" + limitsName
	statsSuffix    = "/" + statsName
	systemNodeCost = 1 // the root counts under both of its names, "" and "/"
)

// IsSystem reports whether path can never be deleted.
func IsSystem(path string) bool {
	switch path {
	case "/", systemPath, quotaPath, ConfigPath:
		return true
	}
	return false
}
