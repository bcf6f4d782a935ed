package config

import (
	"net"
	"strconv"
	"time"
)

// Quorum is the ensemble: its members, and the role of this server. A standalone server
// uses only ReconfigEnabled and ReadOnlyMode of it.
type Quorum struct {
	MyID    int64 // content of the file myid in the data directory
	HasMyID bool  // the file exists; always true in an ensemble
	Members Members
	Next    *Members // of a reconfiguration that is not finished, later than Members; nil: there is none

	// Observer is this server's role. In an ensemble it is the role of the server
	// line, which overrides peerType.
	Observer bool

	InitLimit      int // ticks to connect and synchronize; > 0 in an ensemble
	SyncLimit      int // ticks that a follower may lag; > 0 in an ensemble
	ConnectLimit   int // connectToLearnerMasterLimit, ticks; InitLimit if not set
	ListenOnAllIPs bool
	// ObserverMasterPort is where observers look for a voter that serves them, at all voters'
	// hosts; <= 0: they use the leader's port.
	ObserverMasterPort int
	WindowBytes        int  // of recent transactions, kept for learners; 0 is the Zab core's default
	SyncEnabled        bool // observers write log and snapshots
	LocalSessions      bool
	LocalUpgrading     bool
	StandaloneEnabled  bool
	ReconfigEnabled    bool   // reconfig changes the members of a running ensemble
	ReadOnlyMode       bool   // readonlymode.enabled
	LeaderServes       bool   // the leader accepts clients
	DynamicFile        string // dynamicConfigFile; "" if the members are in File
	OraclePath         string // whose file may permit one of two voters to go on alone; "": there is no oracle
	MultiAddress       bool   // server lines may have several addresses, of which the first is used

	Login PeerLogin

	ElectionBindRetry int           // attempts; 0: no limit
	ConnectTimeout    time.Duration // cnxTimeout: of election connections
	LinkTimeout       time.Duration // quorumCnxnTimeoutMs; Tick*SyncLimit if that is 0 or less
	RetryDelay        time.Duration // leaderConnectDelayDuringRetryMs
	MinNotification   time.Duration // not above MaxNotification
	MaxNotification   time.Duration
	ObserverReconnect time.Duration
	ObserverElection  time.Duration
	MaxSnapSyncs      int // learners, not counting participants, that get a snapshot at the same time
	MaxDiffSyncs      int
	PeerBufferBytes   int // peerBufferBytes: of all connections of other servers
	UnsyncedBytes     int // unsyncedBytes: of transactions that wait for the disk
	TCPKeepAlive      bool

	TLS QuorumTLS
}

// QuorumTLS says which connections between servers have TLS, and whose certificates are
// valid there. Config.QuorumTLS has the certificates.
type QuorumTLS struct {
	Enabled     bool          // sslQuorum: this server makes connections with TLS, and accepts them
	Plain       bool          // portUnification: it accepts connections with TLS and without
	Hosts       bool          // a server to which this one connects has a certificate for its host
	ClientHosts bool          // so has a server that connects
	Members     bool          // ssl.quorum.verifyPeers
	FIPS        bool          // fips-mode, which decides about Hosts if that is not set
	Timeout     time.Duration // of an accepted handshake; <= 0: the default
}

// Ports reports whether the ports for other servers accept TLS.
func (t *QuorumTLS) Ports() bool { return t.Enabled || t.Plain }

// PeerLogin is the login of servers at each other, by SASL. The users are in the file that
// SASL.LoginFile names.
type PeerLogin struct {
	Enabled         bool
	LearnerRequired bool   // this server logs in where it connects; only if Enabled
	ServerRequired  bool   // other servers must log in; only if LearnerRequired
	ServerSection   string // of the login file: the users as which other servers log in
	LearnerSection  string // of the login file: this server's name and password, or its principal

	ServicePrincipal string // of other servers; _HOST is the host of each
	Canonicalize     bool   // kerberos.canonicalizeHostNames: the canonical name of a server line's host counts
}

// Distributed reports whether the configuration is that of an ensemble. One participant
// is a standalone server unless standaloneEnabled is false.
func (q *Quorum) Distributed() bool {
	n := len(q.Members.Voters())
	return n > 1 || n == 1 && !q.StandaloneEnabled
}

// Own returns this server's line; nil if there is none, which cannot happen in an
// ensemble.
func (q *Quorum) Own() *Member {
	if !q.HasMyID {
		return nil
	}
	return q.Members.Find(q.MyID)
}

// QuorumListen returns the address on which this server as a leader listens for
// learners, in the form of net.Listen.
//
// REQUIRES: Own is not nil.
func (q *Quorum) QuorumListen() string {
	quorum, _ := q.Listen(q.Own())
	return quorum
}

// ElectionListen returns the address on which this server listens for the election
// connections of its peers, in the form of net.Listen.
//
// REQUIRES: Own is not nil.
func (q *Quorum) ElectionListen() string {
	_, election := q.Listen(q.Own())
	return election
}

// ObserverListen returns the further address on which this server as a voter listens for
// observers, for a line of this server; "" if there is none: it is the port at which observers
// look for one of the voters.
func (q *Quorum) ObserverListen(own *Member) string {
	if q.ObserverMasterPort <= 0 || own.Observer {
		return ""
	}
	host := own.Addresses[0].Host
	if q.ListenOnAllIPs {
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(q.ObserverMasterPort))
}

// Listen returns QuorumListen and ElectionListen for another line of this server.
func (q *Quorum) Listen(own *Member) (quorum, election string) {
	a := own.Addresses[0]
	if q.ListenOnAllIPs {
		a.Host = ""
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(a.QuorumPort)), net.JoinHostPort(a.Host, strconv.Itoa(a.ElectionPort))
}
