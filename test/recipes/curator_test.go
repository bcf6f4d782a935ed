package recipes

import (
	"flag"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/recipe"
)

var java = flag.String("curator", "", "a `command` that runs CuratorPeer.java, with words between spaces")

func meetCurator(t *testing.T) *meeting {
	if *java == "" {
		t.Skip("needs -curator, a command that runs CuratorPeer.java")
	}
	return meet(t, strings.Fields(*java)...)
}

// Who keeps whom out, as docs/recipes.md has it.
func TestCuratorExcludes(t *testing.T) {
	const curator, kazoo = recipe.CuratorNames, recipe.KazooNames
	m := meetCurator(t)
	for _, test := range []pair{
		{"curator", mutex(curator), "Mutex", true, true},
		{"curator", mutex(curator), "Write", false, true},
		{"curator", mutex(curator), "Read", false, true},
		{"curator", writer(curator), "Mutex", false, true},
		{"curator", writer(curator), "Write", true, true},
		{"curator", writer(curator), "Read", true, true},
		{"curator", reader(curator), "Write", true, true},
		{"curator", reader(curator), "Read", false, false},
		{"kazoo", mutex(kazoo), "Mutex", false, true},
		{"kazoo", writer(kazoo), "Read", false, true},
	} {
		t.Run(test.names+" "+test.ours.name+" and "+test.theirs, func(t *testing.T) { m.excludes(t, test) })
	}
}

// Three of Curator's and three of ours.
func TestCuratorContends(t *testing.T) {
	meetCurator(t).contends(recipe.CuratorNames, "Mutex", "")
}
