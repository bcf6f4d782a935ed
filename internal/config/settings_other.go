package config

import (
	"errors"
	"slices"
	"strings"
	"time"
)

func adminSettings() []setting {
	const worker = "numbers are recorded at once, without a queue"
	const https = "the metrics cannot be served over TLS yet: remove the key, and let a proxy terminate TLS"
	return []setting{
		{name: "4lw.commands.whitelist", scope: property, def: "srvr",
			setter: setter{set: whitelist},
			note: "words that are answered, separated by commas; `*` means all. " +
				"`readonlymode.enabled` adds `isro`"},
		{name: "admin.enableServer", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Enabled }),
			note:   "starts the [administration server](admin.md), an HTTP server"},
		{name: "admin.serverAddress", scope: property, def: "0.0.0.0",
			setter: words(func(c *Config) *string { return &c.Admin.Host }), note: "address that it listens on"},
		{name: "admin.serverPort", scope: property, def: "8080",
			setter: port(func(c *Config) *int { return &c.Admin.Port }), note: "its port; 0 lets the system choose"},
		{name: "admin.idleTimeout", scope: property, def: "30000",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Admin.IdleTimeout }),
			note:   "ms until a connection without a request is closed; 0 or -1 means never"},
		{name: "admin.commandURL", scope: property, def: "/commands",
			setter: setter{set: commandURL}, note: "path of the list of commands; a command is below it"},
		{name: "admin.snapshot.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Snapshot }), note: "`false`: the command `snapshot` is answered 503"},
		{name: "admin.restore.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Restore }), note: "`false`: the command `restore` is answered 503"},
		{name: "admin.rateLimiterIntervalInMS", scope: property, def: "300000",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Admin.RateInterval }),
			note:   "ms in which one snapshot and one restore are allowed; 0 means no limit"},
		{name: "admin.authorizeAnyone", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Anyone }),
			note: "only in Pinfold. `false`: what the ACL of the root znode gives to `world:anyone` does not count for the " +
				"[commands that need a proof of identity](admin.md#authorization)"},
		{name: "admin.pprof.enabled", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Pprof }),
			note:   "only in Pinfold. Shows profiles of the process below /debug/pprof/, without authorization"},
		{name: "admin.forceHttps", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.ForceHTTPS }),
			note:   "the administration server speaks HTTPS only, with the keys `ssl.quorum.keyStore.*` and `ssl.quorum.trustStore.*`"},
		{name: "admin.portUnification", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Unified }),
			note:   "its port speaks HTTP and HTTPS"},
		{name: "admin.needClientAuth", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.NeedClientAuth }),
			note:   "over HTTPS, a client must have a certificate that `ssl.quorum.trustStore.*` trusts"},
		{name: "admin.httpVersion", scope: property, def: "11", effect: accepted, setter: anyWhole(), note: "the server speaks HTTP/1.1"},
		{name: "metricsProvider.className", scope: inFile, def: defaultProvider,
			setter: oneOf([]string{defaultProvider, nullProvider, prometheusProvider}, func(c *Config, s string) { c.Metrics.Provider = s }),
			note:   "`" + prometheusProvider + "` serves the metrics to [Prometheus](monitoring.md#prometheus); with the others, they are those of `mntr`"},
		{name: "metricsProvider.httpHost", scope: inFile, def: "0.0.0.0",
			setter: words(func(c *Config) *string { return &c.Metrics.Host }), note: "address for Prometheus; `0.0.0.0` means all addresses"},
		{name: "metricsProvider.httpPort", scope: inFile, def: "7000",
			setter: port(func(c *Config) *int { return &c.Metrics.Port }), note: "port for Prometheus; 0 means any free one"},
		{name: "metricsProvider.exportJvmInfo", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Metrics.Process }),
			note:   "the metrics of the process (`process_*`) and of the Go runtime (`go_*`); there are no `jvm_*`"},
		{name: "metricsProvider.numWorkerThreads", scope: inFile, def: "1", effect: accepted, setter: anyWhole(), note: worker},
		{name: "metricsProvider.maxQueueSize", scope: inFile, def: "1000000", effect: accepted, setter: anyWhole(), note: worker},
		{name: "metricsProvider.workerShutdownTimeoutMs", scope: inFile, def: "1000", effect: accepted, setter: anyWhole(), note: worker},
		{name: "metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds", scope: inFile, def: "60", effect: accepted, setter: anyWhole(),
			note: "the quantiles are those of the last eight to ten minutes"},
		{name: "metricsProvider.httpVersion", scope: inFile, effect: accepted, setter: anyWords(), note: "HTTP/1.1 is spoken"},
		{name: "metricsProvider.httpsPort", scope: inFile, def: "-1", effect: refused, harmless: "-1", setter: anyWhole(), note: https},
		{name: "metricsProvider.ssl.*", scope: inFile, effect: refused, setter: anyWords(), note: https},
	}
}

// The classes of Apache's audit loggers.
const (
	slf4jAudit = "org.apache.zookeeper.audit.Slf4jAuditLogger"
	log4jAudit = "org.apache.zookeeper.audit.Log4jAuditLogger"
)

func auditSettings() []setting {
	return []setting{
		{name: "audit.enable", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Audit.Enabled }), note: "writes the [audit log](security.md#the-audit-log)"},
		{name: "audit.impl.class", scope: property, def: slf4jAudit,
			setter: oneOf([]string{slf4jAudit, log4jAudit}, func(c *Config, s string) { c.Audit.Class = s }),
			note:   "or `" + log4jAudit + "`: the name of the logger in each line. Other Java classes cannot be loaded, and are refused"},
		{name: "audit.file", scope: property,
			setter: filled(func(c *Config) *string { return &c.Audit.File }),
			note:   "only in Pinfold. File of the audit log; if it is not set, the lines go to the standard output"},
		{name: "audit.maxFileBytes", scope: property, def: "10485760",
			setter: count(0, func(c *Config) *int { return &c.Audit.MaxFileBytes }),
			note:   "only in Pinfold. Size at which the file is renamed to `NAME.1`, that to `NAME.2` and so on; 0 means never"},
		{name: "audit.maxFiles", scope: property, def: "10",
			setter: count(0, func(c *Config) *int { return &c.Audit.MaxFiles }),
			note:   "only in Pinfold. How many such files are kept"},
		{name: "audit.format", scope: property, def: "text",
			setter: oneOf([]string{"text", "json"}, func(c *Config, s string) { c.Audit.JSON = s == "json" }),
			note:   "only in Pinfold. `text` is Apache's format, `json` an object for each line"},
		{name: "audit.details", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Audit.Details }),
			note:   "only in Pinfold. Lines also have the zxid, the old and the new version, and the size of the data"},
		{name: "audit.queueBytes", scope: property, def: "4194304",
			setter: count(1, func(c *Config) *int { return &c.Audit.QueueBytes }),
			note:   "only in Pinfold. Bytes of lines that may wait to be written; beyond that, clients' changes wait"},
	}
}

// commandURL reads the path of the commands.
func commandURL(c *Config, text string) error {
	if len(text) < 2 || text[0] != '/' || strings.HasSuffix(text, "/") || strings.ContainsAny(text, "?#% ") {
		return errors.New("must be a path that begins with / and does not end with it")
	}
	for _, page := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/debug"} {
		if text == page || strings.HasPrefix(text, page+"/") {
			return errors.New("is the path of another page")
		}
	}
	c.Admin.CommandURL = text
	return nil
}

// whitelist splits the list of four-letter words at commas.
func whitelist(c *Config, text string) error {
	c.Commands.Allowed = append([]string{}, commaList(text)...)
	return nil
}

func saslSettings() []setting {
	return slices.Concat([]setting{
		{name: "java.security.auth.login.config", scope: bare,
			setter: setter{set: loginFile},
			note: "file in the form of Java's JAAS. Its section `Server`, with DigestLoginModule and options " +
				"`user_NAME=\"password\"`, lets clients log in by DIGEST-MD5; with Krb5LoginModule, by [Kerberos](security.md#kerberos). " +
				"A file without the section turns SASL off"},
		{name: "sasl.serverconfig", scope: property, def: "Server",
			setter: filled(func(c *Config) *string { return &c.Auth.SASL.Section }),
			note:   "name of that section"},
	}, peerLoginSettings(), []setting{
		{name: "superUser", scope: property, setter: setter{set: superUser},
			note: "name of a user that is the superuser once logged in by SASL"},
		{name: "superUser.*", scope: property, setter: setter{set: superUser},
			note: "another such user; any word may follow the dot"},
		{name: "SASLAuthenticationProvider.superPassword", scope: property,
			setter: words(func(c *Config) *string { return &c.Auth.SASL.SuperPassword }),
			note:   "password of the user `super`, which overrides that in the file; the user must be in the file"},
		{name: "letAnySaslUserDoX", scope: property,
			setter: words(func(c *Config) *string { return &c.Auth.SASL.AnyUser }),
			note:   "an id of the scheme `sasl` that in ACLs means every logged-in user"},
		{name: "allowSaslFailedClients", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Auth.SASL.AllowFailed }),
			note:   "a client whose login fails stays connected, without an identity, unless SASL is enforced"},
	},
		without("read by Java clients", "property accepted words sasl.client*"),
		kerberosSettings(),
	)
}

// peerLoginSettings are about servers that log in at each other.
func peerLoginSettings() []setting {
	return []setting{
		{name: "quorum.auth.enableSasl", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.Login.Enabled }),
			note: "other servers may log in, on the quorum port and the election port; the login file needs both sections below. " +
				"A login that fails is refused, even if none is required"},
		{name: "quorum.auth.learnerRequireSasl", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.Login.LearnerRequired }),
			note:   "this server logs in wherever it connects"},
		{name: "quorum.auth.serverRequireSasl", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.Login.ServerRequired }),
			note:   "other servers must log in; needs `quorum.auth.learnerRequireSasl`"},
		{name: "quorum.auth.server.saslLoginContext", scope: inFile, def: "QuorumServer",
			setter: filled(func(c *Config) *string { return &c.Quorum.Login.ServerSection }),
			note:   "section of the login file with the users as which other servers log in"},
		{name: "quorum.auth.learner.saslLoginContext", scope: inFile, def: "QuorumLearner",
			setter: filled(func(c *Config) *string { return &c.Quorum.Login.LearnerSection }),
			note:   "section of the login file with the `username` and `password` of this server"},
		{name: "quorum.auth.kerberos.servicePrincipal", scope: inFile, def: "zkquorum/localhost",
			setter: filled(func(c *Config) *string { return &c.Quorum.Login.ServicePrincipal }),
			note:   "with Kerberos, the principal of the servers at which this one logs in; `_HOST` is the host of each server line, in lower case"},
		{name: "kerberos.canonicalizeHostNames", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.Login.Canonicalize }),
			note: "the host of a server line is, in `_HOST` and in the principals of servers that log in, its canonical name: the " +
				"name that reverse DNS gives its address. It is looked up at each login; if DNS does not answer, the last answer counts"},
		{name: "quorum.cnxn.threads.size", scope: inFile, def: "20", effect: accepted, setter: anyWhole(),
			note: "a login of another server has a goroutine of its own; at most 64 connections to each port wait for it, and " +
				"a further one takes the place of the oldest from the address that has most"},
	}
}

// kerberosSettings are about logins of clients by Kerberos.
func kerberosSettings() []setting {
	return slices.Concat([]setting{
		{name: "kerberos.removeHostFromPrincipal", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Auth.SASL.RemoveHost }),
			note:   "the user of the principal `NAME/HOST@REALM` is `NAME@REALM`"},
		{name: "kerberos.removeRealmFromPrincipal", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Auth.SASL.RemoveRealm }),
			note:   "the user of the principal `NAME@REALM` is `NAME`"},
		{name: "security.auth_to_local", scope: property, def: "DEFAULT",
			setter: words(func(c *Config) *string { return &c.Auth.SASL.NameRules }),
			note: "rules for the first part of a user's name, separated by blanks: `DEFAULT` or `RULE:` ([Kerberos](security.md#kerberos)). " +
				"Regular expressions are RE2's; others are refused"},
		{name: "java.security.krb5.conf", scope: bare,
			setter: words(func(c *Config) *string { return &c.Auth.SASL.KerberosFile }),
			note:   "krb5.conf, for the default realm, the clock skew and, where this server logs in at others, the KDCs. Without it, the file of the environment variable KRB5_CONFIG, or /etc/krb5.conf"},
		{name: "java.security.krb5.realm", scope: bare,
			setter: words(func(c *Config) *string { return &c.Auth.SASL.KerberosRealm }),
			note:   "the default realm, instead of the one in krb5.conf"},
		{name: "java.security.krb5.kdc", scope: bare, setter: setter{set: kdcs},
			note: "names of the KDCs of that realm, without ports, separated by colons, instead of those in krb5.conf. Only a server that " +
				"logs in at others asks a KDC"},
		{name: "kerberos.minReLoginTimeMs", scope: property, def: "60000", effect: accepted, setter: anyWhole(),
			note: "the KDC is asked only when a ticket is needed and four fifths of its lifetime are over"},
		{name: "kinit", scope: property, def: "/usr/bin/kinit", effect: accepted, setter: anyWords(),
			note: "no program is run. A server whose login file names a ticket cache does not renew it, and warns"},
	}, without("of Java's login modules, which this server does not have", `
			bare     accepted words   javax.security.auth.useSubjectCredsOnly
			bare     accepted boolean sun.security.krb5.debug=false`))
}

// loginFile reads the name in the forms that Java accepts: as a file: URL, or with one
// more = in front, which in Java means that no other file counts.
func loginFile(c *Config, text string) error {
	name := strings.TrimPrefix(text, "=")
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		name = path
		if strings.HasPrefix(path, "///") {
			name = path[2:]
		}
	}
	if name == "" {
		return errors.New("is empty")
	}
	c.Auth.SASL.LoginFile = name
	return nil
}

// kdcs reads the list of KDCs in the form of Java's.
func kdcs(c *Config, text string) error {
	c.Auth.SASL.KDCs = strings.Split(text, ":")
	if slices.Contains(c.Auth.SASL.KDCs, "") {
		return errors.New("must be names of hosts, separated by colons")
	}
	return nil
}

func superUser(c *Config, text string) error {
	c.Auth.SASL.SuperUsers = append(c.Auth.SASL.SuperUsers, text)
	return nil
}

// onlyTests is the note of settings that break guarantees on purpose.
const onlyTests = "only for tests of the Java server"

func javaSettings() []setting {
	return slices.Concat(
		without("for Java's threads and buffers; this server has no counterpart", `
			property accepted words   serverCnxnFactory netty.*
			property accepted whole   nio.numSelectorThreads nio.numWorkerThreads nio.directBufferBytes=65536
			property accepted whole   nio.shutdownTimeout=5000 commitProcessor.numWorkerThreads
			property accepted whole   commitProcessor.shutdownTimeout=5000 commitProcessor.maxReadBatchSize=-1
			property accepted whole   commitProcessor.maxCommitBatchSize=1 intBufferStartingSizeBytes=1024
			property accepted whole   maxResponseCacheSize=400 maxGetChildrenResponseCacheSize=400
			property accepted whole   leader.ackLoggingFrequency=1000 leader.maxTimeToWaitForEpoch=-1
			property accepted boolean leader.closeSocketAsync=false learner.asyncSending=false
			property accepted boolean learner.closeSocketAsync=false
			property accepted boolean follower.skipLearnerRequestToNextProcessor=false
			property accepted boolean forward_learner_requests_to_commit_processor_disabled=false
			file     accepted boolean jvm.pause.monitor=false
			file     accepted whole   jvm.pause.*
			property accepted words   watchManagerName
			property accepted whole   watcherCleanThreadsNum=2 watcherCleanThreshold=1000
			property accepted whole   watcherCleanIntervalInSeconds=600 maxInProcessingDeadWatchers=-1
			property accepted whole   bitHashCacheSize=10
			property accepted boolean pathStats.enabled=false
			property accepted number  pathStats.*
			property accepted boolean messageTracker.Enabled=false
			property accepted whole   messageTracker.BufferSize=10
			property accepted boolean jmx.log4j.disable=false
			property accepted words   jmx.log4j.mbean`),
		without(onlyTests, "property accepted words controllerPort"),
		without("TCP_NODELAY is always on", `
			bare accepted words leader.nodelay follower.nodelay`),
		without("read by Java clients", `
			property accepted words client.secure clientCnxnSocket disableAutoWatchReset hostProvider.*
			property accepted words request.timeout server.principal server.realm shuffleDnsResponse
			property accepted words requireKerberosConfig`),
		without("set by Apache's scripts for Java's logging", `
			property accepted words log.* root.logger console.threshold tracelog.* auditlog.*`),
		without(onlyTests, `
			property refused words   testingonly.initialZxid
			property refused boolean test.allowDiscontinuousProposals=false`),
	)
}
