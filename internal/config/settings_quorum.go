package config

import (
	"math"
	"slices"
	"time"
)

func quorumSettings() []setting {
	return slices.Concat(memberSettings(), roleSettings(), linkSettings(), observerSettings())
}

// memberSettings are the members of the ensemble, and how long they wait for each other.
func memberSettings() []setting {
	return []setting{
		{name: "server.*", scope: inFile, setter: anyWords(),
			note: "`host:quorumPort:electionPort[:participant|observer][;[host:]clientPort]`; N is the content of `dataDir/myid` " +
				"on that server"},
		{name: "group.*", scope: inFile,
			setter: anyWords(),
			note:   "`sid:sid:...`: a quorum is then a majority of the weights in a majority of the groups"},
		{name: "weight.*", scope: inFile,
			setter: anyWords(),
			note:   "weight of a server in its group, 1 if it is not set; a server with weight 0 never leads"},
		{name: "dynamicConfigFile", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Quorum.DynamicFile }),
			note:   "file with the server, group and weight lines, which then must not be in zoo.cfg. `reconfig` writes a new one"},
		{name: "version", scope: inFile,
			setter: setter{set: func(c *Config, text string) (err error) {
				c.Quorum.Members.Version, err = parseVersion(text)
				return err
			}}, note: "zxid, in hex, of the reconfiguration that created the server lines; ignored if `dynamicConfigFile` is set"},
		{name: "peerType", scope: inFile, def: participant,
			setter: setter{set: func(c *Config, text string) error {
				role, err := parseRole(text)
				c.Quorum.Observer = role == observer
				return err
			}}, note: "`participant` or `observer`; if the server line differs, the line counts, and the server warns"},
		{name: "initLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.InitLimit }),
			note:   "ticks for a learner to connect and synchronize; an ensemble needs it"},
		{name: "syncLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.SyncLimit }),
			note:   "ticks without a message after which a connection to a peer is closed, two [while something waits](membership.md#a-leader-that-can-do-nothing); an ensemble needs it"},
		{name: "connectToLearnerMasterLimit", scope: inFile, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ConnectLimit }),
			note:   "ticks for a learner to connect to its leader; 0 means `initLimit`"},
	}
}

// roleSettings are the other settings on which the members have to agree.
func roleSettings() []setting {
	return []setting{
		{name: "electionAlg", scope: inFile, def: "3",
			setter: oneOf([]string{"3"}, func(*Config, string) {}),
			note:   "only 3 is supported"},
		{name: "standaloneEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.StandaloneEnabled }),
			note:   "one participant is a standalone server; `false` makes it an ensemble of one"},
		{name: "reconfigEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReconfigEnabled }),
			note:   "`reconfig` changes the members of a running ensemble; all members need the same value"},
		{name: "leaderServes", scope: property, def: "yes",
			setter: yesNo(func(c *Config) *bool { return &c.Quorum.LeaderServes }),
			note:   "the leader accepts clients"},
		{name: "localSessionsEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalSessions }),
			note:   "only their own server knows sessions, and they cost no transaction"},
		{name: "localSessionsUpgradingEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalUpgrading }),
			note:   "a local session becomes a global one when it creates an ephemeral znode"},
		{name: "readonlymode.enabled", scope: bare, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReadOnlyMode }),
			note:   "a server without a quorum serves reads"},
		{name: "oraclePath", scope: inFile,
			setter: words(func(c *Config) *string { return &c.Quorum.OraclePath }),
			note:   "a file whose first character is `1` while this server may go on without the other one, of [two participants](membership.md#two-servers-and-an-oracle); not together with groups or weights, which Apache then ignores"},
	}
}

// linkSettings configure the connections between the servers.
func linkSettings() []setting {
	const addresses = "only the first address of a server is used"
	return []setting{
		{name: "quorumListenOnAllIPs", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ListenOnAllIPs }),
			note:   "listen for peers on every address, not only on that of this server's line"},
		{name: "electionPortBindRetry", scope: property, def: "3",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ElectionBindRetry }),
			note:   "attempts to listen on the election port; 0 means no limit"},
		{name: "cnxTimeout", scope: property, def: "5000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.ConnectTimeout }),
			note:   "ms to open an election connection"},
		{name: "quorumCnxnTimeoutMs", scope: property, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Quorum.LinkTimeout }),
			note:   "ms for a peer to identify itself on an election connection; 0 or less means `tickTime` × `syncLimit`"},
		{name: "leaderConnectDelayDuringRetryMs", scope: property, def: "100",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.RetryDelay }),
			note:   "ms between a learner's attempts to reach its leader; the first pauses are shorter, from 20 ms on"},
		{name: "tcpKeepAlive", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TCPKeepAlive }),
			note:   "TCP keep-alive on election connections"},
		{name: "fastleader.minNotificationInterval", scope: property, def: "200",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MinNotification }),
			note:   "ms until votes are sent again; it doubles with each repetition"},
		{name: "fastleader.maxNotificationInterval", scope: property, def: "60000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MaxNotification }),
			note:   "maximum of that, in ms"},
		{name: "leader.maxConcurrentSnapSyncs", scope: property, def: "10",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxSnapSyncs }),
			note:   "how many observers may receive a snapshot at the same time; participants are not limited"},
		{name: "leader.maxConcurrentDiffSyncs", scope: property, def: "100",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxDiffSyncs }),
			note:   "how many observers may receive transactions, in place of a snapshot, at the same time"},
		{name: "peerBufferBytes", scope: property, def: "67108864",
			setter: count(4<<20, func(c *Config) *int { return &c.Quorum.PeerBufferBytes }),
			note: "only in Pinfold. Bytes of the buffers of all connections to the quorum port and the election port: packets that have " +
				"arrived in part, long notifications, output, and what a snapshot or a part of the log goes through. Each link may always " +
				"hold 256 KiB of input; for more, those that hold most wait first, and are closed after 10 s"},
		{name: "unsyncedBytes", scope: property, def: "201326592",
			setter: count(1, func(c *Config) *int { return &c.Quorum.UnsyncedBytes }),
			note: "only in Pinfold. Memory of the transactions that wait for this server's disk; a server that has more gives its role up, " +
				"if a quorum does without it. While a learner is synchronized, it reads no faster than its disk writes"},
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

// observerSettings are used by observers, and by the servers that serve them.
func observerSettings() []setting {
	return []setting{
		{name: "syncEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "`false`: an observer writes no log, and only the snapshots that the leader sends; at each start it gets its state from the leader"},
		{name: "observer.syncEnabled", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "like the key `syncEnabled`"},
		{name: "observer.reconnectDelayMs", scope: property, def: "0",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverReconnect }),
			note:   "maximum of a random delay, in ms, before an observer that has lost its leader looks for a leader"},
		{name: "observer.election.DelayMs", scope: property, def: "200",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverElection }),
			note:   "maximum of a further random delay, in ms, so that observers do not all ask the voters at once"},
		{name: "observerMasterPort", scope: inFile, def: "0",
			setter: whole("a port number", math.MinInt32, math.MaxUint16, func(c *Config, n int64) { c.Quorum.ObserverMasterPort = int(n) }),
			note:   "every voter serves observers at this port, and an observer uses any of them ([observer masters](membership.md#observer-masters)); all members need the same value"},
		{name: "observerMaster.sizeLimit", scope: property, def: "33554432",
			setter: whole("a number of bytes", math.MinInt32, math.MaxInt32, func(c *Config, n int64) { c.Quorum.WindowBytes = int(max(n, 1)) }),
			note:   "bytes of the `commitLogCount` recent transactions that are kept for learners that come back, of observers and of followers; one always is. A learner that lacks more is sent the log, or the tree. Apache counts them apart from those for followers, and it disconnects an observer that lacks more"},
	}
}
