package config

import (
	"errors"
	"math"
	"strings"
	"time"
)

func clientSettings() []setting {
	return []setting{
		{name: "clientPort", scope: inFile,
			setter: port(func(c *Config) *int { return &c.Client.Port }),
			note:   "port for clients; 0 lets the system choose. A standalone server needs it"},
		{name: "clientPortAddress", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Client.Host }),
			note:   "address to listen on; every address if it is not set. Needs `clientPort`"},
		{name: "clientPortListenBacklog", scope: inFile, def: "-1", effect: accepted,
			setter: count(math.MinInt32, func(c *Config) *int { return &c.Client.Backlog }),
			note:   "shown by `conf`; the socket always has the system's maximum"},
		{name: "maxClientCnxns", scope: inFile, def: "60",
			setter: whole("a whole number", math.MinInt32, math.MaxInt32, func(c *Config, n int64) {
				c.Client.MaxPerIP = int(max(n, 0))
			}),
			note: "connections of one client address; 0 means no limit"},
		{name: "maxCnxns", scope: property, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Client.MaxTotal }),
			note:   "connections of all clients; 0 means no limit"},
		{name: "clientTcpKeepAlive", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Client.TCPKeepAlive }),
			note:   "TCP keep-alive on client connections"},
		{name: "nio.sessionlessCnxnTimeout", scope: property, def: "10000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Client.SessionlessTimeout }),
			note:   "ms until a connection without a session is closed"},
		{name: "jute.maxbuffer", scope: bare, def: "1048575",
			setter: count(64, func(c *Config) *int { return &c.Client.MaxFrameBytes }),
			note:   "bytes, at least 64; a longer request closes its connection"},
		{name: "jute.maxbuffer.extrasize", scope: property,
			setter: count(0, func(c *Config) *int { return &c.Client.ExtraBytes }),
			note: "bytes by which a record on the disk may exceed `jute.maxbuffer`, at " +
				"least 1024; `jute.maxbuffer` if it is not set"},
		{name: "largeRequestThreshold", scope: property, def: "-1",
			setter: count(-1, func(c *Config) *int { return &c.Requests.LargeBytes }),
			note:   "bytes from which a request counts as large; -1 means never"},
		{name: "largeRequestMaxBytes", scope: property, def: "104857600",
			setter: count(1, func(c *Config) *int { return &c.Requests.LargeMaxBytes }),
			note:   "bytes of all large requests in flight; a request that exceeds it closes its connection"},
		{name: "limitsFile", scope: property,
			setter: filled(func(c *Config) *string { return &c.Client.LimitsFile }),
			note: "only in Pinfold. File with the limits of each session and each identity: requests and bytes per second, watches, " +
				"ephemerals, connections. The server reads it again when it changes; see [limits](limits.md#limits-of-sessions-and-identities)"},
		{name: "connectionBufferBytes", scope: property, def: "201326592",
			setter: count(0, func(c *Config) *int { return &c.Client.BufferBytes }),
			note: "only in Pinfold. Bytes of all client connections' buffers together: input that has arrived, replies " +
				"that the client does not read, identities; the connections that hold most wait first, and are closed after 10 s. A reply " +
				"of more than a third of it closes its connection. At least 8 × `jute.maxbuffer`; 0 means no limit"},
		{name: "watchBytes", scope: property, def: "402653184",
			setter: count(0, func(c *Config) *int { return &c.Client.WatchBytes }),
			note: "only in Pinfold. Bytes that all watches of the server take: the path and 160 bytes each, less if several clients watch a path. " +
				"A client may hold as much as then remains free, 64 KiB always; a request for more is answered -1, and a connection " +
				"that restores more is closed. 0 means no limit"},
	}
}

func sessionSettings() []setting {
	return []setting{
		{name: "tickTime", scope: inFile, def: "3000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Session.Tick }),
			note:   "ms; sessions expire in steps of this"},
		{name: "minSessionTimeout", scope: inFile, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Session.MinTimeout }),
			note:   "ms; -1 means 2 × `tickTime`"},
		{name: "maxSessionTimeout", scope: inFile, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Session.MaxTimeout }),
			note:   "ms; -1 means 20 × `tickTime`. Not less than `minSessionTimeout`"},
		{name: "sessionBytes", scope: property, def: "268435456",
			setter: count(0, func(c *Config) *int { return &c.Session.Bytes }),
			note: "only in Pinfold. Bytes that all sessions of the ensemble take, 512 each. The clients of one address may open as many " +
				"at a server as would then remain free; one that asks for more is disconnected, and its sessions live on. 0 means no limit"},
		{name: "sessionSecretFile", scope: property,
			setter: filled(func(c *Config) *string { return &c.Session.SecretFile }),
			note: "only in Pinfold. A file of at least 16 bytes from which the server computes the passwords of sessions; it must be " +
				"the same on every server of the ensemble; see [passwords](sessions.md)"},
		{name: "sessionPassword", scope: property,
			setter: oneOf([]string{"apache", "both", "secret"}, func(c *Config, s string) { c.Session.Password = s }),
			note: "only in Pinfold. `apache`: sessions get Apache's passwords, which every client can compute; the secret's passwords " +
				"are accepted too if there is a file. `both`: sessions get the secret's passwords; Apache's are accepted too. " +
				"`secret`: only the secret's; this is the default if there is a file"},
	}
}

func treeSettings() []setting {
	return []setting{
		{name: "enforceQuota", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Tree.EnforceQuota }),
			note:   "hard quotas refuse requests; otherwise quotas only cause warnings"},
		{name: "extendedTypesEnabled", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Tree.ExtendedTypes }),
			note:   "enables TTL znodes. Must be the same on all servers"},
		{name: "emulate353TTLNodes", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Tree.Emulate353TTL }),
			note:   "TTL znodes in the form that 3.5.3 stored"},
		{name: "znode.container.checkIntervalMs", scope: bare, def: "60000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Reaper.Interval }),
			note:   "ms between searches for empty containers and expired TTL znodes"},
		{name: "znode.container.maxPerMinute", scope: bare, def: "10000",
			setter: count(1, func(c *Config) *int { return &c.Reaper.MaxPerMinute }),
			note:   "such znodes deleted per minute"},
		{name: "znode.container.maxNeverUsedIntervalMs", scope: bare, def: "0",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Reaper.NeverUsed }),
			note: "ms until a container that never had a child is deleted; 0 means never " +
				"(Apache 3.10: 300000)"},
	}
}

// digestHashes returns Java's names of the hashes that the digest scheme of this server
// supports.
func digestHashes() []string {
	return []string{"SHA1", "SHA-1", "SHA", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "MD5",
		"SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512"}
}

func authSettings() []setting {
	return []setting{
		{name: "skipACL", scope: property, def: "no",
			setter: yesNo(func(c *Config) *bool { return &c.Auth.SkipACL }),
			note:   "`yes` disables all ACL checks"},
		{name: "enableEagerACLCheck", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Auth.EagerACLCheck }),
			note:   "a member checks ACLs against its own tree and refuses a request without asking the leader; a standalone server ignores it"},
		{name: "DigestAuthenticationProvider.superDigest", scope: property,
			setter: setter{set: superDigest},
			note:   "`user:base64(hash(user:password))` of the superuser"},
		{name: "DigestAuthenticationProvider.superDigestPath", scope: property,
			setter: words(func(c *Config) *string { return &c.Auth.SuperFile }),
			note:   "only in Pinfold. File with the value of `superDigest`, which counts instead of it, so that it is in no `zoo.cfg` and no list of processes"},
		{name: "DigestAuthenticationProvider.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Auth.DigestEnabled }),
			note:   "enables the scheme `digest`"},
		{name: "DigestAuthenticationProvider.digestAlg", scope: property, def: "SHA1",
			setter: oneOf(digestHashes(), func(c *Config, s string) {
				if s == "SHA" || s == "SHA-1" {
					s = "SHA1"
				}
				c.Auth.DigestHash = s
			}), note: "hash of the scheme `digest`"},
		{name: "ensembleAuthName", scope: property, setter: setter{set: ensembleNames},
			note: "names, separated by commas; a client of the scheme `ensemble` must give one of them, or an empty one"},
		{name: "enforce.auth.enabled", scope: property, def: "false", setter: boolean(func(c *Config) *bool { return &c.Auth.Enforce }),
			note: "a client must authenticate before it may do anything else"},
		{name: "enforce.auth.schemes", scope: property,
			setter: setter{set: enforceSchemes},
			note:   "for `enforce.auth.enabled`: schemes, separated by commas, of which one is enough"},
		{name: "sessionRequireClientSASLAuth", scope: property, def: "false", setter: boolean(func(c *Config) *bool { return &c.Auth.RequireSASL }),
			note: "like `enforce.auth.enabled` with `sasl` alone"},
		{name: "requireClientAuthScheme", scope: property, effect: missing, setter: anyWords(),
			note: "neither Apache nor this server reads it; `sessionRequireClientSASLAuth=true` has the documented effect"},
		{name: "authProvider.*", scope: property, effect: refused, harmless: builtinProviders,
			setter: setter{set: authProvider},
			note:   "Java classes cannot be loaded. The built-in providers digest and ip are always enabled; x509 comes with a TLS port; the classes of x509, sasl and ensemble enable these"},
		{name: "IPAuthenticationProvider.usexforwardedfor", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Auth.UseForwardedFor }),
			note:   "the administration server takes the client's address from the header X-Forwarded-For, its first item. Clients can write the header: only for a server that a proxy protects"},
	}
}

// saslProvider is the Java class of the scheme sasl.
const saslProvider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"

// ensembleProvider is that of the scheme ensemble.
const ensembleProvider = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"

// x509Provider is that of the scheme x509.
const x509Provider = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"

// builtinProviders are the Java classes of the schemes that this server has.
const builtinProviders = x509Provider + "," +
	"org.apache.zookeeper.server.auth.DigestAuthenticationProvider," +
	"org.apache.zookeeper.server.auth.IPAuthenticationProvider," + saslProvider + "," + ensembleProvider

// authProvider enables the schemes x509, sasl and ensemble if their classes are named. The effect of the setting
// decides about other classes.
func authProvider(c *Config, class string) error {
	switch {
	case strings.EqualFold(class, saslProvider):
		c.Auth.SASL.Provider = true
	case strings.EqualFold(class, ensembleProvider):
		c.Auth.Ensemble = true
	case strings.EqualFold(class, x509Provider):
		c.Auth.X509 = true
	}
	return nil
}

func superDigest(c *Config, text string) error {
	if err := CheckSuperDigest(text); err != nil {
		return err
	}
	c.Auth.SuperDigest = text
	return nil
}

// CheckSuperDigest reports whether a text has the form of a superuser's digest. The error
// does not show it.
func CheckSuperDigest(text string) error {
	user, hash, ok := strings.Cut(text, ":")
	if !ok || user == "" || hash == "" {
		return errors.New("not of the form user:base64")
	}
	return nil
}

func enforceSchemes(c *Config, text string) error {
	c.Auth.EnforceSchemes = commaList(text)
	return nil
}

// ensembleNames splits at commas. It trims names and drops empty ones; a list without
// names still enables the check. finishAuth makes the scheme exist.
func ensembleNames(c *Config, text string) error {
	c.Auth.EnsembleNames = append([]string{}, commaList(text)...)
	return nil
}

func requestSettings() []setting {
	return []setting{
		{name: "globalOutstandingLimit", scope: property, def: "1000",
			setter: count(1, func(c *Config) *int { return &c.Requests.MaxOutstanding }),
			note:   "requests in flight from which the server stops reading from busy connections"},
		{name: "globalOutstandingBytes", scope: property, def: "4194304",
			setter: count(0, func(c *Config) *int { return &c.Requests.MaxOutstandingBytes }),
			note: "only in Pinfold. Bytes of requests in flight of all clients of this server, 512 or more for each operation of a multi; " +
				"the server stops reading from the connections that have most in flight. Of requests of more than 64 KiB " +
				"a quarter is in the pipeline at a time. At least 4 × `jute.maxbuffer`; 0 means no limit"},
		{name: "request_throttle_max_requests", scope: property, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Requests.MaxInPipeline }),
			note:   "requests in the pipeline; 0 means no limit"},
		{name: "request_throttle_stall_time", scope: property, def: "100", effect: accepted, setter: anyWhole(),
			note: "requests wait in their connections until there is room, not for a fixed time"},
		{name: "request_throttle_drop_stale", scope: property, def: "true", effect: accepted, setter: anyBoolean(),
			note: "there is no queue in front of the pipeline"},
		{name: "request_stale_connection_check", scope: property, def: "true", effect: accepted, setter: anyBoolean(),
			note: "as above"},
		{name: "request_stale_latency_check", scope: property, def: "false", effect: accepted, setter: anyBoolean(),
			note: "as above"},
		{name: "request_throttler.shutdownTimeout", scope: property, def: "10000", effect: accepted, setter: anyWhole(),
			note: "a stopping server finishes what is in the pipeline"},
		{name: "throttled_op_wait_time", scope: property, def: "0",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Requests.ThrottledOpWait }),
			note:   "ms of waiting after which a request is answered with error -127; 0 means never"},
	}
}

func throttleSettings() []setting {
	return []setting{
		{name: "connection_throttle_tokens", scope: property, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Throttle.Tokens }),
			note:   "size of the bucket; 0 turns the throttle off"},
		{name: "connection_throttle_fill_time", scope: property, def: "1",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Throttle.FillTime }),
			note:   "ms between refills"},
		{name: "connection_throttle_fill_count", scope: property, def: "1",
			setter: count(0, func(c *Config) *int { return &c.Throttle.FillCount }),
			note:   "tokens added by a refill"},
		{name: "connection_throttle_freeze_time", scope: property, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Throttle.FreezeTime }),
			note:   "ms between changes of the probability to drop; -1 never drops"},
		{name: "connection_throttle_drop_increase", scope: property, def: "0.02",
			setter: fraction(0, 1, func(c *Config) *float64 { return &c.Throttle.DropIncrease }),
			note:   "step by which the probability increases"},
		{name: "connection_throttle_drop_decrease", scope: property, def: "0.002",
			setter: fraction(0, 1, func(c *Config) *float64 { return &c.Throttle.DropDecrease }),
			note:   "step by which the probability decreases"},
		{name: "connection_throttle_decrease_ratio", scope: property, def: "0",
			setter: fraction(0, 1, func(c *Config) *float64 { return &c.Throttle.DecreaseAt }),
			note:   "share of tokens that must be free for a decrease"},
		{name: "connection_throttle_weight_enabled", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Throttle.Weighted }),
			note:   "the kind of a session determines how many tokens it costs"},
		{name: "connection_throttle_global_session_weight", scope: property, def: "3",
			setter: count(1, func(c *Config) *int { return &c.Throttle.GlobalWeight }),
			note:   "tokens of a new session"},
		{name: "connection_throttle_local_session_weight", scope: property, def: "1", effect: accepted, setter: anyWhole(),
			note: "there are no local sessions"},
		{name: "connection_throttle_renew_session_weight", scope: property, def: "2",
			setter: count(1, func(c *Config) *int { return &c.Throttle.RenewalWeight }),
			note:   "tokens of a reconnect"},
	}
}
