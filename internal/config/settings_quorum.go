package config

import (
	"math"
	"time"
)

func quorumSettings() []setting {
	return append(memberSettings(), append(linkSettings(), observerSettings()...)...)
}

// memberSettings are who is in the ensemble, and what the members agree on.
func memberSettings() []setting {
	return []setting{
		{name: "server.*", scope: inFile, setter: anyWords(),
			note: "`host:quorumPort:electionPort[:participant|observer][;[host:]clientPort]`; N is what `dataDir/myid` " +
				"of that server says"},
		{name: "group.*", scope: inFile,
			setter: anyWords(),
			note:   "`sid:sid:...`: a quorum is then a majority of the weights in a majority of the groups"},
		{name: "weight.*", scope: inFile,
			setter: anyWords(),
			note:   "weight of a server in its group, 1 when it is not set; a server of weight 0 never leads"},
		{name: "dynamicConfigFile", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Quorum.DynamicFile }),
			note:   "file of the server, group and weight lines, which then must not be in zoo.cfg. It is only read"},
		{name: "version", scope: inFile,
			setter: setter{set: func(c *Config, text string) (err error) {
				c.Quorum.Members.Version, err = parseVersion(text)
				return err
			}}, note: "zxid, in hex, of the reconfiguration that made the server lines; without effect beside `dynamicConfigFile`"},
		{name: "peerType", scope: inFile, def: participant,
			setter: setter{set: func(c *Config, text string) error {
				role, err := parseRole(text)
				c.Quorum.Observer = role == observer
				return err
			}}, note: "`participant` or `observer`; if the server line says else, the line counts, and a warning comes"},
		{name: "initLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.InitLimit }),
			note:   "ticks for a learner to connect and synchronize; an ensemble needs it"},
		{name: "syncLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.SyncLimit }),
			note:   "ticks without a word after which a peer is given up; an ensemble needs it"},
		{name: "connectToLearnerMasterLimit", scope: inFile, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ConnectLimit }),
			note:   "ticks for a learner to connect to its leader; 0 is `initLimit`"},
		{name: "electionAlg", scope: inFile, def: "3",
			setter: oneOf([]string{"3"}, func(*Config, string) {}),
			note:   "only 3"},
		{name: "standaloneEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.StandaloneEnabled }),
			note:   "one participant is a standalone server; `false` makes it an ensemble of one"},
		// warnOfEnsemble warns of it: only an ensemble misses anything.
		{name: "reconfigEnabled", scope: inFile, def: "false", effect: missing, harmless: "false,true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReconfigEnabled }),
			note: "the membership of a running ensemble cannot change yet; `true` warns there. A standalone server only " +
				"answers `reconfig` differently, as Apache's"},
		{name: "leaderServes", scope: property, def: "yes",
			setter: yesNo(func(c *Config) *bool { return &c.Quorum.LeaderServes }),
			note:   "the leader takes clients"},
		{name: "localSessionsEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalSessions }),
			note:   "sessions are known to their own server alone, and cost no transaction"},
		{name: "localSessionsUpgradingEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalUpgrading }),
			note:   "such a session becomes a global one when it makes an ephemeral znode"},
		{name: "readonlymode.enabled", scope: bare, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReadOnlyMode }),
			note:   "a server without a quorum serves reads"},
		{name: "oraclePath", scope: inFile, effect: missing,
			setter: anyWords(),
			note:   "of two participants none goes on alone, whatever an oracle says"},
	}
}

// linkSettings are the connections between the servers.
func linkSettings() []setting {
	const addresses = "only the first address of a server is used"
	return []setting{
		{name: "quorumListenOnAllIPs", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ListenOnAllIPs }),
			note:   "listen for peers at every address, not only at that of the own server line"},
		{name: "electionPortBindRetry", scope: property, def: "3",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ElectionBindRetry }),
			note:   "attempts to listen at the election port; 0 is without end"},
		{name: "cnxTimeout", scope: property, def: "5000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.ConnectTimeout }),
			note:   "ms to open an election connection"},
		{name: "quorumCnxnTimeoutMs", scope: property, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Quorum.LinkTimeout }),
			note:   "ms for a peer to say who it is on an election connection; 0 or less is `tickTime` × `syncLimit`"},
		{name: "leaderConnectDelayDuringRetryMs", scope: property, def: "100",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.RetryDelay }),
			note:   "ms between a learner's attempts to reach its leader; the first pauses are shorter, from 20 ms on"},
		{name: "tcpKeepAlive", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TCPKeepAlive }),
			note:   "TCP keep-alive on election connections"},
		{name: "fastleader.minNotificationInterval", scope: property, def: "200",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MinNotification }),
			note:   "ms until votes are sent again; it doubles each time"},
		{name: "fastleader.maxNotificationInterval", scope: property, def: "60000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MaxNotification }),
			note:   "ms at which it stops doubling"},
		{name: "leader.maxConcurrentSnapSyncs", scope: property, def: "10",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxSnapSyncs }),
			note:   "observers that may be sent a snapshot at a time; participants always may"},
		{name: "leader.maxConcurrentDiffSyncs", scope: property, def: "100",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxDiffSyncs }),
			note:   "the same for transactions instead of a snapshot"},
		{name: "multiAddress.enabled", scope: inFile, def: "false", effect: missing, harmless: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.MultiAddress }),
			note:   addresses},
		{name: "multiAddress.enabled", scope: property, effect: missing, harmless: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.MultiAddress }),
			note:   addresses},
		{name: "multiAddress.reachabilityCheckEnabled", scope: inFile, def: "true", effect: accepted,
			setter: anyBoolean(), note: addresses},
		{name: "multiAddress.reachabilityCheckEnabled", scope: property, effect: accepted,
			setter: anyBoolean(), note: addresses},
		{name: "multiAddress.reachabilityCheckTimeoutMs", scope: inFile, def: "1000", effect: accepted,
			setter: anyWhole(), note: addresses},
		{name: "multiAddress.reachabilityCheckTimeoutMs", scope: property, effect: accepted,
			setter: anyWhole(), note: addresses},
	}
}

// observerSettings are what only observers read, and who serves them.
func observerSettings() []setting {
	return []setting{
		{name: "syncEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "`false`: an observer writes no log, and no snapshot but one that the leader sends; when it starts it takes its state from the leader"},
		{name: "observer.syncEnabled", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "as the key `syncEnabled`"},
		{name: "observer.reconnectDelayMs", scope: property, def: "0",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverReconnect }),
			note:   "ms at most that an observer which has lost its leader waits, at random, before it looks for one again"},
		{name: "observer.election.DelayMs", scope: property, def: "200",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverElection }),
			note:   "ms at most that it waits in addition, at random, so that observers do not ask the voters all at once"},
		{name: "observerMasterPort", scope: inFile, def: "0", effect: missing, harmless: "0,-1",
			setter: whole("a port number", math.MinInt32, math.MaxUint16, func(*Config, int64) {}),
			note:   "followers serve no observers; those are served by the leader"},
		{name: "observerMaster.sizeLimit", scope: property, def: "33554432", effect: accepted,
			setter: anyWhole(), note: "of `observerMasterPort`"},
	}
}
