package node

import (
	"errors"
	"net"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/admin"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// openAdmin opens the port of the administration server, if it is enabled.
func (n *Node) openAdmin(authority *auth.Authority) (err error) {
	if !n.o.Config.Admin.Enabled {
		return nil
	}
	n.admin, err = admin.Listen(admin.Options{
		Config: n.o.Config, Server: n.server, Replica: n.replica, Dir: n.dir, Auth: authority, Links: n.linkStatus, ResetLink: n.resetLink,
		Metrics: n.exporter, Logger: n.log,
	})
	if err != nil {
		return errors.Join(err, n.replica.Close())
	}
	return nil
}

// linkStatus returns the status of a link to another server.
func (n *Node) linkStatus(id zab.LinkID) (transport.LinkStatus, bool) {
	if links := n.links.Load(); links != nil {
		return links.LinkStatus(id)
	}
	return transport.LinkStatus{}, false
}

// resetLink resets the counts of a link to another server.
func (n *Node) resetLink(id zab.LinkID) {
	if links := n.links.Load(); links != nil {
		links.ResetCounts(id)
	}
}

// serveAdmin answers requests to the administration server, if it is enabled, until the
// node is closed. The function that it returns waits for the end.
func (n *Node) serveAdmin() (wait func()) {
	if n.admin == nil {
		return func() {}
	}
	n.log.Info("administration server", "address", n.admin.Addr().String())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := n.admin.Serve(); err != nil {
			n.log.Error("the administration server has ended; clients are still served", "err", err)
		}
	})
	return wg.Wait
}

// AdminAddr returns the address of the administration server, nil if it is not enabled.
func (n *Node) AdminAddr() net.Addr {
	if n.admin == nil {
		return nil
	}
	return n.admin.Addr()
}
