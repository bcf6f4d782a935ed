package transport

import (
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/peerauth"
	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// logInFrom logs in at a port of server 1 from a host, and returns how long the port took.
func logInFrom(t *testing.T, m *memNet, from, password string, election bool) (time.Duration, error) {
	t.Helper()
	address := quorumAddr(1)
	if election {
		address = electionAddr(1)
	}
	nc, err := m.dialFrom(t.Context(), from, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	began := time.Now()
	if election {
		hello := append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<64-65536), 2), "\x00\x00\x00\x0d10.0.0.2:3888"...)
		if _, err := nc.Write(hello); err != nil {
			t.Fatal(err)
		}
	}
	a := peerauth.New(peerauth.Options{LearnerRequired: true, Learner: peerauth.DigestLearner(bob(password))})
	err = a.Prove(t.Context(), nc, nc, "10.0.0.1")
	took := time.Since(began)
	if !election && err == nil {
		if _, err := nc.Write(encode([]zab.Packet{followerInfo(2)})); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	return took, err
}

// An address that guesses passwords of servers waits longer and longer, on both ports together; other
// addresses do not. All failures are counted. A right password ends the wait.
func TestFailedPeerLoginsAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		one := m.start(t, 1, 2, logins("secret", true, true))
		const first = ratelimit.FirstPenalty
		for i, want := range []time.Duration{0, 0, 0, first, 2 * first, 4 * first, 8 * first, 16 * first, one.Options().HandshakeTimeout / 4} {
			if took, err := logInFrom(t, m, "10.9.9.9", "guess", i%2 == 0); !errors.Is(err, peerauth.ErrRefused) || took != want {
				t.Errorf("attempt %d took %v, want %v: %v", i, took, want, err)
			}
			if took, err := logInFrom(t, m, "10.0.0.2", "secret", i%2 == 0); err != nil || took != 0 {
				t.Errorf("a member's login beside attempt %d took %v: %v", i, took, err)
			}
		}
		if n := one.FailedLogins(); n != 9 {
			t.Errorf("%d failed logins are counted", n)
		}
		for _, want := range []time.Duration{one.Options().HandshakeTimeout / 4, 0} {
			if took, err := logInFrom(t, m, "10.9.9.9", "secret", false); err != nil || took != want {
				t.Errorf("a right password took %v, want %v: %v", took, want, err)
			}
		}
	})
}

// Connections that wait make way for others from their address, at once; those of other
// addresses are served meanwhile. Close does not wait for them.
func TestPenaltiesHoldNoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		one := m.start(t, 1, 2, logins("secret", true, true))
		for range ratelimit.FreeFailures + 5 {
			if _, err := logInFrom(t, m, "10.9.9.9", "guess", false); err == nil {
				t.Fatal("a wrong password was accepted")
			}
		}
		var flood []net.Conn
		for range 3 * maxSilent {
			flood = append(flood, m.connect(t, quorumAddr(1)), m.connect(t, electionAddr(1)))
			synctest.Wait()
		}
		one.mu.RLock()
		greetings, links := len(one.mu.greetings), len(one.mu.links)
		one.mu.RUnlock()
		if greetings > maxGreetings || links > maxSilent {
			t.Errorf("%d greetings and %d links", greetings, links)
		}
		for _, nc := range flood[:2*maxSilent] {
			if _, err := nc.Write([]byte{0}); err == nil {
				t.Error("a connection that waited has not made way")
			}
		}
		for _, election := range []bool{false, true} {
			if took, err := logInFrom(t, m, "10.0.0.2", "secret", election); err != nil || took != 0 {
				t.Errorf("a member's login took %v: %v", took, err)
			}
		}
		began := time.Now()
		if err := one.Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("Close took %v: %v", time.Since(began), err)
		}
	})
}

// A connection that ends in silence, as that of a probe, is no failed login.
func TestProbesAreNoLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemNet()
		one := m.start(t, 1, 2, logins("secret", true, true))
		for range 2 * ratelimit.FreeFailures {
			m.connect(t, quorumAddr(1)).Close()
			m.connect(t, electionAddr(1)).Close()
		}
		silent := []net.Conn{m.connect(t, quorumAddr(1)), m.connect(t, electionAddr(1))}
		time.Sleep(2 * one.Options().HandshakeTimeout)
		synctest.Wait()
		for _, nc := range silent {
			if _, err := nc.Write([]byte{0}); err == nil {
				t.Error("a silent connection was not closed")
			}
		}
		if n := one.FailedLogins(); n != 0 {
			t.Errorf("%d failed logins are counted", n)
		}
	})
}
