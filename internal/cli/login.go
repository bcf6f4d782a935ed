package cli

import (
	"os"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/sasl"
)

// loginSection is the section of a login file for clients.
const loginSection = "Client"

// digestLogin reads the name and password for SASL's DIGEST-MD5 from a login file, the
// one that Java reads as java.security.auth.login.config, with a section
//
//	Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret"; };
//
// Its errors are usage errors, and show no secret.
func digestLogin(file string) (client.Mechanism, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{"--login: " + err.Error()}
	}
	none := func(string) (string, bool) { return "", false }
	login, err := sasl.ParseLogin(text, none)
	if err != nil {
		return nil, usageError{"--login: " + file + ": " + err.Error()}
	}
	for _, m := range login[loginSection] {
		user, isUser := m.Options["username"]
		password, hasPassword := m.Options["password"]
		if m.Class == "org.apache.zookeeper.server.auth.DigestLoginModule" && isUser && hasPassword {
			return client.DigestMD5(user, password), nil
		}
	}
	return nil, usageError{"--login: " + file + " has no section " + loginSection + " with DigestLoginModule, username and password"}
}
