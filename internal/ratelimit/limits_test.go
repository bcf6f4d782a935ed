package ratelimit

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	f, err := Parse([]byte(`
# what each may use
session   requests=1000  bytes=1000000 watches=10 ephemerals=20
identity  ip:10.1.2.3    requests=none connections=200
identity  requests=5000  connections=100
session   sasl:batch     requests=50 ephemerals=none
identity  super:         connections=3
	identity digest:a:b= bytes=7
identity ip:::1 watches=1
`))
	if err != nil {
		t.Fatal(err)
	}
	session := Limits{Requests: 1000, Bytes: 1000000, Watches: 10, Ephemerals: 20}
	for _, tt := range []struct {
		scheme, id   string
		session, all Limits
		named        bool
	}{
		{"ip", "10.0.0.1", session, Limits{Requests: 5000, Connections: 100}, false},
		{"ip", "10.1.2.3", session, Limits{Connections: 200}, true},
		{"ip", "0:0:0:0:0:0:0:1", session, Limits{Requests: 5000, Connections: 100, Watches: 1}, true},
		{"ip", "invalid IP", session, Limits{Requests: 5000, Connections: 100}, false},
		{"sasl", "batch", Limits{Requests: 50, Bytes: 1000000, Watches: 10}, Limits{Requests: 5000, Connections: 100}, true},
		{"digest", "a:b=", session, Limits{Requests: 5000, Bytes: 7, Connections: 100}, true},
		{"digest", "a:c=", session, Limits{Requests: 5000, Connections: 100}, false},
		{"super", "", Limits{}, Limits{Connections: 3}, true},
	} {
		session, all := f.Of(tt.scheme, tt.id)
		if named := f.Names(tt.scheme, tt.id); session != tt.session || all != tt.all || named != tt.named {
			t.Errorf("%s:%s: %+v, %+v, named %v", tt.scheme, tt.id, session, all, named)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"sessions requests=1", `line 1: "sessions" is neither session nor identity`},
		{"session", "line 1: the line has no limits"},
		{"identity ip:1.2.3.4", "line 1: the line has no limits"},
		{"session connections=4", "not for a session"},
		{"session requests=0", `"requests=0": the limit is none, or a number from 1`},
		{"session requests=-1", "from 1 to 2147483647"},
		{"session requests=2147483648", "from 1 to 2147483647"},
		{"session requests=1k", "from 1 to 2147483647"},
		{"session requests", "is not requests=N"},
		{"session watchs=1", "is not requests=N"},
		{"session requests=1 requests=2", "requests is given twice"},
		{"session ip:zoo requests=1", `"zoo" is not an address`},
		{"session digest:a requests=1", "a digest is digest:user:hash"},
		{"session world:anyone requests=1", "an identity begins with"},
		{"session sasl: requests=1", "has no user"},
		{"session super:x requests=1", "without a name"},
		{"session requests=1\nsession bytes=1", "line 2: there are two lines for session"},
		{"session ip:::1 requests=1\n\nsession ip:0:0:0:0:0:0:0:1 bytes=1", "line 3: there are two lines for session ip:::1"},
		{"x\ny", "line 1: \"x\" is neither session nor identity\nline 2"},
		{"#" + strings.Repeat("x", MaxFileBytes), "more than"},
	} {
		if _, err := Parse([]byte(tt.line)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %s", tt.line, err, tt.want)
		}
	}
}

// Any text is refused with an error, or gives limits that are not negative.
func FuzzParse(f *testing.F) {
	f.Add("session requests=1\nidentity ip:10.0.0.1 connections=none # no comment\n")
	f.Add("identity digest:a:b= bytes=7\nsession super: watches=3")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse([]byte(text))
		if err != nil {
			return
		}
		session, all := file.Of("ip", "10.0.0.1")
		if min(session.Requests, session.Bytes, all.Requests, all.Bytes) < 0 || min(session.Watches, session.Ephemerals, all.Connections) < 0 {
			t.Errorf("%+v, %+v", session, all)
		}
	})
}
