package kerberos

import (
	"flag"
	"os/exec"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/tickets"
)

var apache = flag.Bool("apache", false, "compare short names with those of the installed Apache ZooKeeper")

// mappings are cases of mappings, as Apache's SaslServerCallbackHandler does it.
// TestApacheNames compares the short names with its KerberosName.
var mappings = []struct {
	rules      string
	host, drop bool // dropped: host, realm
	principal  string
	want       string
}{
	{"DEFAULT", false, false, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
	{"DEFAULT", false, false, "bob/admin@EXAMPLE.COM", "bob/admin@EXAMPLE.COM"},
	{"DEFAULT", true, false, "bob/admin@EXAMPLE.COM", "bob@EXAMPLE.COM"},
	{"DEFAULT", false, true, "bob/admin@EXAMPLE.COM", "bob/admin"},
	{"DEFAULT", true, true, "bob/admin@EXAMPLE.COM", "bob"},
	{"DEFAULT", true, true, "bob/admin@OTHER.COM", "bob/admin@OTHER.COM"}, // no rule
	{"DEFAULT", true, true, "bob", "bob"},
	{"", true, true, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
	{`RULE:[2:$1;$2](^.*;admin$)s/;admin$/-adm/`, false, false, "bob/admin@EXAMPLE.COM", "bob-adm/admin@EXAMPLE.COM"},
	{`RULE:[2:$1;$2](^.*;admin$)s/;admin$/-adm/`, true, true, "bob/admin@EXAMPLE.COM", "bob-adm"},
	{`RULE:[2:$1;$2](^.*;admin$)s/;admin$/-adm/`, true, true, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"},
	{`RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*// DEFAULT`, true, true, "bob@OTHER.COM", "bob"},
	{`RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*// DEFAULT`, true, true, "eve@EXAMPLE.COM", "eve"},
	{`RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*// DEFAULT`, true, true, "eve@THIRD.COM", "eve@THIRD.COM"},
	{`RULE:[1:$1@$0] DEFAULT`, true, true, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"}, // no simple name
	{"  RULE:[1:$1]s/o/0/\n  DEFAULT ", true, true, "foo@OTHER.COM", "f0o"},
	{`RULE:[1:$1]s/o/0/g`, true, true, "foo@OTHER.COM", "f00"},
	{`RULE:[1:$1](ob)`, true, true, "bob@OTHER.COM", "bob@OTHER.COM"}, // must match all of it
	{`RULE:[1:$1](a|b.*)s/(b)(o)/$2$1/`, true, true, "bob@OTHER.COM", "obb"},
	{`RULE:[1:$1]s/b/\$x/`, true, true, "bob@OTHER.COM", "$xob"},
	{`RULE:[1:hdfs]`, true, true, "nn@OTHER.COM", "hdfs"},
	{`RULE:[2:$2-$1-$0]`, true, true, "nn/h1@X", "h1-nn-X"},
	{`RULE:[1:$5] DEFAULT`, true, true, "bob@EXAMPLE.COM", "bob@EXAMPLE.COM"}, // no such component
	{`RULE:[1:$1]RULE:[2:x]DEFAULT`, true, true, "bob/h@EXAMPLE.COM", "x"},
	{`RULE:[2:$1](zk.*)s/.*/zookeeper/`, false, false, "zk1/host@REALM", "zookeeper/host@REALM"},
}

func TestMapping(t *testing.T) {
	for _, tt := range mappings {
		rules, err := ParseRules(tt.rules, "EXAMPLE.COM")
		if err != nil {
			t.Fatal(err)
		}
		m := Mapping{Rules: rules, DropHost: tt.host, DropRealm: tt.drop}
		if got, err := m.User(tt.principal); got != tt.want || err != nil {
			t.Errorf("%q, host %v, realm %v: %s is %q, %v; want %q", tt.rules, tt.host, tt.drop, tt.principal, got, err, tt.want)
		}
	}
	for _, principal := range []string{"a/b/c@R", "a@b@c", "/a/b@R"} {
		if got, err := new(Mapping).User(principal); err == nil {
			t.Errorf("%s is %q", principal, got)
		}
	}
}

// TestApacheNames compares the short names of the table with those of Apache's class.
func TestApacheNames(t *testing.T) {
	if !*apache {
		t.Skip("no -apache is given: it starts a JVM for each name")
	}
	conf := tickets.Config(t)
	for _, tt := range mappings {
		rules, err := ParseRules(tt.rules, "EXAMPLE.COM")
		if err != nil {
			t.Fatal(err)
		}
		service, host, realm, err := Split(tt.principal)
		if err != nil {
			t.Fatal(err)
		}
		want := "no name"
		if short, ok := rules.Short(service, host, realm); ok {
			want = short
		}
		cmd := exec.CommandContext(t.Context(), "java", "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-simple.jar",
			"-Djava.security.krb5.conf="+conf, "-Dzookeeper.security.auth_to_local="+tt.rules, "org.apache.zookeeper.server.auth.KerberosName", tt.principal)
		out, err := cmd.CombinedOutput()
		got := "no name"
		if _, short, ok := strings.Cut(string(out), "Name: "+tt.principal+" to "); ok {
			got, _, _ = strings.Cut(short, "\n")
		}
		// A format that names no such component is an error there.
		if failed := strings.Contains(string(out), "KerberosName$NoMatchingRule") || strings.Contains(string(out), "KerberosName$BadFormatString") ||
			strings.Contains(string(out), "ArrayIndexOutOfBounds"); got != want || failed != (err != nil) {
			t.Errorf("%q: %s is %q, in Apache %q:\n%s", tt.rules, tt.principal, want, got, out)
		}
	}
}

func TestParseRules(t *testing.T) {
	for text, want := range map[string]string{
		"NONE":                    "invalid rule",
		"DEFAULT x":               "invalid rule",
		"RULE:[1:$1":              "invalid rule",
		"RULE:[:$1]":              "number of components",
		"RULE:[1:$1](*)":          "missing argument",
		"RULE:[1:$1](?!x)":        "",
		"RULE:[1:$1]((?!x).*)":    "",
		"RULE:[1:$1](a)s/b":       "invalid rule",
		"RULE:[1:$1]s/[/x/":       "missing closing",
		"RULE:[1:$1](.*)/L":       "invalid rule",
		"RULE:[1:$1](.*)s/x/y/gL": "invalid rule",
	} {
		if _, err := ParseRules(text, "R"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, m := range mappings {
		f.Add(m.rules, m.principal)
	}
	f.Fuzz(func(t *testing.T, text, principal string) {
		rules, err := ParseRules(text, "EXAMPLE.COM")
		if err != nil {
			return
		}
		m := Mapping{Rules: rules, DropHost: true, DropRealm: true}
		user, err := m.User(principal)
		if err == nil && user != principal && strings.ContainsAny(user, "/@") {
			t.Errorf("%q makes %q of %q", text, user, principal)
		}
	})
}
