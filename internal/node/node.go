// Package node is one server: it assembles the parts of a ZooKeeper server from a
// configuration and runs them until its context ends. A node keeps no state of the
// process: a process may run any number of nodes, and the failure of one is an error
// that its Run returns. The memory of the Go runtime, which a process has only once, is
// tuned by a Memory, which the caller creates and nodes share.
//
//	node.go     a node: Open, Join, Run, Close
//	ports.go    the ports of clients, and TLS
//	login.go    the users of SASL, from the login file
//	admin.go    the administration server
//	audit.go    the audit log
//	members.go  the files and the addresses that a reconfiguration changes
//	limits.go   the limits of sessions and identities, from their file
//	memory.go   Memory: how much garbage may gather
//	trim.go     returning memory to the system
//
// Package options, below it, translates the configuration for each part.
package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/admin"
	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/exporter"
	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Options is a configuration, and what a node gets from its process. Only Config is
// required.
type Options struct {
	// Config is read until the node has ended. It must not be changed.
	Config *config.Config
	Logger *slog.Logger // nil: nothing is logged
	FS     vfs.FS       // nil: the operating system's
	// Listener accepts the clients' connections, in place of the address in
	// Config.Client. From the call of Open on, the node owns it; if Open fails, it
	// closes it.
	Listener net.Listener
	// Listen opens the ports for the other servers; nil: the operating system's.
	Listen func(address string) (net.Listener, error)
	// Dial connects to the other servers; nil: by the operating system.
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Memory *Memory // nil: the memory of the process is not tuned
}

// Node is one server. Open creates it; then the caller runs it once, or closes it.
type Node struct {
	o         Options
	log       *slog.Logger
	listener  net.Listener       // nil: no port without TLS
	secure    net.Listener       // nil: no port with TLS only
	tls       *server.Encryption // nil: no client has TLS
	peerTLS   *tlsport.Port      // nil: no other server has TLS
	dir       *storage.Dir
	server    *server.Server
	peers     *peerauth.Authority // nil: the servers of the ensemble do not log in
	replica   *replica.Replica
	report    replica.Report
	links     atomic.Pointer[transport.Transport] // nil: standalone, or not running
	leave     func()                              // ends the node's registration with Options.Memory
	reserve   *vfs.Reserve                        // nil: the caller chose the file system
	members   *members                            // nil: the membership does not change
	limits    *limitsFile                         // nil: there are no limits
	passwords *passwords
	period    time.Duration      // between two reads of limits and passwords
	metrics   *exporter.Listener // nil: metricsProvider.className is not Prometheus's
	exporter  *exporter.Exporter // nil: nothing shows the metrics
	admin     *admin.Server      // nil: it is not enabled
	audit     *audit.Log         // nil: there is no audit log
	started   bool               // Run has begun to serve
}

// reservedFiles is how many file descriptors are reserved for the disk: for a new log
// file and a snapshot while connections use all the others, and for the directories
// that are synced for them.
const reservedFiles = 8

// Open opens the client port and the data directory, and recovers the state. Clients
// may connect from now on; they are served once Run is called. If Open fails, nothing
// remains open.
func Open(o Options) (*Node, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{o: o, log: o.Logger, listener: o.Listener, leave: func() {}, passwords: newPasswords(o.Config, o.Logger), period: filesPeriod}
	if o.FS == nil {
		n.reserve = vfs.NewReserve(vfs.OS{}, reservedFiles)
		n.o.FS = n.reserve
	}
	if err := n.open(); err != nil {
		n.note(audit.ServerStart, audit.Failure)
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func (n *Node) open() error {
	cfg := n.o.Config
	authority, err := authority(cfg, n.passwords)
	if err != nil {
		return err
	}
	users, err := logins(cfg, n.passwords, n.log)
	if err != nil {
		return err
	}
	if n.peers, err = peerLogins(cfg, n.passwords, n.log); err != nil {
		return err
	}
	if err := n.passwords.start(); err != nil {
		return err
	}
	passwords, err := sessionPasswords(cfg)
	if err != nil {
		return err
	}
	if n.audit, err = n.openAudit(); err != nil {
		return err
	}
	limits, err := n.openLimits()
	if err != nil {
		return err
	}
	if err := n.openStores(); err != nil {
		return err
	}
	if err := n.openPorts(); err != nil {
		return err
	}
	if n.dir, err = storage.Open(n.o.FS, options.Storage(cfg)); err != nil {
		return err
	}
	o, err := options.Replica(cfg)
	if err != nil {
		return err
	}
	n.server = server.New(server.Options{Config: cfg, Auth: authority, SASL: users, Audit: n.audit, Passwords: passwords, Limits: limits, Logger: n.log})
	if err := n.openMetrics(); err != nil {
		return err
	}
	if o.Reconfigure != nil {
		if n.members, err = newMembers(cfg, n.log); err != nil {
			return err
		}
		o.MembersSaved = n.members.saved
	}
	o.Dir, o.Auth, o.Clients, o.Logger, o.MemoryLeft = n.dir, authority, n.server, n.log, memoryLeft
	if n.replica, n.report, err = replica.Start(o, time.Now().UnixMilli()); err != nil {
		return err
	}
	n.leave = n.o.Memory.join(func() {
		n.replica.ReleaseSpare()
		n.server.ReleaseSpare()
	})
	n.server.Attach(n.replica)
	return n.openAdmin(authority)
}

// openMetrics opens the port for Prometheus, if the configuration asks for it. The
// administration server shows the same page.
func (n *Node) openMetrics() (err error) {
	m := &n.o.Config.Metrics
	if !m.Prometheus() && !n.o.Config.Admin.Enabled {
		return nil
	}
	n.exporter = exporter.New(exporter.Options{Metrics: n.server.Metrics(), Process: m.Process})
	if m.Prometheus() {
		n.metrics, err = exporter.Listen(m.Addr(), n.exporter, n.log)
	}
	return err
}

// serveMetrics serves Prometheus until the node is closed.
func (n *Node) serveMetrics() {
	if n.metrics == nil {
		return
	}
	n.log.Info("metrics for Prometheus", "address", n.metrics.Addr().String())
	go func() {
		if err := n.metrics.Serve(); err != nil {
			n.log.Error("metrics are not served to Prometheus any more", "err", err)
		}
	}()
}

// Addr returns the address of the client port; of that with TLS if there is no other.
func (n *Node) Addr() net.Addr {
	if n.listener == nil {
		return n.secure.Addr()
	}
	return n.listener.Addr()
}

// Report returns what Open has recovered.
func (n *Node) Report() *replica.Report { return &n.report }

// Replica returns the node's replica. The node owns it: the caller must not close it.
func (n *Node) Replica() *replica.Replica { return n.replica }

// Run serves clients, and takes part in the ensemble if there is one, until ctx ends or
// the node fails; then it closes the node. It returns nil if ctx has ended and the node
// was closed without error; otherwise the error says why the node has failed, or what
// could not be closed. In any case, what was acknowledged to a client is on the disk.
func (n *Node) Run(ctx context.Context) (err error) {
	defer n.serveAdmin()()
	if err := n.Join(ctx); err != nil {
		return errors.Join(err, n.Close())
	}
	defer n.followFiles(ctx)()
	defer n.followMembers(ctx)()
	defer n.followOracle(ctx)()
	n.serveMetrics()
	n.note(audit.ServerStart, audit.Success)
	n.started = true
	served := n.serve()
	select {
	case <-ctx.Done():
		n.log.Info("stopping")
		err = n.handOver()
	case <-n.replica.Failed():
		n.log.Error("the server has failed and stops: acknowledged writes are on the disk, others may be lost; restart it once the cause is gone", "err", n.replica.Failure())
	case err = <-served:
		return errors.Join(err, n.Close())
	}
	err = errors.Join(err, n.Close())
	return errors.Join(<-served, err)
}

// handOverWithin is how long a leader that is stopped waits until another one can lead. It
// is longer than the replica tries.
const handOverWithin = 2 * time.Second

// errNoAnswer is why a leader stops without handing over when its replica says nothing.
var errNoAnswer = errors.New("server: the hand-over has not ended in time")

// handOver has another member lead, if this one does and the others can. Then it closes the links
// to the others at once: an election waits for the votes of all servers that can be reached, and this
// one may not vote any more. The error is that of closing them.
func (n *Node) handOver() error {
	left := make(chan error, 1)
	n.replica.HandOver(func(err error) { left <- err })
	select {
	case err := <-left:
		switch links := n.links.Load(); {
		case err == nil && links != nil:
			return links.Close()
		case err != nil && !errors.Is(err, replica.ErrNotLeader):
			n.log.Warn("this leader stops without handing over", "err", err)
		}
	case <-n.replica.Failed():
	case <-time.After(handOverWithin):
		n.log.Warn("this leader stops without handing over", "err", errNoAnswer)
	}
	return nil
}

// Join opens the ports for the other servers of the ensemble, and takes part in
// elections from then on. It does nothing on a standalone server. If ctx ends before
// the ports are open, Join returns nil; a Run that follows ends at once. Run calls Join
// unless it was called.
func (n *Node) Join(ctx context.Context) error {
	cfg := n.o.Config
	if !cfg.Quorum.Distributed() || n.links.Load() != nil {
		return nil
	}
	o := options.Transport(cfg)
	o.Handler, o.Logger, o.Listen, o.Dial, o.Authority = n.replica, n.log, n.o.Listen, n.o.Dial, n.peers
	if o.Encryption = options.Encryption(cfg); o.Encryption != nil {
		o.Encryption.Port = n.peerTLS
	}
	t, err := transport.New(o)
	if err != nil {
		return err
	}
	// A second Close has no effect.
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	defer stop()
	if err := t.Start(); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	n.links.Store(t)
	n.server.Metrics().Bind("peer_buffer_bytes", metric.Func(t.BufferedBytes))
	n.server.Metrics().Bind("failed_peer_logins_count", metric.Func(t.FailedLogins))
	n.replica.Join(network{t, n.log})
	return nil
}

// network is the transport in the form that a replica needs.
type network struct {
	*transport.Transport
	log *slog.Logger
}

// SetMembers passes on a change of the membership. A member whose address cannot be
// read is not reached; addresses are checked when the change is made.
func (n network) SetMembers(members []zab.Member) {
	peers, err := options.Peers(members)
	if err != nil {
		n.log.Error("members of the ensemble cannot be reached: their addresses cannot be read", "err", err)
	}
	n.SetPeers(peers)
}

// AppendPacket appends the bytes of a packet.
func (network) AppendPacket(b []byte, p zab.Packet) []byte { return transport.AppendPacket(b, p) }

// Close closes a node that does not run. Sessions survive, and their clients reconnect
// when the server is started again. The error is the failure of the node, or what could
// not be closed. Run calls it.
func (n *Node) Close() error {
	var err error
	if n.admin != nil {
		err = n.admin.Close()
	}
	n.server.Stop()
	err = errors.Join(err, n.replica.Close())
	if n.started {
		n.note(audit.ServerStop, audit.Invoked)
	}
	return errors.Join(err, n.release())
}

// release closes what the node has opened, except for server and replica.
func (n *Node) release() error {
	n.leave()
	var errs []error
	if links := n.links.Load(); links != nil {
		errs = append(errs, links.Close())
	}
	if n.metrics != nil {
		errs = append(errs, n.metrics.Close())
	}
	if n.audit != nil {
		errs = append(errs, n.audit.Close())
	}
	if n.dir != nil {
		errs = append(errs, n.dir.Close())
	}
	if n.reserve != nil {
		n.reserve.Release()
	}
	for _, l := range n.ports() {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
