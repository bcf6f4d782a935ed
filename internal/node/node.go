// Package node is one server: it assembles the parts of a ZooKeeper server from a
// configuration and runs them until its context ends. Nothing in it is of the
// process: a process may run as many nodes as it likes, and the failure of one is
// an error that its Run returns. What a process has only once, the memory of the
// Go runtime, is tuned by a Memory, which the caller makes and which nodes share.
//
//	node.go     a node: Open, Join, Run, Close
//	login.go    the users of SASL, from the login file
//	memory.go   Memory: how much garbage the runtime lets gather
//	trim.go     when memory is given back to the system
//
// Package options, below it, translates the configuration for each part.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Options is a configuration, and what a node takes from its process. Only Config
// is needed.
type Options struct {
	// Config is read until the node has ended; nobody may change it.
	Config *config.Config
	Logger *slog.Logger // nil: nothing is logged
	FS     vfs.FS       // nil: the operating system's
	// Listener takes the clients' connections instead of Config.Client's address.
	// It is the node's from the call of Open on, which closes it if it fails.
	Listener net.Listener
	// Listen opens the ports for the other servers; nil is the operating system's.
	Listen func(address string) (net.Listener, error)
	Memory *Memory // nil: the memory of the process is left alone
}

// Node is one server. Open makes it; then it is run once, or closed.
type Node struct {
	o        Options
	log      *slog.Logger
	listener net.Listener
	dir      *storage.Dir
	server   *server.Server
	replica  *replica.Replica
	report   replica.Report
	links    *transport.Transport // nil: standalone, or not running
	leave    func()               // ends the node's use of Options.Memory
	reserve  *vfs.Reserve         // nil: the caller chose the file system
}

// reservedFiles is how many file descriptors are kept for the disk: for a log file
// and a snapshot that begin while connections have all others, and the directories
// that are synced for them.
const reservedFiles = 8

// Open opens the port for clients and the data directory, and recovers the state.
// Clients may connect from now on, and are answered when Run is called. If it
// fails, nothing is left open.
func Open(o Options) (*Node, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	n := &Node{o: o, log: o.Logger, listener: o.Listener, leave: func() {}}
	if o.FS == nil {
		n.reserve = vfs.NewReserve(vfs.OS{}, reservedFiles)
		n.o.FS = n.reserve
	}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func (n *Node) open() error {
	cfg := n.o.Config
	authority, err := auth.New(options.Auth(cfg))
	if err != nil {
		return err
	}
	users, err := logins(cfg, n.log)
	if err != nil {
		return err
	}
	if n.listener == nil {
		if n.listener, err = net.Listen("tcp", cfg.Client.Addr()); err != nil {
			return fmt.Errorf("server: client port: %w", err)
		}
	}
	if n.dir, err = storage.Open(n.o.FS, options.Storage(cfg)); err != nil {
		return err
	}
	o, err := options.Replica(cfg)
	if err != nil {
		return err
	}
	n.server = server.New(server.Options{Config: cfg, Auth: authority, SASL: users, Logger: n.log})
	o.Dir, o.Auth, o.Clients, o.Logger = n.dir, authority, n.server, n.log
	if n.replica, n.report, err = replica.Start(o, time.Now().UnixMilli()); err != nil {
		return err
	}
	n.leave = n.o.Memory.join(n.replica.ReleaseSpare)
	n.server.Attach(n.replica)
	return nil
}

// Addr is the address of the port for clients.
func (n *Node) Addr() net.Addr { return n.listener.Addr() }

// Report says what Open has recovered.
func (n *Node) Report() *replica.Report { return &n.report }

// Replica is the node's replica. It is the node's: the caller must not close it.
func (n *Node) Replica() *replica.Replica { return n.replica }

// Run serves clients, and takes part in the ensemble if there is one, until ctx
// ends or the node fails; then it closes the node. The error says why the node has
// failed, or what could not be closed; it is nil if ctx has ended and the node was
// closed in order. What was acknowledged to a client is on the disk in any case.
func (n *Node) Run(ctx context.Context) (err error) {
	if err := n.Join(ctx); err != nil {
		return errors.Join(err, n.Close())
	}
	served := make(chan error, 1)
	go func() { served <- n.server.Serve(n.listener) }()
	select {
	case <-ctx.Done():
		n.log.Info("stopping")
	case <-n.replica.Failed():
		n.log.Error("the server must stop: what was acknowledged is safe, the rest is not promised", "err", n.replica.Failure())
	case err = <-served:
		return errors.Join(err, n.Close())
	}
	err = n.Close()
	return errors.Join(<-served, err)
}

// Join opens the ports for the other servers of the ensemble, and takes part in its
// elections from then on. A standalone server has nothing to join. If ctx ends
// before the ports are open, Join returns nil: the Run that follows ends at once.
// Run calls Join unless it was called.
func (n *Node) Join(ctx context.Context) error {
	cfg := n.o.Config
	if !cfg.Quorum.Distributed() || n.links != nil {
		return nil
	}
	o := options.Transport(cfg)
	o.Handler, o.Logger, o.Listen = n.replica, n.log, n.o.Listen
	t, err := transport.New(o)
	if err != nil {
		return err
	}
	// To close it twice does nothing.
	stop := context.AfterFunc(ctx, func() { _ = t.Close() })
	defer stop()
	if err := t.Start(); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	n.links = t
	n.replica.Join(network{t})
	return nil
}

// network is the transport as a replica wants it.
type network struct{ *transport.Transport }

// AppendPacket appends the bytes of a packet.
func (network) AppendPacket(b []byte, p zab.Packet) []byte { return transport.AppendPacket(b, p) }

// Close ends a node that does not run: nothing of it is left. Sessions live on,
// and their clients come back when the server is started again. The error is the
// failure of the node, or what could not be closed. Run calls it.
func (n *Node) Close() error {
	n.server.Stop()
	return errors.Join(n.replica.Close(), n.release())
}

// release closes what the node has opened, except for server and replica.
func (n *Node) release() error {
	n.leave()
	var errs []error
	if n.links != nil {
		errs = append(errs, n.links.Close())
	}
	if n.dir != nil {
		errs = append(errs, n.dir.Close())
	}
	if n.reserve != nil {
		n.reserve.Release()
	}
	if n.listener != nil {
		if err := n.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
