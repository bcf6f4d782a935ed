package cluster

import (
	"context"

	"github.com/pinfold-zk/pinfold/client"
)

// InTurn has a Client try members in their order, beginning with that at the index
// first.
func InTurn(addrs []string, first int) client.HostProvider { return &inTurn{addrs, first} }

type inTurn struct {
	addrs []string
	next  int
}

// Next implements client.HostProvider.
func (h *inTurn) Next(context.Context) (client.Host, error) {
	addr := h.addrs[h.next%len(h.addrs)]
	h.next++
	return client.Host{Addr: addr}, nil
}

// Len implements client.HostProvider.
func (h *inTurn) Len() int { return len(h.addrs) }
