package cli

import (
	"cmp"
	"os"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/sasl"
)

// loginOptions say how to log in by SASL.
type loginOptions struct {
	file            string // --login: in the form of Java's JAAS; "" for none
	section         string // of the file; "" for Client
	sectionOptional bool   // no login if the file lacks the section
	kerberos        bool   // with the ticket cache, if there is no file
	client.KerberosOptions
}

// The login modules of Java that are known here.
const (
	digestModule   = "org.apache.zookeeper.server.auth.DigestLoginModule"
	kerberosModule = "com.sun.security.auth.module.Krb5LoginModule"
)

// mechanism returns what the options mean; nil for no login. Naming a key table or a
// principal turns Kerberos on. Its errors are usage errors, and show no secret.
func (o loginOptions) mechanism() (client.Mechanism, error) {
	if o.file != "" {
		return o.readFile()
	}
	if !o.kerberos && o.Keytab == "" && o.Principal == "" {
		return nil, nil
	}
	return o.byKerberos("--kerberos")
}

func (o loginOptions) byKerberos(option string) (client.Mechanism, error) {
	m, err := client.Kerberos(o.KerberosOptions)
	if err != nil {
		return nil, usageError{option + ": " + err.Error()}
	}
	return m, nil
}

// readFile reads a login file, the one that Java reads as java.security.auth.login.config,
// with a section
//
//	Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret"; };
//
// or one for Kerberos
//
//	Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/bob.keytab" principal="bob"; };
//	Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true; };
func (o loginOptions) readFile() (client.Mechanism, error) {
	text, err := os.ReadFile(o.file)
	if err != nil {
		return nil, usageError{"--login: " + err.Error()}
	}
	none := func(string) (string, bool) { return "", false }
	login, err := sasl.ParseLogin(text, none)
	if err != nil {
		return nil, usageError{"--login: " + o.file + ": " + err.Error()}
	}
	section := cmp.Or(o.section, "Client")
	if login[section] == nil && o.sectionOptional {
		return nil, nil
	}
	for _, m := range login[section] {
		user, isUser := m.Options["username"]
		password, hasPassword := m.Options["password"]
		switch {
		case m.Class == digestModule && isUser && hasPassword:
			return client.DigestMD5(user, password), nil
		case m.Class == kerberosModule:
			o.Principal = cmp.Or(o.Principal, m.Options["principal"])
			if strings.EqualFold(m.Options["useKeyTab"], "true") {
				o.Keytab = cmp.Or(o.Keytab, m.Options["keyTab"])
			}
			if strings.EqualFold(m.Options["useTicketCache"], "true") {
				o.Cache = cmp.Or(o.Cache, m.Options["ticketCache"])
			}
			return o.byKerberos("--login: " + o.file)
		}
	}
	return nil, usageError{"--login: " + o.file + " has no section " + section +
		" with Krb5LoginModule, or with DigestLoginModule, username and password"}
}

// use takes what the properties of zkCli.sh say of SASL, except where the options say something
// themselves. A login file that the properties name need not have the section.
func (o *loginOptions) use(properties map[string]property) {
	value := func(name string) string { return properties[name].value }
	o.section = value("zookeeper.sasl.clientconfig")
	o.Service = cmp.Or(o.Service, value("zookeeper.sasl.client.username"))
	o.Realm = cmp.Or(o.Realm, value("zookeeper.server.realm"))
	o.Server = cmp.Or(o.Server, value("zookeeper.server.principal"))
	o.Canonicalize = o.Canonicalize || isTrue(value("zookeeper.sasl.client.canonicalize.hostname"))
	o.Config = cmp.Or(o.Config, value("java.security.krb5.conf"))
	file := strings.TrimPrefix(strings.TrimPrefix(value("java.security.auth.login.config"), "="), "file:")
	if off := strings.EqualFold(value("zookeeper.sasl.client"), "false"); o.file == "" && !off {
		o.file, o.sectionOptional = file, file != ""
	}
}
