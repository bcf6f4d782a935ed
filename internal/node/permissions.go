package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
)

// guarded is a file or a directory that other users of the machine must not change and, if
// it is secret, must not read.
type guarded struct {
	key     string // the setting that names it
	name    string
	content string // what it has, for a secret; "": it may be read
	dir     bool
}

// Exposed returns the files and directories of the configuration that other users of this
// machine may read or change and must not. It looks at modes, not at owners and access lists.
// A file that does not exist is left out: Check reports it if the server needs it.
func Exposed(cfg *config.Config) (risks []config.Risk) {
	seen := map[string]bool{}
	for _, g := range guardedFiles(cfg) {
		name, err := filepath.Abs(g.name)
		if err == nil && g.name != "" {
			name, err = filepath.EvalSymlinks(name)
		}
		if err != nil || g.name == "" {
			continue
		}
		for _, r := range []config.Risk{g.exposed(name), replaceable(name)} {
			if r.Danger != "" && !seen[r.Danger] {
				seen[r.Danger] = true
				r.Where, r.Key = cfg.Place(g.key), g.key
				risks = append(risks, r)
			}
		}
	}
	return risks
}

// exposed returns the risk that other users read or change the file of this name. Danger is "" if none may.
func (g *guarded) exposed(name string) (r config.Risk) {
	mode, who := reachable(name, g.forbidden())
	switch {
	case who == "":
		return r
	case g.content == "":
		r.Danger = who + " may change " + name
	case mode&0o022 == 0:
		r.Danger = fmt.Sprintf("%s may read %s, which has %s", who, name, g.content)
	default:
		r.Danger = fmt.Sprintf("%s may read and change %s, which has %s", who, name, g.content)
	}
	r.Advice = "Run: chmod " + g.right() + " " + quote(name)
	return r
}

// replaceable returns the risk that other users put another file in the place of this one.
func replaceable(name string) (r config.Risk) {
	parent := filepath.Dir(name)
	if _, who := reachable(parent, 0o022); who != "" {
		r.Danger = who + " may replace the files in " + parent
		r.Advice = "Run: chmod go-w " + quote(parent)
	}
	return r
}

// forbidden are the bits of a mode that must not be set.
func (g *guarded) forbidden() fs.FileMode {
	switch {
	case g.dir:
		return 0o077
	case g.content != "":
		return 0o066
	}
	return 0o022
}

// right is the mode for chmod.
func (g *guarded) right() string {
	if g.content == "" {
		return "go-w"
	}
	return "go="
}

// reachable returns which of the bits a file's mode has, without those that the directories
// above it make useless, and names the users that have these rights: "" if there are none. A directory with the
// sticky bit, like /tmp, lets no user replace what belongs to others.
func reachable(name string, bits fs.FileMode) (mode fs.FileMode, who string) {
	info, err := os.Stat(name)
	if err != nil || info.Mode()&fs.ModeSticky != 0 && bits == 0o022 {
		return 0, ""
	}
	mode = info.Mode().Perm() & bits
	for dir := name; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		info, err := os.Stat(dir)
		if err != nil {
			return 0, ""
		}
		if info.Mode()&0o001 == 0 {
			mode &^= 0o007
			if info.Mode()&0o010 == 0 {
				mode = 0
			}
		}
	}
	switch {
	case mode&0o007 != 0:
		return mode, "every user of this machine"
	case mode != 0:
		return mode, "the group of the file"
	}
	return 0, ""
}

// guardedFiles are those that the configuration names.
func guardedFiles(cfg *config.Config) []guarded {
	list := []guarded{
		{key: "zoo.cfg", name: cfg.File, content: cfg.Secrets()},
		{key: "dynamicConfigFile", name: cfg.Quorum.DynamicFile},
		{key: "dataDir", name: dataDirectory(cfg.Data.Dir), content: "all data", dir: true},
	}
	if cfg.Data.LogDir != cfg.Data.Dir {
		list = append(list, guarded{key: "dataLogDir", name: dataDirectory(cfg.Data.LogDir), content: "all changes of the data", dir: true})
	}
	for _, s := range []struct {
		prefix string
		of     *config.TLS
	}{{"ssl.", &cfg.TLS}, {"ssl.quorum.", &cfg.QuorumTLS}} {
		keys, trusted := &s.of.KeyStore, &s.of.TrustStore
		list = append(list,
			guarded{key: s.prefix + "keyStore.location", name: keys.File, content: "the private key"},
			guarded{key: s.prefix + "keyStore.passwordPath", name: keys.PasswordFile, content: "a password"},
			guarded{key: s.prefix + "trustStore.location", name: trusted.File},
			guarded{key: s.prefix + "trustStore.passwordPath", name: trusted.PasswordFile, content: "a password"})
	}
	const login = "java.security.auth.login.config"
	list = append(list,
		guarded{key: "sessionSecretFile", name: cfg.Session.SecretFile, content: "the secret of all sessions"},
		guarded{key: "DigestAuthenticationProvider.superDigestPath", name: cfg.Auth.SuperFile, content: "the superuser's digest"},
		guarded{key: "limitsFile", name: cfg.Client.LimitsFile},
		guarded{key: "audit.file", name: cfg.Audit.File},
		guarded{key: login, name: cfg.Auth.SASL.LoginFile, content: "the logins"},
		guarded{key: "java.security.krb5.conf", name: cfg.Auth.SASL.KerberosFile})
	for _, name := range keyTables(cfg) {
		list = append(list, guarded{key: login, name: name, content: "keys of Kerberos"})
	}
	return list
}

// dataDirectory returns the directory within dir that has the data, or dir if it is new.
func dataDirectory(dir string) string {
	if inner := filepath.Join(dir, versionDir); dir != "" {
		if _, err := os.Stat(inner); err == nil {
			return inner
		}
	}
	return dir
}

// keyTables returns the files with keys of Kerberos that the login file names for this server.
func keyTables(cfg *config.Config) (names []string) {
	c, p := &cfg.Auth.SASL, &cfg.Quorum.Login
	if c.LoginFile == "" {
		return nil
	}
	login, err := loginFile(cfg)
	if err != nil {
		return nil // Check says so
	}
	sections := []string{c.Section}
	if p.Enabled {
		sections = append(sections, p.ServerSection)
		if client, err := login.Client(p.LearnerSection); err == nil && client != nil {
			names = append(names, client.Keytab, client.Cache)
		}
	}
	for _, section := range sections {
		if _, service, _, err := login.Mechanisms(section); err == nil && service != nil {
			names = append(names, service.Keytab)
		}
	}
	return names
}

// quote returns a name as a word of the shell.
func quote(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,=:@%") == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
