// Package config reads the configuration of a server: zoo.cfg and Java system
// properties. It owns the names, defaults and limits of the settings, and says for each
// whether this server honours it.
//
// There are three kinds of setting, as in Apache:
//
//  1. Some keys of zoo.cfg are read under their own names (tickTime, dataDir, ...).
//  2. Any other key K of zoo.cfg is the property zookeeper.K, which may also be given as
//     -Dzookeeper.K=value.
//  3. A few properties have no prefix (jute.maxbuffer, readonlymode.enabled,
//     znode.container.*); they can be given only as -D.
//
// If one property is given in several places, zoo.cfg overrides the command line, and
// the command line overrides JVMFLAGS, and that overrides SERVER_JVMFLAGS. Within one
// place the last value counts.
//
// No setting is ignored silently. A setting is honoured; or accepted, because it tunes
// a part that this server does not have; or accepted with a Warning, because a feature
// is missing; or refused, because to run without the feature would endanger data or
// secrets. An unknown name causes a warning. docs/ops/configuration.md is the complete
// list; a test compares it with the code.
//
// The package opens configuration files only. It uses no sockets and resolves no host
// names.
package config

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is the complete configuration of a server, grouped by the part that owns a
// setting. It is plain data: its owner may copy and change it.
type Config struct {
	File string // the name of zoo.cfg as it was given; "" if there is none
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
	Audit    Audit
	Quorum   Quorum

	TLS       TLS // of the client port: ssl.*
	QuorumTLS TLS // of the connections between servers: ssl.quorum.*

	// Properties holds every Java property that was set, known or not, by its full
	// name (zookeeper.snapCount). The admin command system_properties shows it.
	Properties map[string]string

	places map[string]string // key or property that was set -> where
}

// Client is the client port and its limits.
type Client struct {
	Host         string // address to listen on; "": every address
	Port         int    // 0 only if there is no client port
	Backlog      int    // of the listening socket; -1: the system's default
	MaxPerIP     int    // connections of one client address; 0: no limit
	MaxTotal     int    // connections of all clients; 0: no limit
	TCPKeepAlive bool

	OnlySecure bool   // there is no port without TLS: Host and Port do not count
	Secure     bool   // there is a port with TLS only
	SecureHost string // its address; "": every address
	SecurePort int    // 0 lets the system choose
	Unified    bool   // client.portUnification: Port accepts TLS, too

	// MaxHandshakes is how many TLS handshakes may be in progress; a connection beyond
	// that is closed. <= 0: later connections wait.
	MaxHandshakes int
	// EarlyDrop says that a server without a quorum shakes no hands: it closes connections with TLS.
	EarlyDrop bool

	// SessionlessTimeout is the time after which a connection without a session is
	// closed.
	SessionlessTimeout time.Duration

	MaxFrameBytes int // jute.maxbuffer: a longer request closes its connection
	BufferBytes   int // connectionBufferBytes: of all connections' buffers; 0: no limit
	WatchBytes    int // watchBytes: of all watches; 0: no limit

	LimitsFile string // limitsFile: limits of sessions and identities; "": none

	// ExtraBytes is by how much a record on the disk may exceed MaxFrameBytes: a
	// transaction is larger than the request that caused it.
	ExtraBytes int
}

// Addr returns host and port in the form of net.Listen.
func (c *Client) Addr() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// SecureAddr returns host and port of the TLS port in the form of net.Listen.
func (c *Client) SecureAddr() string {
	return net.JoinHostPort(c.SecureHost, strconv.Itoa(c.SecurePort))
}

// Audit is the audit log.
type Audit struct {
	Enabled      bool
	Class        string // one of Apache's two
	File         string // "": the standard output
	MaxFileBytes int    // 0: the file is never rotated
	MaxFiles     int    // old ones that are kept
	JSON         bool   // instead of Apache's format
	Details      bool   // zxid, versions and sizes
	QueueBytes   int    // lines that may wait; beyond that, changes wait
}

// ShortClass is the name of the logger as Apache's sample configuration prints it.
func (a *Audit) ShortClass() string {
	return "o.a.z.a." + a.Class[strings.LastIndexByte(a.Class, '.')+1:]
}

// TLS says how the connections of a port are encrypted.
type TLS struct {
	KeyStore   Store
	TrustStore Store // without a File: what the operating system trusts

	Protocol  string   // ssl.protocol
	Protocols []string // ssl.enabledProtocols; nil: Protocol alone
	Suites    []string // ssl.ciphersuites; nil: those of package crypto/tls

	ClientAuth string // none, want or need: whether a client has a certificate

	// ClientHost makes a client's certificate valid only if it names the client's
	// address. It counts only with Hosts.
	ClientHost bool
	Hosts      bool // ssl.hostnameVerification

	// CRL makes a certificate valid only if a list of its issuer says that it is not
	// revoked; OCSP, only if a responder says so, or such a list.
	CRL, OCSP bool
}

// AdminTLS is TLS on the port of the administration server: the stores of the connections
// between servers, and nothing else of them.
func (c *Config) AdminTLS() *TLS {
	t := &TLS{KeyStore: c.QuorumTLS.KeyStore, TrustStore: c.QuorumTLS.TrustStore, ClientAuth: "none"}
	if c.Admin.NeedClientAuth {
		t.ClientAuth = "need"
	}
	return t
}

// Store is a file with keys or certificates.
type Store struct {
	File         string
	Password     string
	PasswordFile string // overrides Password; "": none
	Type         string // JKS, PEM or PKCS12, in any case; "": the suffix of File says it
}

// Data is where the server keeps its state.
type Data struct {
	Dir        string // snapshots, epochs, myid; the files are in Dir/version-2
	LogDir     string // transaction logs
	AutoCreate bool   // create missing directories
	Reserve    int    // bytes of the disk that are kept free; 0: it is not looked at

	// DBAutoCreate lets a server with an empty data directory start with an empty
	// database. Without it, this needs a file named initialize.
	DBAutoCreate bool
	Healing      bool // a damaged member of an ensemble heals itself
}

// Log is the transaction log.
type Log struct {
	PreAllocBytes    int64         // step in which the log file is extended
	MaxBytes         int64         // size from which a new file is started; <= 0: no limit
	ForceSync        bool          // fsync before an acknowledgement
	FsyncWarnAfter   time.Duration // a slower fsync is logged as a warning
	CommitLogCount   int           // committed transactions kept for learners
	SnapSizeFactor   float64       // log read for a learner, as a share of the snapshot; < 0: never
	ForceSnapSync    bool          // learners always get a snapshot
	CloseSessionTxn  bool          // closeSession lists the znodes that it deletes
	DigestEnabled    bool          // transactions and snapshots contain the tree's digest
	SerializeLastTxn bool          // snapshots end with their last zxid
}

// Snapshot says when and how snapshots are written.
type Snapshot struct {
	Count       int    // transactions between snapshots, before randomising; at least 2
	SizeBytes   int64  // of log between snapshots, before randomising; <= 0: no limit
	Compression string // "", "gz" or "snappy"
	TrustEmpty  bool   // accept logs without any snapshot
}

// Purge is the removal of old snapshots and logs.
type Purge struct {
	Retain   int           // snapshots kept, at least 3
	Interval time.Duration // 0: never
	Age      time.Duration // of snapshots that are kept; 0: any
	Bytes    int64         // of snapshots and logs that are kept; 0: any
}

// Session bounds the timeouts that clients may request.
type Session struct {
	Tick       time.Duration // the unit of expiry
	MinTimeout time.Duration
	MaxTimeout time.Duration

	Password   string // sessionPassword: apache, both or secret; "" is secret with a SecretFile, else apache
	SecretFile string // sessionSecretFile: what makes the passwords; "" is none

	Bytes int // sessionBytes: of all sessions; 0: no limit
}

// Tree is what znodes may be.
type Tree struct {
	EnforceQuota  bool // hard limits refuse requests; otherwise limits only cause warnings
	ExtendedTypes bool // TTL znodes exist
	Emulate353TTL bool // in the form that 3.5.3 wrote
}

// Auth is the authentication and authorization of clients.
type Auth struct {
	SkipACL       bool
	EagerACLCheck bool   // followers check before they forward a request
	SuperDigest   string // user:base64(hash); "": there is no superuser
	SuperFile     string // a file with SuperDigest, which counts instead; "": none
	DigestEnabled bool   // the digest scheme exists
	DigestHash    string // one of SHA1, SHA-224, SHA-256, SHA-384, SHA-512, MD5, SHA3-*

	// Ensemble says that the scheme ensemble exists.
	Ensemble bool
	// EnsembleNames are the names that a client may give in the scheme ensemble.
	// Nil disables the check.
	EnsembleNames []string

	SASL SASL

	X509          bool   // the scheme x509 exists: there is a port with TLS, or its class is named
	X509SuperUser string // the subject whose certificate makes a superuser; "": none

	Enforce        bool     // EnforceSchemes applies
	EnforceSchemes []string // a connection must have authenticated by one of them
	RequireSASL    bool     // like Enforce with sasl alone, and overrides it

	UseForwardedFor bool // the administration server believes the header X-Forwarded-For
}

// Enforced returns the schemes of which a connection must have authenticated by one
// before it may do anything else; none if authentication is not enforced.
func (a *Auth) Enforced() []string {
	switch {
	case a.RequireSASL:
		return []string{"sasl"}
	case a.Enforce:
		return a.EnforceSchemes
	}
	return nil
}

// SASL is the SASL login of clients.
type SASL struct {
	LoginFile string // in the form of Java's JAAS; "": SASL is off
	Section   string // of LoginFile: the users that may log in
	Provider  bool   // the scheme sasl exists in ACLs

	SuperUsers    []string // users that are the superuser once logged in; unordered
	SuperPassword string   // of user super, instead of the one in LoginFile; "": that of LoginFile
	AnyUser       string   // id that in an ACL means every logged-in user; "": none
	AllowFailed   bool     // a client whose login fails stays connected, without an identity

	KerberosFile  string   // krb5.conf; "": where Kerberos looks for it
	KerberosRealm string   // the default realm, instead of the one in KerberosFile; "": that
	KDCs          []string // names of the KDCs of KerberosRealm, instead of those in KerberosFile; nil: those
	NameRules     string   // auth_to_local: how a principal becomes a user
	RemoveHost    bool     // from the user: the host of its principal
	RemoveRealm   bool     // from the user: the realm of its principal
}

// Reaper deletes containers and znodes whose time to live has passed.
type Reaper struct {
	Interval     time.Duration
	MaxPerMinute int
	NeverUsed    time.Duration // age at which a container that never had a child is deleted; 0: never
}

// BufferBytes is the budget of all client connections' buffers: connectionBufferBytes,
// but enough for a few of the largest requests. 0 is no limit.
func (c *Config) BufferBytes() int { return c.budget(c.Client.BufferBytes, 8) }

// OutstandingBytes is the budget of the requests in the pipeline of one server's
// clients: globalOutstandingBytes, but enough for a few of the largest requests. 0 is no
// limit. A write waits for so many bytes before it.
func (c *Config) OutstandingBytes() int { return c.budget(c.Requests.MaxOutstandingBytes, 4) }

// budget is a limit, or what a few of the largest requests take if that is more.
func (c *Config) budget(limit, few int) int {
	if limit == 0 {
		return 0
	}
	return max(limit, few*(c.Client.MaxFrameBytes+1))
}

// Requests bounds the requests in the pipeline.
type Requests struct {
	MaxOutstanding int // globalOutstandingLimit

	MaxOutstandingBytes int // globalOutstandingBytes: of the requests in the pipeline; 0: no limit

	MaxInPipeline int // request_throttle_max_requests; 0: no limit

	// ThrottledOpWait is the time after which a request that waits for the pipeline
	// is answered with ErrThrottledOp; 0: never.
	ThrottledOpWait time.Duration

	LargeBytes    int // size from which a request is large; < 0: none is
	LargeMaxBytes int // of all large requests in flight
}

// Throttle is the token bucket for new connections.
type Throttle struct {
	Tokens       int           // size of the bucket; 0: the throttle is off
	FillTime     time.Duration // interval at which FillCount tokens are added
	FillCount    int
	FreezeTime   time.Duration // between changes of the probability to drop; < 0: never drop
	DropIncrease float64
	DropDecrease float64
	DecreaseAt   float64 // share of tokens that must be free for a decrease

	Weighted      bool // sessions cost tokens by kind, otherwise one token each
	GlobalWeight  int
	RenewalWeight int
}

// Commands are the four-letter words.
type Commands struct {
	// Allowed lists the words that are answered; a single "*" means all.
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
	Enabled      bool
	Host         string
	Port         int           // 0: the system chooses one
	IdleTimeout  time.Duration // of a connection; <= 0: no limit
	CommandURL   string        // path of the list of commands; begins with /, does not end with it
	Snapshot     bool          // the command snapshot is enabled
	Restore      bool          // the command restore is enabled
	RateInterval time.Duration // in which one snapshot is allowed
	Anyone       bool          // what the root's ACL gives to world:anyone counts for the commands that need a proof of identity
	Pprof        bool          // profiles of the process are shown

	ForceHTTPS     bool // HTTPS only; overrides Unified
	Unified        bool // HTTP and HTTPS
	NeedClientAuth bool // over HTTPS, a client needs a certificate
}

// HTTPS reports whether the server speaks HTTPS.
func (a *Admin) HTTPS() bool { return a.Enabled && (a.ForceHTTPS || a.Unified) }

// Metrics is the exporter of metrics.
type Metrics struct {
	Provider string // Java class name
	Host     string
	Port     int
	Process  bool // export the metrics of the process, too
}

// Addr returns the address of the exporter. The host 0.0.0.0 is every address of both
// families, as in Java.
func (m *Metrics) Addr() string {
	host := m.Host
	if host == "0.0.0.0" {
		host = ""
	}
	return net.JoinHostPort(host, strconv.Itoa(m.Port))
}

// Prometheus reports whether the exporter is Prometheus's.
func (m *Metrics) Prometheus() bool { return m.Provider == prometheusProvider }

const (
	defaultProvider    = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider"
	nullProvider       = "org.apache.zookeeper.metrics.impl.NullMetricsProvider"
	prometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"
)
