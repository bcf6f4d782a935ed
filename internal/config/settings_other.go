package config

import (
	"errors"
	"strings"
	"time"
)

func adminSettings() []setting {
	admin := "HTTP administration is not supported yet"
	return []setting{
		{name: "4lw.commands.whitelist", scope: property, def: "srvr",
			setter: setter{set: whitelist},
			note: "words that are answered, separated by commas; `*` means all. " +
				"`readonlymode.enabled` adds `isro`"},
		{name: "admin.enableServer", scope: property, def: "false", effect: missing, harmless: "false",
			setter: boolean(func(c *Config) *bool { return &c.Admin.Enabled }), note: admin},
		{name: "admin.serverAddress", scope: property, def: "0.0.0.0", effect: accepted,
			setter: words(func(c *Config) *string { return &c.Admin.Host }), note: admin},
		{name: "admin.serverPort", scope: property, def: "8080", effect: accepted,
			setter: port(func(c *Config) *int { return &c.Admin.Port }), note: admin},
		{name: "admin.idleTimeout", scope: property, def: "30000", effect: accepted,
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Admin.IdleTimeout }),
			note:   admin},
		{name: "admin.commandURL", scope: property, def: "/commands", effect: accepted,
			setter: words(func(c *Config) *string { return &c.Admin.CommandURL }), note: admin},
		{name: "admin.*", scope: property, effect: accepted, setter: anyWords(), note: admin},
		{name: "metricsProvider.className", scope: inFile, def: defaultProvider, effect: missing, harmless: defaultProvider,
			setter: oneOf([]string{defaultProvider, nullProvider, prometheusProvider}, func(c *Config, s string) { c.Metrics.Provider = s }),
			note:   "the metrics are those of `mntr`; the Prometheus exporter is not supported yet"},
		{name: "metricsProvider.httpHost", scope: inFile, def: "0.0.0.0", effect: accepted,
			setter: words(func(c *Config) *string { return &c.Metrics.Host }),
			note:   "for the Prometheus exporter"},
		{name: "metricsProvider.httpPort", scope: inFile, def: "7000", effect: accepted,
			setter: port(func(c *Config) *int { return &c.Metrics.Port }),
			note:   "for the Prometheus exporter"},
		{name: "metricsProvider.*", scope: inFile, effect: accepted,
			setter: anyWords(),
			note:   "for the Prometheus exporter"},
		{name: "audit.enable", scope: property, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   "no audit log would be written"},
		{name: "audit.impl.class", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "for `audit.enable`"},
	}
}

// whitelist splits the list of four-letter words at commas.
func whitelist(c *Config, text string) error {
	c.Commands.Allowed = append([]string{}, commaList(text)...)
	return nil
}

func tlsSettings() []setting {
	return []setting{
		{name: "secureClientPort", scope: inFile, effect: refused,
			setter: anyWhole(),
			note:   "TLS is not supported yet"},
		{name: "secureClientPortAddress", scope: inFile, effect: refused,
			setter: anyWords(),
			note:   "TLS is not supported yet"},
		{name: "client.portUnification", scope: property, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   "TLS is not supported yet"},
		{name: "sslQuorum", scope: inFile, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   "TLS is not supported yet"},
		{name: "portUnification", scope: inFile, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   "TLS is not supported yet"},
		{name: "sslQuorumReloadCertFiles", scope: inFile, def: "false", effect: missing, harmless: "false",
			setter: anyBoolean(),
			note:   "TLS is not supported yet"},
		{name: "client.certReload", scope: property, def: "false", effect: missing, harmless: "false",
			setter: anyBoolean(),
			note:   "TLS is not supported yet"},
		{name: "ssl.*", scope: property, effect: missing, setter: anyWords(),
			note: "TLS is not supported yet; the keys that enable it are refused"},
		{name: "X509AuthenticationProvider.superUser", scope: property, effect: missing,
			setter: anyWords(),
			note:   "the scheme `x509` needs TLS"},
		{name: "fips-mode", scope: property, effect: missing,
			setter: anyBoolean(),
			note:   "for TLS and SASL"},
		{name: "com.sun.net.ssl.checkRevocation", scope: bare, effect: missing,
			setter: anyWords(),
			note:   "for TLS"},
	}
}

func saslSettings() []setting {
	note := "SASL between servers is not supported yet"
	kerberos := "Kerberos is not supported yet"
	return []setting{
		{name: "java.security.auth.login.config", scope: bare,
			setter: setter{set: loginFile},
			note: "file in the form of Java's JAAS. Its section `Server`, with DigestLoginModule and options " +
				"`user_NAME=\"password\"`, lets clients log in by DIGEST-MD5. A file without the section turns SASL off"},
		{name: "sasl.serverconfig", scope: property, def: "Server",
			setter: filled(func(c *Config) *string { return &c.Auth.SASL.Section }),
			note:   "name of that section"},
		{name: "quorum.auth.enableSasl", scope: inFile, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   note},
		{name: "quorum.auth.serverRequireSasl", scope: inFile, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   note},
		{name: "quorum.auth.learnerRequireSasl", scope: inFile, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(),
			note:   note},
		{name: "quorum.auth.server.saslLoginContext", scope: inFile, effect: missing,
			setter: anyWords(),
			note:   note},
		{name: "quorum.auth.learner.saslLoginContext", scope: inFile, effect: missing,
			setter: anyWords(),
			note:   note},
		{name: "quorum.auth.kerberos.servicePrincipal", scope: inFile, effect: missing,
			setter: anyWords(),
			note:   note},
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
		{name: "sasl.client*", scope: property, effect: accepted, setter: anyWords(), note: "read by Java clients"},
		{name: "kerberos.*", scope: property, effect: missing, setter: anyWords(), note: kerberos},
		{name: "security.auth_to_local", scope: property, effect: missing,
			setter: anyWords(),
			note:   kerberos},
		{name: "kinit", scope: property, effect: missing, setter: anyWords(), note: kerberos},
	}
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

func superUser(c *Config, text string) error {
	c.Auth.SASL.SuperUsers = append(c.Auth.SASL.SuperUsers, text)
	return nil
}

// onlyTests is the note of settings that break guarantees on purpose.
const onlyTests = "only for tests of the Java server"

func javaSettings() []setting {
	none := "for Java's threads and buffers; this server has no counterpart"
	whole := func(name, def string) setting {
		return setting{name: name, scope: property, def: def, effect: accepted, setter: anyWhole(), note: none}
	}
	truth := func(name string) setting {
		return setting{name: name, scope: property, def: "false", effect: accepted, setter: anyBoolean(), note: none}
	}
	client := func(name string) setting {
		return setting{name: name, scope: property, effect: accepted, setter: anyWords(), note: "read by Java clients"}
	}
	return []setting{
		{name: "serverCnxnFactory", scope: property, effect: accepted,
			setter: anyWords(),
			note:   none},
		{name: "netty.*", scope: property, effect: accepted, setter: anyWords(), note: none},
		whole("nio.numSelectorThreads", ""), whole("nio.numWorkerThreads", ""),
		whole("nio.directBufferBytes", "65536"), whole("nio.shutdownTimeout", "5000"),
		whole("commitProcessor.numWorkerThreads", ""), whole("commitProcessor.shutdownTimeout", "5000"),
		whole("commitProcessor.maxReadBatchSize", "-1"), whole("commitProcessor.maxCommitBatchSize", "1"),
		whole("intBufferStartingSizeBytes", "1024"),
		whole("maxResponseCacheSize", "400"), whole("maxGetChildrenResponseCacheSize", "400"),
		whole("leader.ackLoggingFrequency", "1000"), whole("leader.maxTimeToWaitForEpoch", "-1"),
		truth("leader.closeSocketAsync"), truth("learner.asyncSending"), truth("learner.closeSocketAsync"),
		truth("follower.skipLearnerRequestToNextProcessor"), truth("forward_learner_requests_to_commit_processor_disabled"),
		{name: "quorum.cnxn.threads.size", scope: inFile, def: "20", effect: accepted,
			setter: anyWhole(),
			note:   none},
		{name: "jvm.pause.monitor", scope: inFile, def: "false", effect: accepted,
			setter: anyBoolean(),
			note:   none},
		{name: "jvm.pause.*", scope: inFile, effect: accepted, setter: anyWhole(), note: none},
		{name: "watchManagerName", scope: property, effect: accepted,
			setter: anyWords(),
			note:   none},
		whole("watcherCleanThreadsNum", "2"), whole("watcherCleanThreshold", "1000"), whole("watcherCleanIntervalInSeconds", "600"),
		whole("maxInProcessingDeadWatchers", "-1"), whole("bitHashCacheSize", "10"),
		truth("pathStats.enabled"),
		{name: "pathStats.*", scope: property, effect: accepted, setter: anyNumber(), note: none},
		truth("messageTracker.Enabled"), whole("messageTracker.BufferSize", "10"),
		truth("jmx.log4j.disable"),
		{name: "jmx.log4j.mbean", scope: property, effect: accepted,
			setter: anyWords(),
			note:   none},
		{name: "controllerPort", scope: property, effect: accepted,
			setter: anyWords(),
			note:   onlyTests},
		{name: "leader.nodelay", scope: bare, effect: accepted,
			setter: anyWords(),
			note:   "TCP_NODELAY is always on"},
		{name: "follower.nodelay", scope: bare, effect: accepted,
			setter: anyWords(),
			note:   "TCP_NODELAY is always on"},
		client("client.secure"), client("clientCnxnSocket"), client("disableAutoWatchReset"),
		client("hostProvider.*"), client("request.timeout"), client("server.principal"),
		client("server.realm"), client("shuffleDnsResponse"), client("requireKerberosConfig"),
		{name: "log.*", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "set by Apache's scripts for Java's logging"},
		{name: "root.logger", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "set by Apache's scripts for Java's logging"},
		{name: "console.threshold", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "set by Apache's scripts for Java's logging"},
		{name: "tracelog.*", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "set by Apache's scripts for Java's logging"},
		{name: "auditlog.*", scope: property, effect: accepted,
			setter: anyWords(),
			note:   "set by Apache's scripts for Java's logging"},
		{name: "testingonly.initialZxid", scope: property, effect: refused,
			setter: anyWords(),
			note:   onlyTests},
		{name: "test.allowDiscontinuousProposals", scope: property, def: "false", effect: refused, harmless: "false",
			setter: anyBoolean(), note: onlyTests},
	}
}
