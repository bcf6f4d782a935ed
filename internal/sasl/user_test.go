package sasl

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Sections with which a server logs in elsewhere.
func TestClientOfSection(t *testing.T) {
	const digest, kerberos = "org.apache.zookeeper.server.auth.DigestLoginModule required", "com.sun.security.auth.module.Krb5LoginModule required"
	for _, tt := range []struct {
		section string
		want    *Client
		err     string
	}{
		{"", nil, ""},
		{digest + ` username="bob" password="secret";`, &Client{User: "bob", Password: "secret"}, ""},
		{digest + ` username="bob";`, nil, "has no password"},
		{digest + ` password="secret";`, nil, "has no username"},
		{kerberos + ` useKeyTab=TRUE keyTab="/k" principal="p/h@R";`, &Client{Kerberos: true, Principal: "p/h@R", Keytab: "/k"}, ""},
		{kerberos + ` useKeyTab=true principal="p/h@R";`, nil, "has no keyTab"},
		{kerberos + ` useKeyTab=true keyTab="/k";`, nil, "has no principal"},
		{kerberos + ` useTicketCache=true ticketCache="/c";`, &Client{Kerberos: true, Cache: "/c"}, ""},
		{`X required username="bob" password="secret";`, nil, "unknown login module X"},
	} {
		login, err := ParseLogin([]byte("S { "+tt.section+" };"), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := login.Client("S")
		if diff := cmp.Diff(tt.want, c); diff != "" || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q; -want +got:\n%s", tt.section, err, tt.err, diff)
		}
	}
}
