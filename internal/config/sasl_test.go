package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const saslLine = "authProvider.1=" + saslProvider + "\n"

func TestSASLSettings(t *testing.T) {
	tests := []struct {
		name     string
		file     string
		flags    []string
		want     SASL
		enforced []string
	}{
		{name: "nothing", want: SASL{NameRules: "DEFAULT", Section: "Server"}},
		{name: "everything",
			file: saslLine + "superUser=a\nsuperUser.1=b\nallowSaslFailedClients=true\nletAnySaslUserDoX=any\n" +
				"SASLAuthenticationProvider.superPassword=p\nsasl.serverconfig=Mine\nsessionRequireClientSASLAuth=TRUE",
			flags: []string{"-Djava.security.auth.login.config=/etc/jaas.conf"},
			want: SASL{NameRules: "DEFAULT", LoginFile: "/etc/jaas.conf", Section: "Mine", Provider: true, SuperUsers: []string{"a", "b"},
				SuperPassword: "p", AnyUser: "any", AllowFailed: true},
			enforced: []string{"sasl"}},
		{name: "Kerberos", file: "kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=TRUE\nsecurity.auth_to_local=RULE:[1:$1] DEFAULT",
			flags: []string{"-Djava.security.auth.login.config=j", "-Djava.security.krb5.conf=/etc/k.conf", "-Djava.security.krb5.realm=R", "-Djava.security.krb5.kdc=k1:k2", "-Dzookeeper.kinit=/usr/bin/kinit", "-Dsun.security.krb5.debug=true"},
			want:  SASL{Section: "Server", LoginFile: "j", KerberosFile: "/etc/k.conf", KerberosRealm: "R", KDCs: []string{"k1", "k2"}, NameRules: "RULE:[1:$1] DEFAULT", RemoveHost: true, RemoveRealm: true}},
		{name: "as properties",
			flags: []string{"-Dzookeeper.authProvider.x=" + saslProvider, "-Dzookeeper.superUser=a", "-Dzookeeper.sasl.serverconfig=Mine"},
			want:  SASL{NameRules: "DEFAULT", Section: "Mine", Provider: true, SuperUsers: []string{"a"}}},
		{name: "the only file", flags: []string{"-Djava.security.auth.login.config==jaas.conf"}, want: SASL{NameRules: "DEFAULT", Section: "Server", LoginFile: "jaas.conf"}},
		{name: "a URL", flags: []string{"-Djava.security.auth.login.config=file:///etc/jaas.conf"}, want: SASL{NameRules: "DEFAULT", Section: "Server", LoginFile: "/etc/jaas.conf"}},
		{name: "a short URL", flags: []string{"-Djava.security.auth.login.config=file:/etc/jaas.conf"}, want: SASL{NameRules: "DEFAULT", Section: "Server", LoginFile: "/etc/jaas.conf"}},
		{name: "enforced", file: saslLine + "enforce.auth.enabled=true\nenforce.auth.schemes= sasl , digest,,ip",
			want: SASL{NameRules: "DEFAULT", Section: "Server", Provider: true}, enforced: []string{"sasl", "digest", "ip"}},
		{name: "schemes that do not count", file: "enforce.auth.schemes=nonsense", want: SASL{NameRules: "DEFAULT", Section: "Server"}},
		{name: "SASL goes before the schemes", file: saslLine + "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nsessionRequireClientSASLAuth=true",
			flags: []string{"-Djava.security.auth.login.config=j"},
			want:  SASL{NameRules: "DEFAULT", Section: "Server", Provider: true, LoginFile: "j"}, enforced: []string{"sasl"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, map[string]string{"zoo.cfg": base + tt.file})
			c, warnings, err := Load("zoo.cfg", tt.flags, "")
			if err != nil || len(warnings) > 0 {
				t.Fatalf("%v, %v", warnings, err)
			}
			slices.Sort(c.Auth.SASL.SuperUsers)
			if diff := cmp.Diff(tt.want, c.Auth.SASL); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tt.enforced, c.Auth.Enforced()); diff != "" {
				t.Errorf("enforced (-want +got)\n%s", diff)
			}
		})
	}
}

// TestSASLReports: schemes that are enforced and not there keep Apache 3.8.0 from
// starting as well.
func TestSASLReports(t *testing.T) {
	tests := []struct {
		name  string
		file  string
		flags []string
		want  string
	}{
		{name: "rules without a login file", file: "security.auth_to_local=RULE:[1:",
			want: "warning zoo.cfg:3: security.auth_to_local: has no effect: no client can log in by Kerberos, as -Djava.security.auth.login.config is not set\n"},
		{name: "superuser without digest", file: "DigestAuthenticationProvider.enabled=false\nDigestAuthenticationProvider.superDigest=super:x\nDigestAuthenticationProvider.superDigestPath=/s",
			want: "warning zoo.cfg:4: DigestAuthenticationProvider.superDigest: has no effect with DigestAuthenticationProvider.enabled=false\n" +
				"warning zoo.cfg:5: DigestAuthenticationProvider.superDigestPath: has no effect with DigestAuthenticationProvider.enabled=false\n"},
		{name: "KDCs of no realm", flags: []string{"-Djava.security.krb5.kdc=k1"},
			want: "error command line: java.security.krb5.kdc=k1: needs -Djava.security.krb5.realm, as in Java\n"},
		{name: "no KDC", flags: []string{"-Djava.security.krb5.kdc=k1:", "-Djava.security.krb5.realm=R"},
			want: "error command line: java.security.krb5.kdc=k1:: must be names of hosts, separated by colons\n"},
		{name: "the default rule", file: "security.auth_to_local=DEFAULT"},
		{name: "names of an ensemble", file: "ensembleAuthName=a,b",
			want: "warning zoo.cfg:3: ensembleAuthName: makes the scheme ensemble exist; servers of Apache's need authProvider.1=" + ensembleProvider + " as well\n"},
		{name: "names of an ensemble and its provider", file: "ensembleAuthName=a,b\nauthProvider.1=" + ensembleProvider},
		{name: "no schemes", file: "enforce.auth.enabled=true", want: "error zoo.cfg:3: enforce.auth.enabled=true: needs enforce.auth.schemes\n"},
		{name: "unknown scheme", file: "enforce.auth.enabled=true\nenforce.auth.schemes=digest,x509",
			want: `error zoo.cfg:4: enforce.auth.schemes=digest,x509: the scheme "x509" does not exist` + "\n"},
		{name: "digest turned off", file: "enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false",
			want: `error zoo.cfg:4: enforce.auth.schemes=digest: the scheme "digest" does not exist` + "\n"},
		{name: "SASL without its provider", file: "sessionRequireClientSASLAuth=true",
			want: "warning zoo.cfg:3: sessionRequireClientSASLAuth: no client can log in: -Djava.security.auth.login.config is not set\n" +
				"error zoo.cfg:3: sessionRequireClientSASLAuth=true: the scheme \"sasl\" does not exist without authProvider.1=" + saslProvider + "\n"},
		{name: "SASL without a file", file: saslLine + "sessionRequireClientSASLAuth=true",
			want: "warning zoo.cfg:4: sessionRequireClientSASLAuth: no client can log in: -Djava.security.auth.login.config is not set\n"},
		{name: "a setting that nobody reads", file: "requireClientAuthScheme=sasl",
			want: "warning zoo.cfg:3: requireClientAuthScheme: has no effect here: neither Apache nor this server reads it; " +
				"`sessionRequireClientSASLAuth=true` has the documented effect\n"},
		{name: "superuser misspelt", file: "superUserX=a", want: "warning zoo.cfg:3: superUserX: is unknown and has no effect; did you mean superUser?\n"},
		{name: "file of no name", flags: []string{"-Djava.security.auth.login.config=file:"},
			want: "error command line: java.security.auth.login.config=file:: is empty\n"},
		{name: "file in the file", file: "java.security.auth.login.config=/x",
			want: "warning zoo.cfg:3: java.security.auth.login.config: has no effect in a file; set it as -Djava.security.auth.login.config=...\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, map[string]string{"zoo.cfg": base + tt.file})
			_, warnings, err := Load("zoo.cfg", tt.flags, "")
			if got := report(warnings, err); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}
