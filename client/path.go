package client

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// CheckPath reports why path cannot name a znode, in the words of Apache's client.
// Operations refuse such a path before anything is sent, with zk.ErrBadArguments
// and this error.
func CheckPath(path string) error {
	switch {
	case path == "":
		return errors.New("Path length must be > 0")
	case path[0] != '/':
		return errors.New("Path must start with / character")
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return errors.New("Path must not end with / character")
	case plain(path):
		return nil
	}
	if reason := offence(path); reason != "" {
		//lint:ignore ST1005 these are Apache's words
		return fmt.Errorf("Invalid path string \"%s\" caused by %s", path, reason)
	}
	return nil
}

// checkCreate reports why a create cannot be sent.
func checkCreate(path string, mode zk.CreateMode, op wire.OpCode, ttl time.Duration) error {
	switch {
	case !mode.Valid():
		return fmt.Errorf("create mode %d does not exist", mode)
	case mode.IsTTL() != (op == wire.OpCreateTTL):
		return errors.New("a time to live goes with a mode that has one")
	case mode.IsTTL() && ttl < time.Millisecond:
		return fmt.Errorf("a time to live of %v: must be 1 ms or more", ttl)
	case mode.IsSequential():
		return CheckPath(path + "1") // what the server makes of it ends with digits
	}
	return CheckPath(path)
}

// plain reports whether path, which begins with a slash and does not end with
// one, has only visible ASCII and no component that is empty or begins with a
// dot: nearly every path.
func plain(path string) bool {
	prev := byte(0)
	for i := range len(path) {
		b := path[i]
		if b < 0x20 || b > 0x7e || prev == '/' && (b == '/' || b == '.') {
			return false
		}
		prev = b
	}
	return true
}

// offence names the first thing that is wrong with path. Positions count UTF-16
// units, as Apache's do.
func offence(path string) string {
	chars := utf16.Encode([]rune(path))
	for i := 1; i < len(chars); i++ {
		ch := chars[i]
		switch {
		case ch == 0:
			return fmt.Sprintf("null character not allowed @%d", i)
		case ch == '/' && chars[i-1] == '/':
			return fmt.Sprintf("empty node name specified @%d", i)
		case ch == '.' && relative(chars, i):
			return fmt.Sprintf("relative paths not allowed @%d", i)
		case ch < 0x20 || ch >= 0x7f && ch <= 0x9f || ch >= 0xd800 && ch <= 0xf8ff || ch >= 0xfff0:
			return fmt.Sprintf("invalid character @%d", i)
		}
	}
	return ""
}

// relative reports whether the dot at i ends a component that is "." or "..".
func relative(chars []uint16, i int) bool {
	if i+1 < len(chars) && chars[i+1] != '/' {
		return false
	}
	return chars[i-1] == '/' || chars[i-1] == '.' && i >= 2 && chars[i-2] == '/'
}

// inner returns the client's name of a path of the server, which events carry.
// A path outside the chroot is returned as it is.
func (c *Client) inner(path string) string {
	if inner, ok := c.below(path); ok {
		return inner
	}
	return path
}

// below is inner, and reports whether path is in the chroot at all.
func (c *Client) below(path string) (inner string, ok bool) {
	rest, ok := strings.CutPrefix(path, c.chroot)
	switch {
	case !ok, c.chroot != "" && rest != "" && rest[0] != '/':
		return "", false
	case rest == "":
		return "/", true
	}
	return rest, true
}

// outer returns the server's name of a client's path.
func (c *Client) outer(path string) string {
	switch {
	case c.chroot == "":
		return path
	case path == "/":
		return c.chroot
	}
	return c.chroot + path
}
