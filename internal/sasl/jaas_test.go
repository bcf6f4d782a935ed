package sasl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testProperty(name string) (string, bool) {
	v, ok := map[string]string{"known": "KNOWN", "empty": ""}[name]
	return v, ok
}

// describe prints sections by name: "Server{M a=b c=d;}".
func describe(l Login) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(l)) {
		b.WriteString(name + "{")
		for _, m := range l[name] {
			b.WriteString(m.Class)
			for _, key := range slices.Sorted(maps.Keys(m.Options)) {
				fmt.Fprintf(&b, " %s=%q", key, m.Options[key])
			}
			b.WriteString(";")
		}
		b.WriteString("}")
	}
	return b.String()
}

// TestParseLogin has what Java 17 makes of each file.
func TestParseLogin(t *testing.T) {
	tests := []struct{ text, want string }{
		{`Server { M required a="b"; };`, `Server{M a="b";}`},
		{`Server{M required a=b c=d;};`, `Server{M a="b" c="d";}`},
		{`Server { M REQUIRED a="b"; N optional; };`, `Server{M a="b";N;}`},
		{`Server { M required a = "b" ; } ; Client { N required; };`, `Client{N;}Server{M a="b";}`},
		{`"My Server" { "M" "required" a=b; };`, `My Server{M a="b";}`},
		{`Server { };`, `Server{}`},
		{``, ``},
		{`Server { M required a="b" a="c"; };`, `Server{M a="c";}`},

		// Words.
		{`Server { M required a=x5; };`, `Server{M a="x5";}`},
		{`Server { M required a.b-c_d$*="b"; };`, `Server{M a.b-c_d$*="b";}`},
		{`Server { M required user_5="b" "a@b"=""; };`, `Server{M a@b="" user_5="b";}`},
		{`Server { M required é="é"; };`, `Server{M é="é";}`},
		{"Server { M required \xE9=\"\xE9\"; };", "Server{M \uFFFD=\"\uFFFD\";}"},

		// Quotes.
		{`Server { M required a="x\ty\n\"\101\q\\"; };`, `Server{M a="x\ty\n\"Aq\\";}`},
		{`Server { M required a="\400\60\8\0612"; };`, `Server{M a=" 00812";}`},
		{`Server { M required a="\a\b\f\r\v"; };`, `Server{M a="\a\b\f\r\v";}`},
		{"Server { M required a=\"b\n; };", `Server{M a="b";}`},
		{"Server { M required a=\"b\\\nc\"; };", `Server{M a="b\nc";}`},

		// Comments.
		{"// c\n/* x\n y */ Server { // c }\n M required a=\"b\"; };", `Server{M a="b";}`},
		{"/ c\nServer { M required a=\"b\"; };", `Server{M a="b";}`},
		{"Server { M required; }; // end", `Server{M;}`},

		// Properties.
		{`Server { M required a="-${known}${/}"; };`, `Server{M a="-KNOWN/";}`},
		{`Server { M required a="$known ${"; };`, `Server{M a="$known ${";}`},
		{`Server { M required a="${{x}}${known}"; };`, `Server{M a="${{x}}KNOWN";}`},
	}
	for _, tt := range tests {
		got, err := ParseLogin([]byte(tt.text), testProperty)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if diff := cmp.Diff(tt.want, describe(got)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.text, diff)
		}
	}
}

// TestParseLoginErrors has files that Java 17 refuses too.
func TestParseLoginErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"\n\nServer { M required a=5; };", `line 3: a word, or a text in double quotes, expected`},
		{`Server { M required a='b'; };`, `line 1: a word, or a text in double quotes, expected`},
		{`Server { M required a=-x; };`, `line 1: a word, or a text in double quotes, expected`},
		{`Server { M required a=.x; };`, `line 1: a word, or a text in double quotes, expected`},
		{`Server { M required 5a=x; };`, `line 1: an option or ; expected`},
		{`Server { M required a@b="secret"; };`, `line 1: = expected`},
		{`Server { M required a="secret" };`, `line 1: an option or ; expected`},
		{`Server { M required a="secret"; }`, `line 1: ; expected`},
		{`Server { M required a="secret; };`, `line 1: an option or ; expected`},
		{`Server { M must a="secret"; };`, `line 1: required, requisite, sufficient or optional expected`},
		{`Server { M required a="secret", c="d"; };`, `line 1: an option or ; expected`},
		{"Server { M required; };\nServer { M required; };", `line 2: a second section "Server"`},
		{"# c\nServer { M required a=\"secret\"; };", `line 1: name of a section expected`},
		{`Server`, `line 1: { expected`},
		{`Server {{ M required; };`, `line 1: name of a login module expected`},
		{`{ M required; };`, `line 1: name of a section expected`},
		{`; ;`, `line 1: name of a section expected`},
		{"Server { M required a=b/c; };\n", "line 2: an option or ; expected"},
		{`Server { M required a=b /* secret`, `line 1: an option or ; expected`},
		{`Server { M required a="secret${foo}"; };`, `line 1: option "a": there is no property "foo"`},
		{`Server { M required a="${${known}}"; };`, `line 1: option "a": there is no property "${known"`},
		{`Server { M required a="${empty}"; };`, `line 1: option "a": nothing is left when its properties are replaced`},
	}
	for _, tt := range tests {
		_, err := ParseLogin([]byte(tt.text), testProperty)
		if want := "sasl: login configuration, " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", tt.text, err, want)
		}
	}
	if _, err := ParseLogin(make([]byte, MaxLoginBytes+1), testProperty); err == nil {
		t.Error("a file beyond the limit is read")
	}
}

// A value may not grow without a bound by properties.
func TestParseLoginLongProperties(t *testing.T) {
	long := strings.Repeat("x", MaxLoginBytes/2)
	property := func(string) (string, bool) { return long, true }
	if _, err := ParseLogin([]byte(`S { M required a="${x}${x}${x}"; };`), property); err == nil || strings.Contains(err.Error(), "xx") {
		t.Errorf("error %.200v", err)
	}
}

func TestUsers(t *testing.T) {
	const digest = "org.apache.zookeeper.server.auth.DigestLoginModule"
	tests := []struct {
		text, section string
		want          Users
		ok            bool
		err           string
	}{
		{text: "", section: "Server"},
		{text: "Server { };", section: "Server"},
		{text: `Client { X required user_a="b"; };`, section: "Server"},
		{text: `Server { ` + digest + ` required user_super="s" "user_a b"="c" user_="d" debug=true; };`, section: "Server",
			want: Users{"super": "s", "a b": "c"}, ok: true},
		{text: `My { ` + digest + ` required; };`, section: "My", want: Users{}, ok: true},
		{text: `Server { ` + digest + ` required user_a="b"; ` + digest + ` required user_c="d"; };`, section: "Server",
			want: Users{"c": "d"}, ok: true},
		{text: `Server { com.sun.security.auth.module.Krb5LoginModule required keyTab="/k"; };`, section: "Server",
			err: "sasl: section Server: com.sun.security.auth.module.Krb5LoginModule needs useKeyTab=true: a server has its key in a file"},
		{text: `Server { X required user_a="b"; };`, section: "Server", err: "sasl: section Server: unknown login module X"},
	}
	for _, tt := range tests {
		login, err := ParseLogin([]byte(tt.text), testProperty)
		if err != nil {
			t.Fatal(err)
		}
		users, _, ok, err := login.Mechanisms(tt.section)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != tt.err || ok != tt.ok {
			t.Errorf("%s: %v, error %q; want %v, %q", tt.text, ok, text, tt.ok, tt.err)
		}
		if diff := cmp.Diff(tt.want, users); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.text, diff)
		}
	}
}

// TestMechanisms: a section may have both mechanisms, and says what Kerberos lacks.
func TestMechanisms(t *testing.T) {
	const digest, kerberos = "org.apache.zookeeper.server.auth.DigestLoginModule required", "com.sun.security.auth.module.Krb5LoginModule required"
	key := &Service{Principal: "zookeeper/h@R", Keytab: "/k"}
	for _, tt := range []struct {
		modules string
		users   Users
		service *Service
		err     string
	}{
		{kerberos + ` useKeyTab=true storeKey=TRUE keyTab="/k" principal="zookeeper/h@R" debug=true;`, nil, key, ""},
		{kerberos + ` useKeyTab=true storeKey=true keyTab="/k" principal="zookeeper/h@R"; ` + digest + ` user_a="b";`, Users{"a": "b"}, key, ""},
		{digest + `;`, Users{}, nil, ""},
		{kerberos + ` useKeyTab=true keyTab="/k" principal="p";`, nil, nil, "needs storeKey=true"},
		{kerberos + ` useKeyTab=false storeKey=true keyTab="/k" principal="p";`, nil, nil, "needs useKeyTab=true"},
		{kerberos + ` useKeyTab=true storeKey=true principal="p";`, nil, nil, "has no keyTab"},
		{kerberos + ` useKeyTab=true storeKey=true keyTab="/k";`, nil, nil, "has no principal"},
	} {
		login, err := ParseLogin([]byte("S { "+tt.modules+" };"), testProperty)
		if err != nil {
			t.Fatal(err)
		}
		users, service, ok, err := login.Mechanisms("S")
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || ok != (err == nil) {
			t.Errorf("%s: %v, %v; want %q", tt.modules, ok, err, tt.err)
		}
		if diff := cmp.Diff(tt.users, users) + cmp.Diff(tt.service, service); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.modules, diff)
		}
	}
}

// FuzzParseLogin: no file panics, and what is read is read again from its own
// words in quotes.
func FuzzParseLogin(f *testing.F) {
	f.Add([]byte(`Server { M required a="b${known}\101" "x y"=z; }; /* c */ Client { N optional; };`))
	f.Add([]byte("S{M required a=\"b\n;};"))
	f.Add([]byte(`S { M required a="${{`))
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		login, err := ParseLogin(text, testProperty)
		if err != nil {
			return
		}
		var b strings.Builder
		for name, modules := range login {
			b.WriteString(quote(name) + "{")
			for _, m := range modules {
				b.WriteString(quote(m.Class) + " " + m.Flag)
				for key, value := range m.Options {
					if strings.Contains(value, "${") {
						return // it would be replaced once more
					}
					b.WriteString(" " + quote(key) + "=" + quote(value))
				}
				b.WriteString(";")
			}
			b.WriteString("};")
		}
		if b.Len() > MaxLoginBytes {
			return
		}
		again, err := ParseLogin([]byte(b.String()), testProperty)
		if err != nil {
			t.Fatalf("%q, from %q: %v", b.String(), text, err)
		}
		if diff := cmp.Diff(login, again); diff != "" {
			t.Errorf("%q: (-first +again)\n%s", text, diff)
		}
	})
}
