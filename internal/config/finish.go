package config

import (
	"fmt"
	"slices"
	"strings"
)

// finish sets the values that depend on other settings, and checks the rules that
// concern several settings.
func (l *loader) finish() {
	l.finishQuorum()
	l.finishClient()
	l.finishTLS()
	l.finishData()
	l.finishSessions()
	l.finishAuth()
	l.finishPeerLogin()
	l.derive()
	l.warnDangers()
}

// isSet reports whether a key of zoo.cfg or a full property name was given.
func (l *loader) isSet(name string) bool { return l.places[name] != "" }

// finishClient sets the client's address from zoo.cfg and the server's own line.
func (l *loader) finishClient() {
	c := &l.config.Client
	set := l.isSet("clientPort")
	c.Secure = l.isSet("secureClientPort")
	if l.config.File == "" && !set && !c.Secure && !l.isSet("clientPortAddress") && !l.config.Quorum.Distributed() {
		c.Host, c.Port = "127.0.0.1", 2181
		return
	}
	if !set && l.isSet("clientPortAddress") {
		l.fail(l.places["clientPortAddress"], "clientPortAddress", c.Host, "needs clientPort")
		return
	}
	if own := l.config.Quorum.Own(); own != nil && own.HasClient {
		l.ownAddress(own, set)
		return
	}
	switch {
	case !set && c.Secure:
		c.OnlySecure = true
	case !set && !l.badMembers && !l.config.Quorum.Distributed():
		l.fail(l.name, "clientPort", "", "is not set; no client could connect")
	}
}

func (l *loader) finishData() {
	d := &l.config.Data
	if d.Dir == "" && !l.isSet("dataDir") {
		l.fail(l.name, "dataDir", "", "is not set")
	}
	if d.LogDir == "" {
		d.LogDir = d.Dir
	}
}

func (l *loader) finishSessions() {
	s := &l.config.Session
	if s.MinTimeout < 0 {
		s.MinTimeout = 2 * s.Tick
	}
	if s.MaxTimeout < 0 {
		s.MaxTimeout = 20 * s.Tick
	}
	if s.SecretFile == "" && (s.Password == "both" || s.Password == "secret") {
		l.fail(l.places["sessionPassword"], "sessionPassword", s.Password, "needs sessionSecretFile")
	}
	if s.MinTimeout <= s.MaxTimeout {
		return
	}
	key := "maxSessionTimeout"
	if !l.isSet(key) {
		key = "minSessionTimeout"
	}
	l.fail(l.places[key], key, "", fmt.Sprintf("minSessionTimeout is %d ms and maxSessionTimeout is %d ms",
		s.MinTimeout.Milliseconds(), s.MaxTimeout.Milliseconds()))
}

// finishAuth checks that clients can satisfy what is enforced. An enforced scheme that
// does not exist would lock out all clients; Apache does not start with it either.
func (l *loader) finishAuth() {
	a := &l.config.Auth
	l.finishNames()
	key := "enforce.auth.schemes"
	switch {
	case a.RequireSASL:
		key = "sessionRequireClientSASLAuth"
	case a.Enforce && len(a.EnforceSchemes) == 0:
		l.fail(l.places["zookeeper.enforce.auth.enabled"], "enforce.auth.enabled", "true", "needs enforce.auth.schemes")
	}
	where := l.places["zookeeper."+key]
	for _, scheme := range a.Enforced() {
		if scheme == "ip" || scheme == "digest" && a.DigestEnabled || scheme == "sasl" && a.SASL.Provider || scheme == "x509" && a.X509 {
			continue
		}
		reason := fmt.Sprintf("the scheme %q does not exist", scheme)
		if scheme == "sasl" {
			reason += " without authProvider.1=" + saslProvider
		}
		l.fail(where, key, l.config.Properties["zookeeper."+key], reason)
	}
	if slices.Equal(a.Enforced(), []string{"sasl"}) && a.SASL.LoginFile == "" {
		l.warn(where, key, "no client can log in: -Djava.security.auth.login.config is not set")
	}
}

// finishNames warns about names of ensembles, of principals and of the superuser that have no effect, or not everywhere.
func (l *loader) finishNames() {
	a := &l.config.Auth
	for _, key := range []string{"zookeeper.DigestAuthenticationProvider.superDigest", "zookeeper.DigestAuthenticationProvider.superDigestPath"} {
		if l.isSet(key) && !a.DigestEnabled {
			l.warnAt(key, "has no effect with DigestAuthenticationProvider.enabled=false")
		}
	}
	if len(a.EnsembleNames) > 0 && !a.Ensemble {
		a.Ensemble = true
		l.warnAt("zookeeper.ensembleAuthName", "makes the scheme ensemble exist; servers of Apache's need authProvider.1="+ensembleProvider+" as well")
	}
	if a.SASL.KDCs != nil && a.SASL.KerberosRealm == "" {
		const key = "java.security.krb5.kdc"
		l.fail(l.places[key], key, strings.Join(a.SASL.KDCs, ":"), "needs -Djava.security.krb5.realm, as in Java")
	}
	if l.isSet("zookeeper.security.auth_to_local") && a.SASL.NameRules != "DEFAULT" && a.SASL.LoginFile == "" {
		l.warnAt("zookeeper.security.auth_to_local", "has no effect: no client can log in by Kerberos, as -Djava.security.auth.login.config is not set")
	}
}

// finishPeerLogin checks that what servers require of each other can be met, by the rules
// of Apache.
func (l *loader) finishPeerLogin() {
	p := &l.config.Quorum.Login
	const enable, learner, server = "quorum.auth.enableSasl", "quorum.auth.learnerRequireSasl", "quorum.auth.serverRequireSasl"
	switch {
	case !p.Enabled && p.LearnerRequired:
		l.fail(l.places[learner], learner, "true", "needs "+enable+"=true")
	case !p.Enabled && p.ServerRequired:
		l.fail(l.places[server], server, "true", "needs "+enable+"=true")
	case p.ServerRequired && !p.LearnerRequired:
		l.fail(l.places[server], server, "true", "needs "+learner+"=true")
	case p.Enabled && l.config.Quorum.Distributed() && l.config.Auth.SASL.LoginFile == "":
		l.fail(l.places[enable], enable, "true", "needs -Djava.security.auth.login.config")
	}
}

// derive sets defaults that depend on other settings.
func (l *loader) derive() {
	c := l.config
	if !l.isSet("zookeeper.jute.maxbuffer.extrasize") {
		c.Client.ExtraBytes = c.Client.MaxFrameBytes
	}
	c.Client.ExtraBytes = max(c.Client.ExtraBytes, 1024)
	if c.Quorum.ConnectLimit == 0 {
		c.Quorum.ConnectLimit = c.Quorum.InitLimit
	}
	// Apache's own scripts need these two words, so a list cannot disable them.
	need := []string{"srvr"}
	if c.Quorum.ReadOnlyMode {
		need = append(need, "isro")
	}
	for _, word := range need {
		if !c.Commands.Allows(word) {
			c.Commands.Allowed = append(c.Commands.Allowed, word)
		}
	}
	if slices.Contains(c.Commands.Allowed, "*") {
		c.Commands.Allowed = []string{"*"}
	}
}

// warnDangers warns about settings that are honoured and dangerous, and about values
// that were raised to their minimum.
func (l *loader) warnDangers() {
	c := l.config
	l.raised("zookeeper.snapCount", c.Snapshot.Count)
	l.raised("autopurge.snapRetainCount", c.Purge.Retain)
	l.raised("zookeeper.commitLogCount", c.Log.CommitLogCount)
	if !c.Log.ForceSync {
		l.warnAt("zookeeper.forceSync", "no: acknowledged writes are LOST if the machine crashes")
	}
	if c.Auth.SkipACL {
		l.warnAt("zookeeper.skipACL", "yes: every client may read, change and delete every znode")
	}
	if c.Snapshot.TrustEmpty {
		l.warnAt("zookeeper.snapshot.trust.empty", "true: a lost snapshot is not noticed; turn it off after the upgrade")
	}
}

func (l *loader) warnAt(key, text string) {
	l.warn(l.places[key], strings.TrimPrefix(key, "zookeeper."), "%s", text)
}
