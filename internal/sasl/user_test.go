package sasl

import (
	"strings"
	"testing"
)

// A section with which a server logs in elsewhere.
func TestUserOfSection(t *testing.T) {
	login, err := ParseLogin([]byte(`QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret"; };
		Half { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob"; };
		Kerberos { com.sun.security.auth.module.Krb5LoginModule required; };
		Empty { };`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if name, password, ok, err := login.User("QuorumLearner"); name != "bob" || password != "secret" || !ok || err != nil {
		t.Errorf("%q, %q, %v, %v", name, password, ok, err)
	}
	for section, want := range map[string]string{"Half": "username and password are needed", "Kerberos": "Kerberos", "Empty": "", "None": ""} {
		_, _, ok, err := login.User(section)
		if ok || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", section, ok, err, want)
		}
	}
}
