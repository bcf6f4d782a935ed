package config

import (
	"errors"
	"math"
	"strconv"
	"time"
)

func quorumSettings() []setting {
	return []setting{
		{name: "server.*", scope: inFile, setter: anyWords(),
			note: "" +
				"`host:quorumPort:electionPort[:participant|observer][;[host:]clientPort]`; more than one participant is refused: ensembles are not there yet"},
		{name: "group.*", scope: inFile,
			setter: anyWords(),
			note:   "`sid:sid:...` of a hierarchical quorum"},
		{name: "weight.*", scope: inFile,
			setter: anyWords(),
			note:   "weight of a server in its group, 1 when it is not set"},
		{name: "dynamicConfigFile", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Quorum.DynamicFile }),
			note:   "file of the server, group and weight lines, which then must not be in zoo.cfg"},
		{name: "version", scope: inFile,
			setter: setter{set: func(c *Config, text string) (err error) {
				if c.Quorum.Members.Version, err = strconv.ParseInt(text, 16, 64); err != nil {
					return errors.New("not a number in hex")
				}
				return nil
			}}, note: "zxid, in hex, of the reconfiguration that made the server lines"},
		{name: "initLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.InitLimit }),
			note:   "ticks; an ensemble needs it"},
		{name: "syncLimit", scope: inFile,
			setter: count(0, func(c *Config) *int { return &c.Quorum.SyncLimit }),
			note:   "ticks; an ensemble needs it"},
		{name: "connectToLearnerMasterLimit", scope: inFile, def: "0",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ConnectLimit }),
			note:   "ticks; 0 is `initLimit`"},
		{name: "electionAlg", scope: inFile, def: "3",
			setter: oneOf([]string{"3"}, func(*Config, string) {}),
			note:   "only 3"},
		{name: "peerType", scope: inFile, def: "participant",
			setter: setter{set: func(c *Config, text string) (err error) {
				c.Quorum.Observer, err = parseRole(text)
				return err
			}}, note: "`participant` or `observer`, as the server line says"},
		{name: "observerMasterPort", scope: inFile, def: "0",
			setter: whole("a port number", math.MinInt32, math.MaxUint16, func(c *Config, n int64) {
				c.Quorum.ObserverMasterPort = int(max(n, 0))
			}),
			note: "followers serve observers there; 0 is none"},
		{name: "quorumListenOnAllIPs", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ListenOnAllIPs })},
		{name: "syncEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "observers write log and snapshots"},
		{name: "localSessionsEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalSessions })},
		{name: "localSessionsUpgradingEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.LocalUpgrading })},
		{name: "standaloneEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.StandaloneEnabled }),
			note:   "one participant is a standalone server"},
		{name: "reconfigEnabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReconfigEnabled })},
		{name: "readonlymode.enabled", scope: bare, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReadOnlyMode }),
			note:   "a server without a quorum serves reads"},
		{name: "leaderServes", scope: property, def: "yes",
			setter: yesNo(func(c *Config) *bool { return &c.Quorum.LeaderServes }),
			note:   "the leader takes clients"},
		{name: "oraclePath", scope: inFile,
			setter: words(func(c *Config) *string { return &c.Quorum.OraclePath })},
		{name: "multiAddress.enabled", scope: inFile, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.MultiAddress })},
		{name: "multiAddress.reachabilityCheckEnabled", scope: inFile, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReachabilityCheck })},
		{name: "multiAddress.reachabilityCheckTimeoutMs", scope: inFile, def: "1000",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ReachabilityTimeout })},
		{name: "multiAddress.enabled", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.MultiAddress }),
			note:   "as the key of zoo.cfg"},
		{name: "multiAddress.reachabilityCheckEnabled", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.ReachabilityCheck }),
			note:   "as the key of zoo.cfg"},
		{name: "multiAddress.reachabilityCheckTimeoutMs", scope: property,
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ReachabilityTimeout }),
			note:   "as the key of zoo.cfg"},
		{name: "observer.syncEnabled", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.SyncEnabled }),
			note:   "as the key `syncEnabled`"},
		{name: "electionPortBindRetry", scope: property, def: "3",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ElectionBindRetry }),
			note:   "0 is without end"},
		{name: "cnxTimeout", scope: property, def: "5000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.ConnectTimeout }),
			note:   "ms, of election connections"},
		{name: "quorumCnxnTimeoutMs", scope: property, def: "-1",
			setter: millis(-1, func(c *Config) *time.Duration { return &c.Quorum.LinkTimeout }),
			note:   "ms; -1 is `tickTime` × `syncLimit`"},
		{name: "leaderConnectDelayDuringRetryMs", scope: property, def: "100",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.RetryDelay })},
		{name: "fastleader.minNotificationInterval", scope: property, def: "200",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MinNotification })},
		{name: "fastleader.maxNotificationInterval", scope: property, def: "60000",
			setter: millis(1, func(c *Config) *time.Duration { return &c.Quorum.MaxNotification })},
		{name: "observer.reconnectDelayMs", scope: property, def: "0",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverReconnect })},
		{name: "observer.election.DelayMs", scope: property, def: "200",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Quorum.ObserverElection })},
		{name: "observerMaster.sizeLimit", scope: property, def: "33554432",
			setter: count(0, func(c *Config) *int { return &c.Quorum.ObserverQueueBytes }),
			note:   "bytes"},
		{name: "leader.maxConcurrentSnapSyncs", scope: property, def: "10",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxSnapSyncs })},
		{name: "leader.maxConcurrentDiffSyncs", scope: property, def: "100",
			setter: count(1, func(c *Config) *int { return &c.Quorum.MaxDiffSyncs })},
		{name: "tcpKeepAlive", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TCPKeepAlive })},
	}
}
