package peerauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of Names.
const (
	lookupTime = 5 * time.Second // for the canonical names of all members together
	maxNames   = 1024            // that are remembered
)

// Names finds the canonical names of hosts (kerberos.canonicalizeHostNames): by Resolve the
// addresses of a host, and by Reverse the names of an address, both as package net's Resolver has them.
// The canonical name is, as Java's, the name that Reverse gives for the host's first address, if that name has the
// address. A host whose address has no such name is its own canonical name.
//
// While DNS gives no answer, the name that it gave last counts. Names is safe for concurrent
// use. A nil Names takes every host for canonical.
type Names struct {
	Resolve func(ctx context.Context, host string) (addresses []string, err error)
	Reverse func(ctx context.Context, address string) (names []string, err error)

	mu struct {
		sync.Mutex
		known map[string]string // canonical names by host, at most maxNames
	}
}

// canonical returns the canonical name of a host.
func (n *Names) canonical(ctx context.Context, host string) (string, error) {
	if n == nil {
		return host, nil
	}
	name, err := n.lookUp(ctx, host)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		if last, ok := n.mu.known[host]; ok {
			return last, nil
		}
		return "", fmt.Errorf("the canonical name of %s: %w", host, err)
	}
	if n.mu.known == nil || len(n.mu.known) >= maxNames {
		n.mu.known = map[string]string{}
	}
	n.mu.known[host] = name
	return name, nil
}

// lookUp asks DNS for the canonical name of a host.
func (n *Names) lookUp(ctx context.Context, host string) (string, error) {
	addresses, err := n.Resolve(ctx, host)
	if err != nil {
		return "", err
	}
	// Java prefers IPv4.
	i := max(0, slices.IndexFunc(addresses, func(a string) bool { return !strings.Contains(a, ":") }))
	if i >= len(addresses) {
		return "", errors.New("it has no address")
	}
	names, err := n.Reverse(ctx, addresses[i])
	if err != nil || len(names) == 0 {
		return host, unlessNotFound(err)
	}
	name := strings.TrimSuffix(names[0], ".")
	confirmed, err := n.Resolve(ctx, name)
	if err != nil || !slices.Contains(confirmed, addresses[i]) {
		return host, unlessNotFound(err)
	}
	return name, nil
}

// unlessNotFound returns the error of a question to DNS that has no answer; nil if the answer is that
// there is no such name.
func unlessNotFound(err error) error {
	if none := new(net.DNSError); errors.As(err, &none) && none.IsNotFound {
		return nil
	}
	return err
}

// errNoMember is wrapped by the error about a host that is not that of a server of the ensemble.
var errNoMember = errors.New("names a host that no server line has")

// check returns nil if the claimed host is the canonical name of one of the hosts.
func (n *Names) check(hosts []string, claimed string) error {
	if n == nil {
		if slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, claimed) }) {
			return nil
		}
		return errNoMember
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	var lookups sync.WaitGroup
	defer lookups.Wait()
	defer cancel() // of those that no longer matter
	found := make(chan error, len(hosts))
	for _, h := range hosts {
		lookups.Go(func() {
			name, err := n.canonical(ctx, h)
			if err == nil && !strings.EqualFold(name, claimed) {
				err = fmt.Errorf("the canonical name of %s is %s", h, name)
			}
			found <- err
		})
	}
	var reasons []string
	for range hosts {
		err := <-found
		if err == nil {
			return nil
		}
		reasons = append(reasons, err.Error())
	}
	return fmt.Errorf("%w (%s)", errNoMember, strings.Join(reasons, "; "))
}
