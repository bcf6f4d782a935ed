package config

import (
	"net"
	"strconv"
	"time"
)

// Quorum is the ensemble: its members and how this server takes part. A
// standalone server reads ReconfigEnabled and ReadOnlyMode of it.
type Quorum struct {
	MyID    int64 // content of the file myid in the data directory
	HasMyID bool  // the file is there; always so in an ensemble
	Members Members

	// Observer is this server's role. In an ensemble it is what the server line
	// says, whatever peerType does.
	Observer bool

	InitLimit         int // ticks to connect and synchronize; > 0 in an ensemble
	SyncLimit         int // ticks that a follower may lag; > 0 in an ensemble
	ConnectLimit      int // connectToLearnerMasterLimit, ticks; InitLimit if not set
	ListenOnAllIPs    bool
	SyncEnabled       bool // observers write log and snapshots
	LocalSessions     bool
	LocalUpgrading    bool
	StandaloneEnabled bool
	ReconfigEnabled   bool   // the membership still does not change while the server runs
	ReadOnlyMode      bool   // readonlymode.enabled
	LeaderServes      bool   // the leader takes clients
	DynamicFile       string // dynamicConfigFile, "" when the members are in File
	MultiAddress      bool   // server lines may have several addresses, of which the first counts

	ElectionBindRetry int           // attempts; 0 is without end
	ConnectTimeout    time.Duration // cnxTimeout: of election connections
	LinkTimeout       time.Duration // quorumCnxnTimeoutMs; Tick*SyncLimit if that is 0 or less
	RetryDelay        time.Duration // leaderConnectDelayDuringRetryMs
	MinNotification   time.Duration // not above MaxNotification
	MaxNotification   time.Duration
	ObserverReconnect time.Duration
	ObserverElection  time.Duration
	MaxSnapSyncs      int // learners, participants not counted, that get a snapshot at a time
	MaxDiffSyncs      int
	TCPKeepAlive      bool
}

// Distributed reports whether the configuration is of an ensemble. One
// participant is a standalone server unless standaloneEnabled is false.
func (q *Quorum) Distributed() bool {
	n := len(q.Members.Voters())
	return n > 1 || n == 1 && !q.StandaloneEnabled
}

// Own returns this server's line; nil if there is none, which in an ensemble
// cannot be.
func (q *Quorum) Own() *Member {
	if !q.HasMyID {
		return nil
	}
	return q.Members.Find(q.MyID)
}

// QuorumListen returns where this server as a leader listens for learners, as
// net.Listen takes it.
//
// REQUIRES: Own is not nil.
func (q *Quorum) QuorumListen() string { return q.listen(q.Own().Addresses[0].QuorumPort) }

// ElectionListen returns where this server listens for its peers' election
// connections, as net.Listen takes it.
//
// REQUIRES: Own is not nil.
func (q *Quorum) ElectionListen() string { return q.listen(q.Own().Addresses[0].ElectionPort) }

func (q *Quorum) listen(port int) string {
	host := q.Own().Addresses[0].Host
	if q.ListenOnAllIPs {
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
