package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Risk is something that a configuration lets an attacker do.
type Risk struct {
	Where  string // place of the setting, as in Warning; the file if it is not set
	Key    string
	Danger string
	Advice string
	Severe bool // an attacker that reaches a port needs nothing else
}

// String prints the risk on one line.
func (r Risk) String() string {
	level := "weak"
	if r.Severe {
		level = "open"
	}
	return fmt.Sprintf("%s: %s: %s: %s. %s", level, r.Where, r.Key, r.Danger, r.Advice)
}

// Risks returns what is unsafe about the configuration, the ports first.
func (c *Config) Risks() []Risk {
	r := &risks{c: c}
	r.clients()
	r.peers()
	r.disks()
	r.pages()
	r.identities()
	r.secrets()
	return r.list
}

type risks struct {
	c    *Config
	list []Risk
}

// Place returns where a setting is set, as in Warning, by its key in zoo.cfg or the name of a Java
// property; the file if it is not set.
func (c *Config) Place(key string) string {
	return cmp.Or(c.places[key], c.places["zookeeper."+key], c.File, "no zoo.cfg")
}

// Secrets says what zoo.cfg itself has that is secret, "" if nothing is.
func (c *Config) Secrets() string {
	for name, place := range c.places {
		if IsSecret(name) && strings.HasPrefix(place, c.File+":") {
			return "passwords"
		}
	}
	return ""
}

// add notes a risk if it exists. key is that of zoo.cfg.
func (r *risks) add(exists, severe bool, key, danger, advice string) {
	if !exists {
		return
	}
	r.list = append(r.list, Risk{r.c.Place(key), key, danger, advice, severe})
}

// reach says from where a port is reached.
func reach(host string) (others bool, from string) {
	if host == "localhost" {
		return false, "on this machine"
	}
	switch a, err := netip.ParseAddr(host); {
	case host == "" || err == nil && a.IsUnspecified():
		return true, "on every address"
	case err == nil && a.IsLoopback():
		return false, "on this machine"
	}
	return true, "on " + host
}

func (r *risks) clients() {
	c := &r.c.Client
	if !c.OnlySecure {
		others, from := reach(c.Host)
		r.add(others, !r.c.Auth.knowsClients(), "clientPort",
			fmt.Sprintf("clients connect to port %d %s without TLS: anyone on the way reads and changes everything", c.Port, from),
			"Use secureClientPort instead, or clientPortAddress=127.0.0.1")
		r.add(c.Unified, false, "client.portUnification", "a client may still leave TLS out", "Use secureClientPort alone once all clients have TLS")
	}
	if !c.Secure && !c.Unified {
		return
	}
	t := &r.c.TLS
	r.suites("ssl.ciphersuites", t)
	r.add(t.ClientAuth != "need", false, "ssl.clientAuth", t.ClientAuth+": a client needs no certificate", "Set need, or enforce another scheme by enforce.auth.schemes")
	r.add(t.ClientAuth != "none" && t.TrustStore.File == "", true, "ssl.trustStore.location",
		"it is not set: a certificate of any public authority lets a client in", "Name the authority of your clients")
	r.add(t.ClientAuth != "none" && !t.CRL && !t.OCSP, false, "ssl.crl", "a certificate that was stolen is valid until it expires", "Set ssl.crl or ssl.ocsp, or give certificates short lives")
}

// suites notes the listed cipher suites that are weak.
func (r *risks) suites(key string, t *TLS) {
	var weak []string
	for _, name := range t.Suites {
		if s := suite(name); s != nil && s.Insecure {
			weak = append(weak, name)
		}
	}
	r.add(len(weak) > 0, false, key, strings.Join(weak, ", ")+": an attacker may read what it has recorded, with time or the key of the server", "Remove them from the list")
}

func (r *risks) peers() {
	q := &r.c.Quorum
	if !q.Distributed() {
		return
	}
	t, login := &q.TLS, &q.Login
	required := login.Enabled && login.ServerRequired
	switch {
	case !t.Enabled || t.Plain:
		key, danger := "sslQuorum", "servers connect without TLS: anyone on the way reads and changes everything"
		if t.Enabled {
			key, danger = "portUnification", "servers are accepted with TLS and without"
		}
		if !required {
			danger += "; anyone who reaches the quorum port and the election port is a server"
		}
		r.add(true, !required, key, danger, "Set sslQuorum=true and portUnification=false, in the steps of security.md")
	case r.c.QuorumTLS.ClientAuth != "need" && !required:
		r.add(true, true, "ssl.quorum.clientAuth", r.c.QuorumTLS.ClientAuth+": anyone who reaches the port is a server", "Set need")
	case !t.Members && !t.Hosts:
		r.add(true, false, "ssl.quorum.verifyPeers", "every certificate that is trusted is that of any server", "Set ssl.quorum.verifyPeers=true")
	}
	r.add(login.Enabled && !login.ServerRequired, false, "quorum.auth.serverRequireSasl", "servers need not log in", "Set it to true on all servers, once all log in")
	if t.Enabled {
		r.suites("ssl.quorum.ciphersuites", &r.c.QuorumTLS)
		r.add(r.c.QuorumTLS.TrustStore.File == "", true, "ssl.quorum.trustStore.location",
			"it is not set: a certificate of any public authority makes a server", "Name the authority of your servers")
		r.add(!r.c.QuorumTLS.CRL && !r.c.QuorumTLS.OCSP, false, "ssl.quorum.crl", "a certificate that was stolen is valid until it expires", "Set ssl.quorum.crl or ssl.quorum.ocsp")
	}
}

// disks are about members that lose their data.
func (r *risks) disks() {
	r.add(r.c.Quorum.Distributed() && r.c.Data.DBAutoCreate, false, "db.autocreate",
		"a voter whose disk was emptied or replaced votes with nothing: if another voter is lost then, acknowledged writes may be lost too",
		"Set db.autocreate=false once the ensemble has data: such a voter then takes the data from the others before it votes. "+
			"A member of a new ensemble needs a file initialize in its data directory first")
}

// pages are about the ports for operators.
func (r *risks) pages() {
	c := r.c
	r.add(c.Commands.Allows("wchc") && c.Commands.Allows("conf") && c.Commands.Allows("dump"), false, "4lw.commands.whitelist",
		"anyone who reaches the client port sees all sessions, watches and settings, and may reset counters, without a login", "List only the words that your monitoring needs, such as srvr, ruok, mntr")
	if others, from := reach(c.Admin.Host); c.Admin.Enabled && others {
		open := !c.Admin.ForceHTTPS || !c.Admin.NeedClientAuth
		r.add(open, false, "admin.serverAddress", "the administration server is open "+from+": anyone who reaches it sees sessions and settings",
			"Set 127.0.0.1, or admin.forceHttps=true and admin.needClientAuth=true")
		r.add(open && c.Admin.Restore && c.Admin.Anyone, false, "admin.restore.enabled", "a client with all rights at the root znode, which everybody has by default, may replace all data over that port", "Set it to false unless you need it, or admin.authorizeAnyone=false")
	}
	r.add(c.Admin.Enabled && c.Admin.Pprof, false, "admin.pprof.enabled", "profiles of the process are shown without a login", "Set it to true only while you need it")
	others, from := reach(c.Metrics.Host)
	r.add(c.Metrics.Prometheus() && others, false, "metricsProvider.httpHost", "the metrics are open "+from, "Set the address of the network of your monitoring")
}

// knowsClients reports whether each client must prove an identity that the server knows: every
// client has one of scheme ip, and makes itself one of scheme digest.
func (a *Auth) knowsClients() bool {
	schemes := a.Enforced()
	return len(schemes) > 0 && !slices.Contains(schemes, "ip") && !slices.Contains(schemes, "digest")
}

func (r *risks) identities() {
	a := &r.c.Auth
	r.add(a.SkipACL, true, "skipACL", "every client may read, change and delete every znode", "Remove it")
	key, danger, advice := "enforce.auth.enabled", "a client needs no identity: what an ACL gives to world:anyone, everybody has", "Set it to true, with enforce.auth.schemes"
	if len(a.Enforced()) > 0 {
		key, danger = "enforce.auth.schemes", "every client has an address (ip), and any name and password make a user (digest): what an ACL gives to world:anyone, everybody has"
		advice = "Enforce sasl or x509 alone"
	}
	r.add(!a.knowsClients() && !(r.c.Client.OnlySecure && r.c.TLS.ClientAuth == "need"), false, key, danger, advice)
	r.add(a.DigestEnabled && (a.SuperDigest != "" || a.SuperFile != ""), false, "DigestAuthenticationProvider.superDigest", "there is a superuser with a password, and it sends the password in every login",
		"Remove it when it is not needed, or use X509AuthenticationProvider.superUser")
	weak := a.DigestHash == "" || a.DigestHash == "SHA1" || a.DigestHash == "MD5"
	r.add(a.DigestEnabled && weak, false, "DigestAuthenticationProvider.digestAlg", "passwords in ACLs are hashed by a weak function", "Set SHA-256 for a new ensemble, on all servers; existing digest ACLs no longer match after a change")
	r.add(a.SASL.AllowFailed, false, "allowSaslFailedClients", "a client whose login has failed stays connected", "Remove it")
	r.add(a.SASL.AnyUser != "", false, "letAnySaslUserDoX", "an id in ACLs means every user that can log in", "Remove it unless your ACLs rely on it")
	r.add(a.UseForwardedFor, false, "IPAuthenticationProvider.usexforwardedfor", "anyone who reaches the administration server may claim any address", "Remove it unless a proxy sets the header")
	r.add(!r.c.Audit.Enabled, false, "audit.enable", "no record tells afterwards which client has changed what", "Set it to true")
}

// secrets are about passwords and what is made of them.
func (r *risks) secrets() {
	s := &r.c.Session
	r.add(s.SecretFile == "" || s.Password == "apache" || s.Password == "both", false, "sessionSecretFile",
		"the password of a session can be computed from its number, as in Apache: anyone who sees it in a list can take the session over", "Set it on all servers once no member is an Apache")
	for _, store := range []struct {
		key string
		of  *Store
	}{
		{"ssl.keyStore", &r.c.TLS.KeyStore}, {"ssl.trustStore", &r.c.TLS.TrustStore},
		{"ssl.quorum.keyStore", &r.c.QuorumTLS.KeyStore}, {"ssl.quorum.trustStore", &r.c.QuorumTLS.TrustStore},
	} {
		r.add(store.of.Password != "" && store.of.PasswordFile == "", false, store.key+".password", "the password is in the configuration", "Use "+store.key+".passwordPath")
	}
	for _, name := range slices.Sorted(maps.Keys(r.c.places)) {
		if strings.HasPrefix(r.c.places[name], "command line") && IsSecret(name) {
			r.add(true, false, strings.TrimPrefix(name, "zookeeper."), "every user of this machine sees the command line", "Put it into a file")
		}
	}
}
