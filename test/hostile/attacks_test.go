package hostile

import (
	"slices"
	"time"
)

// An attack is something that no stranger and no client may achieve anything by.
type attack struct {
	name string
	what string // in the table, without a "|"
	// before is what happened to an early version (9e5f2c6): memory in MB before, at the
	// peak and after, and what was noticed.
	before string
	lines  []string // of zoo.cfg

	ensemble bool // it is an attack on an ensemble
	alone    bool // it is an attack on one server
	offline  bool // there are no innocent clients: servers are stopped
	restarts bool // it ends the leader, which costs roles
	renews   bool // it restarts scene.follower, whose role and whose client's waiting are not judged
	ours     bool // it is about a setting that Apache lacks
	control  bool // it is no attack, and is not combined with any
	pauses   bool // it pauses scene.follower, whose role and whose clients' waiting are not judged

	limits   string        // content of limitsFile
	tls      bool          // the servers have TLS on all ports; the client ports take plain connections too
	kerberos bool          // clients may log in by Kerberos, with tickets of package tickets
	logins   bool          // the servers must log in at each other by Kerberos
	secret   bool          // the servers make passwords of sessions of a secret
	least    time.Duration // what it needs, however small the scale is

	// open says what is known to fail and not mended yet: failures are reported, and the
	// test goes on.
	open string

	// slow says why clients are known to wait far longer than they should: that is reported, and the test goes on.
	slow string

	prepare func(*scene) // before the innocent clients, with scene.must
	run     func(*scene) // must not fail the test: it may run beside other attacks
	after   func(*scene) // when nobody attacks any more
}

// sizes are the numbers of servers that the attack is run on.
func (a *attack) sizes() []int {
	switch {
	case a.ensemble:
		return []int{3}
	case a.alone:
		return []int{1}
	}
	return []int{1, 3}
}

// attacks are all that there are. The rows are those of the list of attacks that an early
// version fell to.
func attacks() []attack {
	return slices.Concat(clientAttacks(), peerAttacks(), tlsAttacks(), kerberosAttacks(), diskAttacks())
}

func clientAttacks() []attack {
	return []attack{
		{name: "row-1-multi-too-long", what: "a multi that nearly fills a transaction, with 45,000 operations that fail", run: multiTooLong,
			before: "the process ended, through a follower the leader's"},
		{name: "row-2-long-names", what: "300 children with names of 1 MB, listed by 20 clients that do not read", prepare: longNames, run: unreadLongNames,
			before: "17 → 8,247 → 328 MB; one write took 10.4 s"},
		{name: "row-2-many-names", what: "a million names, listed by 20 clients that do not read", prepare: manyNames, run: unreadManyNames,
			before: "3,162 MB"},
		{name: "row-2-behind-writes", what: "the same after writes", prepare: manyNames, run: unreadNamesBehindWrites,
			before: "the reply of 11 MB was built under the write lock"},
		{name: "row-3-multi-read", what: "one multiRead of 3,000 × getData of a znode with 35,000 `ip` entries", prepare: longACLs, run: readLongACLs,
			before: "no service for 29 s; a session and a role lost"},
		{name: "row-3-identities", what: "1,000 identities read a znode with 20,000 entries", prepare: longACLs, run: readWithIdentities,
			before: "34 ms a read"},
		{name: "row-4-sets-10", what: "10 clients with 1,000 outstanding sets of 1 MB", run: sets(10, megabyte),
			before: "no service for 11 s: followers were cut off at 281 MB of queue"},
		{name: "row-4-sets-60", what: "60 clients with 1,000 outstanding sets of 1 MB", run: sets(60, megabyte),
			before: "4.4 GB"},
		{name: "row-5-ephemerals", what: "a session with a million ephemerals ends", run: ephemerals,
			before: "12 s without service; in an ensemble 13-35 s and the leader deposed"},
		{name: "row-7-count", what: "2,000 × getAllChildrenNumber of / with a million znodes", prepare: forCounts, run: countAll,
			before: "writes waited 2-3 s each for 36 s"},
		{name: "row-7-ephemerals", what: "50 × getEphemerals of 300,000 with a prefix that matches none", prepare: manyEphemerals, run: listNoEphemerals,
			before: "writes waited for 7 s"},
		{name: "row-8-quotas", what: "50 multis that create and delete a quota's statistics over a million znodes", prepare: forQuotas, run: quotas,
			before: "29 s, a session lost"},
		{name: "row-9-schemes", what: "an auth scheme of 1 MB, 200 times", run: longSchemes, before: "762 MB of log in 3 s"},
		{name: "row-10-multi-reads", what: "multiRead of 18 MB by 60 clients that do not read", prepare: dataOfMegabyte, run: unreadMultiReads,
			before: "1.1-1.3 GB, for 20 s to two minutes"},
		{name: "row-10-data", what: "getData of 1 MB by 1,000 clients that do not read", prepare: dataOfMegabyte, run: unreadData,
			before: "1.1-1.3 GB, for 20 s to two minutes"},
		{name: "row-10-behind-writes", what: "the same after writes, by 200", prepare: dataOfMegabyte, run: unreadDataBehindWrites,
			before: "1.1-1.3 GB, for 20 s to two minutes"},
		{name: "row-10-partial-frames", what: "600 KB of an unfinished frame on 2,000 connections", run: partialFrames(2000),
			before: "1.1-1.3 GB, for 20 s to two minutes"},
		{name: "row-11-acls", what: "a snapshot of 300 MB of ACLs begins", prepare: longACLsOfAll, run: snapshots, lines: []string{"snapCount=700"},
			before: "reads waited 1.8 s; twice the memory"},
		{name: "row-12-slow-frame", what: "a byte a second of an unfinished frame", run: slowFrame, least: 20 * time.Second,
			before: "kept a session of 4 s alive"},
		{name: "row-13-passwords", what: "passwords computed from the ids of sessions, with `sessionSecretFile`", run: guessPasswords, secret: true,
			before: "sessions taken over and closed"},

		{name: "long-watches", what: "watches on 1,000 paths of 500 KB that do not exist", run: watchesOfLongPaths},
		{name: "many-watches", what: "a million watches on short paths", run: manyWatches},
		{name: "set-watches", what: "watches restored by 1,000 requests of 900 KB", run: setWatchesOfLongPaths},
		{name: "unread-events", what: "400 clients that do not read watch znodes with names of 1 MB come and go", run: unreadEvents,
			slow: "events of 1 MB are put into 400 outputs under one lock"},
		{name: "identities", what: "500 connections with as many identities as they may have", run: manyIdentities(500)},
		{name: "sessions", what: "20,000 sessions whose connections are dropped", run: manySessions},
		{name: "silent-connections", what: "2,000 connections that say nothing, or a part of the first frame", run: silentConnections},
		{name: "garbage", what: "random bytes and impossible lengths to every port", run: garbage},
		{name: "words", what: "300 four-letter words with long answers that are not read", prepare: wordsPrepared, run: words},
		{name: "named-metrics", what: "znodes with names of 1 MB and of 256 bytes come and go, while others ask for `mntr`, `/metrics`, watches and ephemerals, and some do not read", prepare: namedMetricsPrepared, run: namedMetrics},
		{name: "syncs", what: "20 clients with 20,000 outstanding syncs each", run: syncs},
		{name: "deep", what: "4,000 znodes below each other, counted, watched, deleted", run: deep},
		{name: "failing-writes", what: "10 clients send writes that fail as fast as they can", run: failingWrites},
		{name: "large-multis", what: "90 multis of 40,000 operations, of three clients", run: largeMultis(3)},
		{name: "one-client-multis", what: "the same of one client", run: largeMultis(1)},
		{name: "one-client-frames", what: "600 KB of an unfinished frame on 60 connections, as many as one address may have", run: partialFrames(60)},
		{name: "one-client-identities", what: "60 connections with as many identities as they may have", run: manyIdentities(60)},
		{name: "limited-identity", what: "20 connections of an identity with limits send sets of 1 MB, long multis, counts, watches and ephemerals as fast as they can",
			run: beGreedy, limits: greedyLimits(), ours: true, least: 4 * time.Second},
		{name: "control", what: "no attack: the attackers' program computes on all processors, and the servers get nothing", control: true, run: compute},
		{name: "every-request", what: "every request with extreme values, whole and cut off", run: everyRequest},
	}
}

func peerAttacks() []attack {
	return []attack{
		{name: "row-14-late-epochs", what: "FOLLOWERINFO with live ids and epoch 2147483646, for 20 s", ensemble: true, run: lateEpochs, after: restartAll,
			before: "never a leader again"},
		{name: "row-15-live-ids", what: "FOLLOWERINFO with a live follower's id, for 20 s", ensemble: true, run: liveIDs,
			before: "no service for most of 20 s"},
		{name: "row-16-late-rounds", what: "votes of round 2^62 during an election", ensemble: true, restarts: true, run: lateRounds, after: electAgain,
			before: "the next election never ended"},
		{name: "row-17-unread-observers", what: "60 observers take a snapshot of 100 MB and read nothing, beside writes of 1 MB", ensemble: true, prepare: largeTree, run: unreadObservers,
			before: "251 → 15,355 MB"},
		{name: "row-18-crowd", what: "300 connections that say OBSERVERINFO, while a follower restarts", ensemble: true, renews: true, run: strangersCrowd, least: time.Minute,
			before: "the follower was kept out for 22-33 s"},
		{name: "row-19-long-notifications", what: "notifications of 500 KB while the servers are busy", ensemble: true, run: longNotifications, slow: "long multis and notifications of all members share the processors",
			before: "18 → 7,229 MB"},
		{name: "partial-packets", what: "900 KB of an unfinished packet on 500 connections to quorum ports", ensemble: true, run: partialPackets},
		{name: "every-packet", what: "every packet with extreme values, first and after discovery", ensemble: true, run: everyPacket},
		{name: "every-vote", what: "notifications with extreme values in every server's name", ensemble: true, run: everyVote, after: restartAll},
		{name: "lagging-follower", what: "writes that fail, while a follower is paused again and again and observers read nothing", ensemble: true, pauses: true, least: 14 * time.Second, run: laggingFollower,
			before: "1,426 MB"},
		{name: "election-hellos", what: "2,000 connections to election ports that say nothing, a part, or an unknown id", ensemble: true, run: electionHellos},
	}
}

func diskAttacks() []attack {
	return []attack{
		{name: "row-6-descriptors", what: "out of file descriptors while log files and snapshots begin", run: fewDescriptors,
			lines: []string{"snapCount=500", "preAllocSize=64", "txnLogSizeLimitInKb=256"}, before: "the process ended"},
		{name: "row-20-short-log", what: "the newest log cut to 0, 5 and 10 bytes while the server is down", alone: true, offline: true, prepare: createAcknowledged, run: shortLog,
			before: "126 acknowledged creates were gone"},
		{name: "row-20-removed-log", what: "the log removed under a running server", alone: true, offline: true, prepare: createAcknowledged, run: removedLog,
			before: "went unnoticed"},
	}
}
