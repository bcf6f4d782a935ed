// Package config reads what an operator has written for ZooKeeper: zoo.cfg and
// Java system properties. It owns the names, defaults and limits of the
// settings, and says of each whether this server honours it.
//
// A setting has one of three ways in, and the ways are Apache's:
//
//  1. Some keys of zoo.cfg are read as they stand (tickTime, dataDir, ...).
//  2. Any other key K of zoo.cfg is the property zookeeper.K, which may also be
//     given as -Dzookeeper.K=value.
//  3. A few properties have no prefix (jute.maxbuffer, readonlymode.enabled,
//     znode.container.*); they exist only as -D.
//
// Of one property given in several places zoo.cfg wins, then the command line,
// then SERVER_JVMFLAGS; within one place the last wins.
//
// Nothing that an operator has written is dropped in silence. A setting is
// honoured; or accepted, because it tunes a part that this server does not have;
// or accepted with a Warning, because a feature is missing; or refused, because
// going on without the feature would endanger data or secrets. Unknown names
// warn. docs/ops/configuration.md is the list, and a test keeps it so.
//
// The package opens files and resolves nothing else: no sockets, no host names.
package config

import (
	"net"
	"strconv"
	"time"
)

// Config is everything that a server is told at its start, grouped by the part
// that owns it. It is plain data: whoever holds it may copy and change it.
type Config struct {
	File string // the zoo.cfg as it was named; "" when there is none
	Text string // the content of File

	Client   Client
	Data     Data
	Log      Log
	Snapshot Snapshot
	Purge    Purge
	Session  Session
	Tree     Tree
	Auth     Auth
	Reaper   Reaper
	Requests Requests
	Throttle Throttle
	Commands Commands
	Admin    Admin
	Metrics  Metrics
	Quorum   Quorum

	// Properties holds every Java property that was set, by its full name
	// (zookeeper.snapCount), known here or not. The admin command
	// system_properties shows it.
	Properties map[string]string
}

// Client is the client port and what it lets in.
type Client struct {
	Host         string // address to listen on; "" is every address
	Port         int    // 0 only if there is none
	Backlog      int    // of the listening socket; -1 leaves it to the system
	MaxPerIP     int    // connections of one client address; 0 is no limit
	MaxTotal     int    // connections of all; 0 is no limit
	TCPKeepAlive bool

	// SessionlessTimeout closes a connection that has not asked for a session.
	SessionlessTimeout time.Duration

	MaxFrameBytes int // jute.maxbuffer: a longer request closes its connection
	BufferBytes   int // connectionBufferBytes: of all connections' buffers; 0 is no limit

	// ExtraBytes is what records read from disk may exceed MaxFrameBytes by:
	// a transaction is larger than the request that it came from.
	ExtraBytes int
}

// Addr returns host and port as net.Listen takes them.
func (c *Client) Addr() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// Data is where the server keeps its state.
type Data struct {
	Dir        string // snapshots, epochs, myid; the files lie in Dir/version-2
	LogDir     string // transaction logs
	AutoCreate bool   // make missing directories

	// DBAutoCreate lets a server with an empty data directory start with an
	// empty database. Without it a file named initialize must be there.
	DBAutoCreate bool
}

// Log is the transaction log.
type Log struct {
	PreAllocBytes    int64         // the file grows in such steps
	MaxBytes         int64         // a new file is begun beyond this; <= 0 is no limit
	ForceSync        bool          // fsync before an acknowledgement
	FsyncWarnAfter   time.Duration // a slower fsync is worth a warning
	CommitLogCount   int           // committed transactions kept for learners
	SnapSizeFactor   float64       // log read for a learner, as a share of the snapshot; < 0 never
	ForceSnapSync    bool          // learners always get a snapshot
	CloseSessionTxn  bool          // closeSession lists the znodes that it deletes
	DigestEnabled    bool          // transactions and snapshots carry the tree's digest
	SerializeLastTxn bool          // snapshots end with the last zxid that they hold
}

// Snapshot says when and how snapshots are made.
type Snapshot struct {
	Count       int    // transactions between snapshots, before randomising; at least 2
	SizeBytes   int64  // of log between snapshots, before randomising; <= 0 is no limit
	Compression string // "", "gz" or "snappy"
	TrustEmpty  bool   // logs without any snapshot are believed
}

// Purge is the removal of old snapshots and logs.
type Purge struct {
	Retain   int           // snapshots kept, at least 3
	Interval time.Duration // 0 is never
}

// Session bounds the timeouts that clients may ask for.
type Session struct {
	Tick       time.Duration // the unit of expiry
	MinTimeout time.Duration
	MaxTimeout time.Duration
}

// Tree is what the znodes allow.
type Tree struct {
	EnforceQuota  bool // hard limits refuse, not only soft ones warn
	ExtendedTypes bool // TTL znodes exist
	Emulate353TTL bool // as 3.5.3 wrote them
}

// Auth is who may do what.
type Auth struct {
	SkipACL       bool
	EagerACLCheck bool   // followers check before they forward
	SuperDigest   string // user:base64(hash), "" is nobody
	DigestEnabled bool   // the digest scheme exists
	DigestHash    string // one of SHA1, SHA-224, SHA-256, SHA-384, SHA-512, MD5, SHA3-*

	// EnsembleNames are what a client may prove of the scheme ensemble. Nil
	// skips the check.
	EnsembleNames []string

	SASL SASL

	Enforce        bool     // EnforceSchemes count
	EnforceSchemes []string // of which a connection must have authenticated one
	RequireSASL    bool     // as Enforce with sasl alone, and goes before it
}

// Enforced returns the schemes of which a connection must have authenticated one
// before it may do anything else; none if it need not.
func (a *Auth) Enforced() []string {
	switch {
	case a.RequireSASL:
		return []string{"sasl"}
	case a.Enforce:
		return a.EnforceSchemes
	}
	return nil
}

// SASL is the login of clients.
type SASL struct {
	LoginFile string // in the form of Java's JAAS; "" turns SASL off
	Section   string // of LoginFile: who may log in
	Provider  bool   // the scheme sasl exists in ACLs

	SuperUsers    []string // who is the superuser once logged in; unordered
	SuperPassword string   // of user super, instead of LoginFile's; "" is LoginFile's
	AnyUser       string   // in an ACL, whoever has logged in; "" is nobody
	AllowFailed   bool     // who fails to log in stays, as nobody
}

// Reaper deletes containers and znodes whose time to live is over.
type Reaper struct {
	Interval     time.Duration
	MaxPerMinute int
	NeverUsed    time.Duration // age at which a container that was never used goes; 0 is never
}

// Requests bounds what is in the pipeline.
type Requests struct {
	MaxOutstanding int // globalOutstandingLimit

	MaxInPipeline int // request_throttle_max_requests; 0 is no limit

	// ThrottledOpWait: a request that waited longer for the pipeline is
	// answered ErrThrottledOp; 0 is never.
	ThrottledOpWait time.Duration

	LargeBytes    int // beyond it a request is large; < 0 is never
	LargeMaxBytes int // of all large requests in flight
}

// Throttle is the token bucket in front of accept.
type Throttle struct {
	Tokens       int           // size of the bucket; 0 turns the throttle off
	FillTime     time.Duration // FillCount tokens come in such steps
	FillCount    int
	FreezeTime   time.Duration // between changes of the dropping probability; < 0 never drops
	DropIncrease float64
	DropDecrease float64
	DecreaseAt   float64 // share of tokens that must be there for a decrease

	Weighted      bool // sessions cost by kind, else one token each
	GlobalWeight  int
	RenewalWeight int
}

// Commands is the four-letter words.
type Commands struct {
	// Allowed lists the words that are answered; a single "*" is all.
	Allowed []string
}

// Allows reports whether the word may be answered.
func (c *Commands) Allows(word string) bool {
	for _, w := range c.Allowed {
		if w == "*" || w == word {
			return true
		}
	}
	return false
}

// Admin is the HTTP administration server.
type Admin struct {
	Enabled     bool
	Host        string
	Port        int
	IdleTimeout time.Duration
	CommandURL  string
}

// Metrics is the exporter.
type Metrics struct {
	Provider string // Java class name; the last part tells
	Host     string
	Port     int
}

// Prometheus reports whether the exporter is Prometheus's.
func (m *Metrics) Prometheus() bool { return m.Provider == prometheusProvider }

const (
	defaultProvider    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	nullProvider       = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
	prometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
)
