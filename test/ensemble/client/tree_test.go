package client

import (
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

func TestDifferences(t *testing.T) {
	base := Node{Data: "a", Stat: zk.Stat{Czxid: 1}}
	other := base
	other.Stat.Pzxid = 2
	null := Node{Null: true}
	for _, c := range []struct {
		name string
		x, y Tree
		want string
	}{
		{"equal", Tree{"/a": base}, Tree{"/a": base}, ""},
		{"a Stat", Tree{"/a": base}, Tree{"/a": other}, "/a:"},
		{"null and empty", Tree{"/a": null}, Tree{"/a": {}}, "/a:"},
		{"missing", Tree{"/a": base, "/b": base}, Tree{"/a": base}, "/b: not in y"},
		{"more", Tree{"/a": base}, Tree{"/a": base, "/b": base}, "/b: not in x"},
		{"skipped", Tree{"/skip": base}, Tree{"/skip": other}, ""},
	} {
		got := c.x.Differences(c.y, "x", "y", func(path string) bool { return path == "/skip" })
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
