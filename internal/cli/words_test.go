package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

func TestSplitLine(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{" \t ", nil},
		{"ls /", []string{"ls", "/"}},
		{"  ls   /a  ", []string{"ls", "/a"}},
		{`set /a "b c"`, []string{"set", "/a", "b c"}},
		{`set /a 'b "c"'`, []string{"set", "/a", `b "c"`}},
		{`set /a {"k":1}`, []string{"set", "/a", `{"k":1}`}},
		{`set /a it's`, []string{"set", "/a", "it's"}},
		{`set /a "b"c`, []string{"set", "/a", "b", "c"}},
		{`set /a ""`, []string{"set", "/a", ""}},
		{`set /a \n\"`, []string{"set", "/a", `\n\"`}},
		{"set /é ü", []string{"set", "/é", "ü"}},
	} {
		got, err := splitLine(c.line)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("splitLine(%q) = %q, %v, want %q", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{`set /a "b`, `'`, `a "b c" 'd`} {
		if got, err := splitLine(line); ExitStatus(err) != statusUsage {
			t.Errorf("splitLine(%q) = %q, %v", line, got, err)
		}
	}
}

func TestSplitCommands(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"ls /", []string{"ls /"}},
		{"ls /; ls /a", []string{"ls /", " ls /a"}},
		{"ls / ; ls /a;", []string{"ls / ", " ls /a", ""}},
		{"ls /\nls /a", []string{"ls /", "ls /a"}},
		{`set /a "b; c"; ls /`, []string{`set /a "b; c"`, " ls /"}},
		{`set /a 'b;'; ls /`, []string{`set /a 'b;'`, " ls /"}},
		{"reconfig -add server.1=h:1:2;2181; ls /", []string{"reconfig -add server.1=h:1:2;2181", " ls /"}},
		{"set /a it's; ls /", []string{"set /a it's", " ls /"}},
		{"set /a 'b'; ls 'c d'; x", []string{"set /a 'b'", " ls 'c d'", " x"}},
	} {
		if got := splitCommands(c.text); !slices.Equal(got, c.want) {
			t.Errorf("splitCommands(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

// Words that are quoted come out of the line as they were.
func FuzzSplitLine(f *testing.F) {
	f.Add("ls /a", "b c", "it's")
	f.Add("", `"`, "\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		words, err := splitLine(a)
		if err == nil {
			for _, w := range words {
				if !strings.Contains(a, w) {
					t.Errorf("splitLine(%q) = %q", a, words)
				}
			}
		}
		begun, last, start, _ := splitBegun(a)
		if start > len(a) || !strings.HasSuffix(a, last) || len(begun) > len(a) {
			t.Errorf("splitBegun(%q) = %q, %q, %d", a, begun, last, start)
		}
		if strings.Join(splitCommands(a), "") != "" && !strings.Contains(a, splitCommands(a)[0]) {
			t.Errorf("splitCommands(%q) = %q", a, splitCommands(a))
		}
		var line []string
		for _, w := range []string{b, c} {
			if strings.ContainsRune(w, '"') {
				return
			}
			line = append(line, quoted(w, '"')+`"`)
		}
		words, err = splitLine(strings.Join(line, " "))
		if err != nil || !slices.Equal(words, []string{b, c}) {
			t.Errorf("%q became %q, %v", []string{b, c}, words, err)
		}
		if open := quoted(b, 0); open == b && b != "" && b[0] != '\'' {
			if words, err := splitLine(b); err != nil || !slices.Equal(words, []string{b}) {
				t.Errorf("%q needs a quote: %q, %v", b, words, err)
			}
		}
	})
}

func TestParseOptions(t *testing.T) {
	for _, c := range []struct {
		words string
		mixed bool
		args  string
		opts  string // those that are set, name=value
		fails string
	}{
		{"-s -v 3 /a x", true, "/a x", "stat=true version=3", ""},
		{"/a x -s", true, "/a x", "stat=true", ""},
		{"/a x -s", false, "/a x -s", "", ""},
		{"-sv 3 /a", true, "/a", "stat=true version=3", ""},
		{"-v3 /a", true, "/a", "version=3", ""},
		{"-v=3 /a", true, "/a", "version=3", ""},
		{"-v -1 /a", true, "/a", "version=-1", ""},
		{"/a -1", true, "/a -1", "", ""},
		{"/a -1.5e3 -s", true, "/a -1.5e3", "stat=true", ""},
		{"/a - -s", true, "/a -", "stat=true", ""},
		{"/a -- -s", true, "/a -s", "", ""},
		{"-members a,b -s", true, "", "members=a,b stat=true", ""},
		{"-members=a,b", true, "", "members=a,b", ""},
		{"--members a,b /x", true, "/x", "members=a,b", ""},
		{"--stat /x", true, "/x", "stat=true", ""},
		{"-x", true, "", "", "set has no option -x"},
		{"-ü", true, "", "", "set has no option -ü"},
		{"-sx", true, "", "", "set has no option -sx"},
		{"-server h:1", true, "", "", "set has no option -server; it goes before the command"},
		{"--nothing", true, "", "", "set has no option --nothing"},
		{"-v", true, "", "", "-v needs a value"},
		{"-v x", true, "", "", `-v takes a number, not "x"`},
		{"--members", true, "", "", "--members needs a value"},
	} {
		f := newFlagSet("set")
		f.BoolP("stat", "s", false, "")
		f.Int32P("version", "v", -1, "")
		f.String("members", "", "")
		args, err := parse(f, strings.Fields(c.words), c.mixed)
		if c.fails != "" {
			if err == nil || optionWords("set", err) != c.fails {
				t.Errorf("%s: %v, want %s", c.words, err, c.fails)
			}
			continue
		}
		var opts []string
		f.Visit(func(f *pflag.Flag) { opts = append(opts, f.Name+"="+f.Value.String()) })
		slices.SortFunc(opts, func(a, b string) int { return strings.Index(c.opts, a) - strings.Index(c.opts, b) })
		if err != nil || strings.Join(args, " ") != c.args || strings.Join(opts, " ") != c.opts {
			t.Errorf("%s: %q, %q, %v; want %q, %q", c.words, args, opts, err, c.args, c.opts)
		}
	}
}

func TestParseACL(t *testing.T) {
	id := func(scheme, id string, p zk.Perms) zk.ACL { return zk.ACL{ID: zk.ID{Scheme: scheme, ID: id}, Perms: p} }
	for _, c := range []struct {
		text string
		want []zk.ACL
	}{
		{"world:anyone:r", []zk.ACL{id("world", "anyone", zk.PermRead)}},
		{"world:anyone:cdrwa", []zk.ACL{id("world", "anyone", zk.PermAll)}},
		{"auth::c", []zk.ACL{id("auth", "", zk.PermCreate)}},
		{"digest:u:h=:rw,ip:10.0.0.0/8:d", []zk.ACL{
			id("digest", "u:h=", zk.PermRead|zk.PermWrite), id("ip", "10.0.0.0/8", zk.PermDelete),
		}},
		{"x509:CN=a,O=b:a,world:anyone:r", []zk.ACL{id("x509", "CN=a,O=b", zk.PermAdmin), id("world", "anyone", zk.PermRead)}},
	} {
		got, err := parseACL(c.text)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("parseACL(%q) = %v, %v, want %v", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", ":", "world", "world:anyone", "world:anyone:", "world:anyone:x", "a,world:anyone:r", ":x:r", ","} {
		if got, err := parseACL(text); ExitStatus(err) != statusUsage {
			t.Errorf("parseACL(%q) = %v, %v", text, got, err)
		}
	}
}

func TestClientAddresses(t *testing.T) {
	const config = "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888;2182\nserver.3=zk3:1:2\nversion=100000000"
	if got, want := clientAddresses(config), "0.0.0.0:2181,zk2:2182 100000000"; got != want {
		t.Errorf("clientAddresses = %q, want %q", got, want)
	}
}

// Every command can be asked for help, has an example, and takes what its
// completion expects.
func TestEveryCommandIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		if c.short == "" || c.long == "" || c.examples == "" || c.run == nil && c.setup == nil || seen[c.name] {
			t.Errorf("%s: something is missing, or it is there twice", c.name)
		}
		seen[c.name] = true
		if c.max >= 0 && (c.max < c.min || len(c.complete) > max(c.max, 1)) {
			t.Errorf("%s: %d to %d arguments, completion for %d", c.name, c.min, c.max, len(c.complete))
		}
		if _, _, help, err := c.prepare([]string{"--help"}); err != nil || !help {
			t.Errorf("%s --help: %v, %v", c.name, help, err)
		}
	}
	for _, name := range []string{
		"addWatch", "addauth", "close", "config", "connect", "create", "delete", "deleteall", "delquota", "get", "getAcl",
		"getAllChildrenNumber", "getEphemerals", "history", "listquota", "ls", "printwatches", "quit", "reconfig", "redo",
		"removewatches", "set", "setAcl", "setquota", "stat", "sync", "version", "whoami",
	} {
		if !seen[name] {
			t.Errorf("zkCli.sh has %s, we have not", name)
		}
	}
}
