package clidiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A generator makes sessions. Its top is the path below which it works: "" within
// a chroot, where it owns all, or that of a node.
type generator struct {
	*rand.Rand
	top      string
	typed    []string // commands so far
	crashes  int      // commands that end zkCli.sh, which costs a start
	noRoot   bool     // path must not be "/": what "create -s /" makes is outside of the chroot
	quotas   bool
	watchful bool // leaves watches
}

func newGenerator(seed uint64, top string) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 7)), top: top, quotas: top != "" && seed%3 == 1, watchful: seed%3 == 2}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) pick(words ...string) string { return words[g.IntN(len(words))] }

// session makes n commands.
func (g *generator) session(n int) []string {
	for _, p := range []string{"/a", "/a/b", "/b", "/a/c"} {
		g.typed = append(g.typed, "create "+g.top+p+" "+g.pick("", "x", "'two words'"))
	}
	for len(g.typed) < n {
		g.typed = append(g.typed, g.command())
	}
	return append(g.typed, pause()...)
}

// path is mostly one of few, so that commands meet.
func (g *generator) path() string {
	switch {
	case g.chance(4):
		return g.badPath()
	case g.chance(4):
		return g.pick("'"+g.top+"/with space'", g.top+"/ünï", g.top+`/"q"`, g.top+"/-d", g.top+"/a'b")
	case g.chance(6):
		return g.top + "/s-000000000" + g.pick("0", "1", "2", "3", "4", "5")
	case g.chance(5) && g.top == "" && !g.noRoot:
		return "/"
	}
	p := g.top
	for range 1 + g.IntN(3) {
		p += "/" + g.pick("a", "b", "c")
	}
	return p
}

func (g *generator) badPath() string {
	return g.pick("a", g.top+"/a/", g.top+"//a", g.top+"/a/../b", g.top+"/./a", `""`, "''", g.top+"/a//", "/zookeeper/nope/x", g.top+"/a/.")
}

func (g *generator) data() string {
	return g.pick("x", "12345", `"two words"`, `'it is "q"'`, `{"a":1}`, `""`, "''", `a"b`, "ünïcödé", `\n`, `"tab	tab"`, "#no", "a;b", ";", "=", "-", "a=b", "null", `"-x y"`, "$HOME", "*")
}

func (g *generator) number() string {
	return g.pick("0", "1", "2", "-1", "3", "0", "1", "99")
}

func (g *generator) acl() string {
	return g.pick("world:anyone:cdrwa", "world:anyone:r", "world:anyone:cdrwa,digest:u:h:r", "auth::cdrwa", "auth:u:p:cdrwa",
		"digest:u:nGWnQSX8bu9CQ0DYLgNWyRRwyX0=:cdrwa", "ip:127.0.0.1:cdrwa", "ip:127.0.0.0/8:r,world:anyone:cdrwa", "ip:10.0.0.300:r",
		"world:anyone:rwcda", "bogus", "world:anybody:r", "nope:x:r",
		"world:anyone:rr", "digest:u:r", ",",
		"world:anyone:r,world:anyone:r", "sasl:me:cdrwa", "x509:CN=a:r", "digest:u:a:b:r")
}

// A word of a command may be left out, doubled, or go where it does not belong.
func (g *generator) arrange(name string, options [][]string, args ...string) string {
	var words [][]string
	for _, a := range args {
		words = append(words, []string{a})
	}
	if g.chance(5) && len(words) > 0 {
		words = words[:len(words)-1]
	}
	if g.chance(2) {
		words = append(words, []string{g.pick("-z", "-zs", "--zz", "-sz")})
	}
	switch {
	case g.chance(70):
		words = append(options, words...)
	default:
		for _, o := range options {
			at := g.IntN(len(words) + 1)
			words = append(words[:at:at], append([][]string{o}, words[at:]...)...)
		}
	}
	line := name
	for _, w := range words {
		for _, x := range w {
			line += g.space() + x
		}
	}
	if g.chance(2) {
		line = " " + line + "  "
	}
	return line
}

func (g *generator) space() string {
	if g.chance(2) {
		return g.pick("  ", "\t", "   ")
	}
	return " "
}

// flags are some of these, in any order, seldom twice, or joined.
func (g *generator) flags(percent int, letters ...string) (options [][]string) {
	for _, letter := range letters {
		if g.chance(percent) {
			options = append(options, []string{"-" + letter})
		}
		if g.chance(1) {
			options = append(options, []string{"-" + letter})
		}
	}
	g.Shuffle(len(options), func(i, j int) { options[i], options[j] = options[j], options[i] })
	if len(options) > 1 && g.chance(25) {
		joined := "-"
		for _, o := range options {
			joined += o[0][1:]
		}
		return [][]string{{joined}}
	}
	return options
}

// valued is an option with a value, in one of the ways to write it.
func (g *generator) valued(letter, value string) []string {
	switch {
	case g.chance(6):
		return []string{"-" + letter + value}
	case g.chance(4):
		return []string{"-" + letter + "=" + value}
	case g.chance(2):
		return []string{"-" + letter}
	}
	return []string{"-" + letter, value}
}

func (g *generator) version(percent int, options [][]string) [][]string {
	if g.chance(percent) {
		return append(options, g.valued("v", g.number()))
	}
	return options
}

func (g *generator) watch(options [][]string) [][]string {
	if g.watchful && g.chance(40) {
		return append(options, []string{"-w"})
	}
	return options
}

// command makes one, of any kind.
func (g *generator) command() string {
	type kind struct {
		weight int
		make   func() string
	}
	kinds := []kind{
		{16, g.create}, {10, g.set}, {7, g.get}, {8, g.ls}, {4, g.stat}, {6, g.delete}, {3, g.deleteAll}, {5, g.getACL}, {7, g.setACL},
		{2, g.misc}, {2, g.addAuth}, {2, g.old}, {2, g.shell},
	}
	if g.quotas {
		kinds = append(kinds, kind{14, g.setQuota}, kind{8, g.listQuota}, kind{8, g.delQuota})
	}
	if g.watchful {
		kinds = append(kinds, kind{6, g.addWatch}, kind{6, g.removeWatches})
	}
	if g.crashes < 2 && g.chance(1) {
		g.crashes++
		return g.crash()
	}
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	n := g.IntN(sum)
	for _, k := range kinds {
		if n < k.weight {
			return k.make()
		}
		n -= k.weight
	}
	panic("the weights do not add up")
}

func (g *generator) create() string {
	options := g.flags(20, "s", "e")
	if g.chance(8) {
		options = append(options, []string{"-c"})
	}
	if g.chance(8) {
		options = append(options, g.valued("t", g.pick("100000", "500000", "0", "-1", "abc", "1099511627776", "1")+g.pick("", "0000")))
	}
	g.noRoot = true
	path := g.path()
	g.noRoot = false
	if g.chance(25) {
		path = g.top + "/s-"
	}
	args := []string{path}
	if g.chance(80) {
		args = append(args, g.data())
	}
	if len(args) == 2 && g.chance(20) {
		args = append(args, g.acl())
	}
	return g.arrange("create", options, args...)
}

func (g *generator) set() string {
	return g.arrange("set", g.version(40, g.flags(30, "s")), g.path(), g.data())
}

func (g *generator) get() string {
	return g.arrange("get", g.watch(g.flags(30, "s")), g.path())
}

func (g *generator) ls() string {
	options := g.flags(25, "s")
	if g.chance(25) {
		options = append(options, []string{"-R"}) // with -w, zkCli.sh watches the data of the first node too
	} else {
		options = g.watch(options)
	}
	return g.arrange("ls", options, g.path())
}

func (g *generator) stat() string { return g.arrange("stat", g.watch(nil), g.path()) }

func (g *generator) delete() string {
	return g.arrange("delete", g.version(30, nil), g.path())
}

func (g *generator) deleteAll() string {
	var options [][]string
	if g.chance(30) {
		options = append(options, g.valued("b", g.pick("1", "2", "100")))
	}
	g.noRoot = true
	path := g.path()
	g.noRoot = false
	return g.arrange("deleteall", options, path)
}

func (g *generator) getACL() string { return g.arrange("getAcl", g.flags(40, "s"), g.path()) }

func (g *generator) setACL() string {
	options := g.flags(25, "s")
	if g.chance(20) {
		options = [][]string{{"-R"}} // with -s, zkCli.sh prints whenever an answer comes
	}
	return g.arrange("setAcl", g.version(20, options), g.path(), g.acl())
}

func (g *generator) misc() string {
	switch g.IntN(6) {
	case 0:
		return g.arrange("sync", nil, g.path())
	case 1:
		return g.arrange("getAllChildrenNumber", nil, g.path())
	case 2:
		return g.ephemerals()
	case 3:
		return "whoami"
	case 4:
		return g.arrange("config", g.flags(30, "c", "s"))
	default:
		return g.arrange("reconfig", nil, g.pick("-add", "-remove", "-members"), g.pick("server.5=127.0.0.1:1:2;3", "3", "1,2"))
	}
}

func (g *generator) addAuth() string {
	return "addauth digest " + g.pick("u:p", "u:q", "'v:a b'", "u:p:q", "nocolon")
}

// old are spellings of earlier releases, and commands that are none.
func (g *generator) old() string {
	return g.pick(
		"ls "+g.path()+" watch", "get "+g.path()+" watch", "stat "+g.path()+" watch", "ls2 "+g.path(), "rmr "+g.path(),
		"LS /", "bogus", "create", "get", "set", "ls", "stat", "delete",
		"deleteall", "getAcl", "setAcl", "addauth", "sync", "getAllChildrenNumber", "listquota", "delquota", "setquota", "'ls' "+g.path(),
		`"get" `+g.path(), "getacl "+g.path(), "create -s", "set "+g.path(), "ls "+g.top+"/a -s -s", `get '`+g.top+`/a'`,
	)
}

func (g *generator) shell() string {
	switch g.IntN(5) {
	case 0:
		return "history"
	case 1, 2:
		return fmt.Sprintf("redo %d", g.IntN(len(g.typed)+2)*perStep)
	case 3:
		return "printwatches " + g.pick("on", "on", "off")
	default:
		return g.ephemerals()
	}
}

// ephemerals has no path within a chroot, where zkCli.sh does not find it.
func (g *generator) ephemerals() string {
	if g.top == "" {
		return "getEphemerals"
	}
	return g.arrange("getEphemerals", nil, g.pick(g.path(), g.top+"/s-", g.top+"/a", "/"))
}

func (g *generator) setQuota() string {
	var options [][]string
	if g.chance(95) {
		value := g.pick("1", "3", "10", "100", "0", "-1", "5000000000", "abc", "1.5")
		options = append(options, g.valued(g.pick("n", "b", "N", "B"), value))
	}
	return g.arrange("setquota", options, g.quotaPath())
}

func (g *generator) quotaPath() string {
	if g.chance(4) {
		return g.pick("/", "/zookeeper/quota", "/zookeeper/quota"+g.top+"/a", g.top+"/nope")
	}
	return g.path()
}

func (g *generator) listQuota() string { return g.arrange("listquota", nil, g.quotaPath()) }

func (g *generator) delQuota() string {
	return g.arrange("delquota", g.flags(60, g.pick("n", "b", "N", "B")), g.quotaPath())
}

func (g *generator) addWatch() string {
	var options [][]string
	if g.chance(50) {
		options = append(options, g.valued("m", g.pick("PERSISTENT", "PERSISTENT_RECURSIVE", "persistent", "bogus")))
	}
	return g.arrange("addWatch", options, g.path())
}

func (g *generator) removeWatches() string {
	options := g.flags(50, g.pick("c", "d", "a"))
	if g.chance(20) {
		options = append(options, []string{"-l"})
	}
	return g.arrange("removewatches", options, g.path())
}

// crash is a command that ends zkCli.sh with an exception.
func (g *generator) crash() string {
	return g.pick("set -v abc "+g.top+"/a x", "delete -v abc "+g.top+"/a", "setAcl -v 1.5 "+g.top+"/a world:anyone:r",
		"deleteall -b x "+g.top+"/c", "set -v 3000000000 "+g.top+"/a x")
}

// show is a session as a file that -session reads.
func show(commands []string) string { return strings.Join(commands, "\n") + "\n" }
