package config

import (
	"errors"
	"math"
	"time"
)

func dataSettings() []setting {
	return []setting{
		{name: "dataDir", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Data.Dir }),
			note:   "snapshots, epochs, `myid`. A zoo.cfg must set it; without a zoo.cfg it is `./pinfold-data`"},
		{name: "dataLogDir", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Data.LogDir }),
			note:   "transaction logs; `dataDir` if it is not set"},
		{name: "datadir.autocreate", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Data.AutoCreate }),
			note:   "creates missing directories"},
		{name: "db.autocreate", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Data.DBAutoCreate }),
			note:   "`false`: an empty data directory needs a file `initialize`"},
	}
}

func logSettings() []setting {
	return []setting{
		{name: "preAllocSize", scope: property, def: "65536",
			setter: kilobytes(func(c *Config) *int64 { return &c.Log.PreAllocBytes }),
			note:   "KB; the step in which the log file is extended; 0 means no preallocation"},
		{name: "txnLogSizeLimitInKb", scope: property, def: "-1",
			setter: kilobytes(func(c *Config) *int64 { return &c.Log.MaxBytes }),
			note:   "KB; a log file that exceeds it is ended and a new one started; -1 means no limit"},
		{name: "forceSync", scope: property, def: "yes",
			setter: yesNo(func(c *Config) *bool { return &c.Log.ForceSync }),
			note:   "`no` acknowledges writes before they are on the disk: a crash loses acknowledged writes"},
		{name: "fsync.warningthresholdms", scope: property, def: "1000",
			setter: millis(0, func(c *Config) *time.Duration { return &c.Log.FsyncWarnAfter }),
			note:   "ms; a slower fsync is logged"},
		{name: "flushDelay", scope: property, def: "0", effect: accepted, setter: anyWhole(),
			note: "a flush writes everything that was queued during the previous one, and does not wait for more"},
		{name: "maxWriteQueuePollTime", scope: property, def: "-1", effect: accepted, setter: anyWhole(),
			note: "as above"},
		{name: "maxBatchSize", scope: property, def: "1000", effect: accepted, setter: anyWhole(),
			note: "as above; globalOutstandingLimit bounds it"},
		{name: "closeSessionTxn.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Log.CloseSessionTxn }),
			note:   "the closing transaction of a session lists the znodes that it deletes"},
		{name: "digest.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Log.DigestEnabled }),
			note:   "transactions and snapshots contain the digest of the tree"},
		{name: "commitLogCount", scope: property, def: "500",
			setter: whole("a whole number", 0, math.MaxInt32, func(c *Config, n int64) {
				c.Log.CommitLogCount = int(max(n, 500))
			}),
			note: "transactions kept for learners, at least 500"},
		{name: "snapshotSizeFactor", scope: property, def: "0.33",
			setter: fraction(-math.MaxFloat64, math.MaxFloat64, func(c *Config) *float64 { return &c.Log.SnapSizeFactor }),
			note:   "how much log is sent to a learner, as a share of the snapshot's size; negative means never"},
		{name: "forceSnapshotSync", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Log.ForceSnapSync }),
			note:   "learners always get a snapshot"},
	}
}

func snapshotSettings() []setting {
	return []setting{
		{name: "snapCount", scope: property, def: "100000",
			setter: whole("a whole number", math.MinInt32, math.MaxInt32, func(c *Config, n int64) {
				c.Snapshot.Count = int(max(n, 2))
			}),
			note: "transactions between snapshots, at least 2"},
		{name: "snapSizeLimitInKb", scope: property, def: "4194304",
			setter: kilobytes(func(c *Config) *int64 { return &c.Snapshot.SizeBytes }),
			note:   "KB of log between snapshots; 0 or less means no limit"},
		{name: "snapshot.compression.method", scope: property,
			setter: setter{set: compression}, note: "`gz`, `snappy` or nothing"},
		{name: "snapshot.trust.empty", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Snapshot.TrustEmpty }),
			note:   "accepts logs without any snapshot"},
		{name: "serializeLastProcessedZxid.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Log.SerializeLastTxn }),
			note:   "snapshots end with their last zxid"},
		{name: "diskReserveBytes", scope: property, def: "134217728",
			setter: count(0, func(c *Config) *int { return &c.Data.Reserve }),
			note: "only in Pinfold. Bytes of the disk that are kept free, or a twentieth of the disk if that is less: with less room the server refuses the writes of " +
				"its clients with -119, as a read-only server does, until a quarter more is free; a leader hands over. 0: the disk is not looked at"},
		{name: "healing.enabled", scope: property, def: "true",
			setter: boolean(func(c *Config) *bool { return &c.Data.Healing }),
			note: "only in Pinfold. A member of an ensemble with a damaged or empty data directory takes its leader's state, and has no vote before; " +
				"`false`: it refuses to start"},
		{name: "autopurge.snapRetainCount", scope: inFile, def: "3",
			setter: whole("a whole number", math.MinInt32, math.MaxInt32, func(c *Config, n int64) {
				c.Purge.Retain = int(max(n, 3))
			}),
			note: "snapshots that purging keeps, at least 3"},
		{name: "autopurge.purgeInterval", scope: inFile, def: "0", setter: hours(func(c *Config) *time.Duration { return &c.Purge.Interval }),
			note: "hours between purges, or a number with ms, s, m, h or d; 0 means never"},
		{name: "purgeMaxAge", scope: inFile, def: "0", setter: hours(func(c *Config) *time.Duration { return &c.Purge.Age }),
			note: "only in Pinfold. Hours, or a number with a unit as above: each purge removes snapshots that were written before, and logs that only they need, but keeps three snapshots. 0 means whatever their age"},
		{name: "purgeMaxBytes", scope: inFile, def: "0",
			setter: whole("a whole number of bytes", 0, math.MaxInt64, func(c *Config, n int64) { c.Purge.Bytes = n }),
			note:   "only in Pinfold. Each purge removes the oldest snapshots, and logs that only they need, until all take at most these bytes, but keeps three snapshots. 0 means whatever their size"},
	}
}

func compression(c *Config, text string) error {
	switch text {
	case "", "gz", "snappy":
		c.Snapshot.Compression = text
		return nil
	}
	return errors.New("is not gz or snappy")
}
