package znode

import (
	"errors"
	"strings"
	"testing"
)

// TestValidatePath: answers of Apache 3.8.0 (protocol page, section 7).
func TestValidatePath(t *testing.T) {
	for _, path := range []string{
		"/", "/a", "/a/b", "/a/...", "/a/.b", "/a/b.", "/a b", "/\u00a0", "/\ud7ff", "/\uf900", "/\uffef", "/日本",
		"/" + strings.Repeat("x", 1<<16),
	} {
		if err := ValidatePath(path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{
		"", "a", "a/b", "/a/", "//", "//a", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/.", "/a/..",
		"/\x00", "/a\x01", "/\x1f", "/\x7f", "/\u0080", "/\u009f", "/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\uffff",
		"/\U0001f600", "/\U00010000", "/\U0010ffff", "/\xff", "/a\xc3", "/\xed\xa0\x80",
	} {
		if err := ValidatePath(path); !errors.Is(err, ErrPath) {
			t.Errorf("%q: %v", path, err)
		}
	}
}
