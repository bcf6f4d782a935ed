package kerberos

import (
	"strings"
	"testing"
)

// mapping is a case of a mapping, as Apache's KerberosName and SaslServerCallbackHandler
// map it; test/kerberos compares the same table with Apache's classes.
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
