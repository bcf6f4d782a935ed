package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// oneWay is a connection whose way to the server can be shut.
type oneWay struct {
	net.Conn
	shut *atomic.Bool
}

func (o oneWay) Write(p []byte) (int, error) {
	if o.shut.Load() {
		return len(p), nil
	}
	return o.Conn.Write(p)
}

// Heard follows pings and operations, and stays when nothing arrives any more, though
// events come.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		var shut atomic.Bool
		c := s.Client(t, client.SessionTimeout(6*time.Second), client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.Dial(ctx, network, addr)
			return oneWay{conn, &shut}, err
		}))
		began := time.Now()
		at := func(want time.Duration) {
			t.Helper()
			synctest.Wait()
			if got := c.Heard().Sub(began); got != want {
				t.Errorf("after %v it was heard after %v, not %v", time.Since(began), got, want)
			}
		}
		at(0)
		time.Sleep(3 * time.Second)
		at(2 * time.Second) // of a ping
		if _, err := c.Create(ctx, "/noise", nil, zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
		at(3 * time.Second)
		if _, err := c.AddWatch(ctx, "/noise", zk.AddWatchPersistent); err != nil {
			t.Fatal(err)
		}
		other := s.Client(t)
		shut.Store(true)
		for range 5 {
			time.Sleep(time.Second)
			if _, err := other.Set(ctx, "/noise", nil, -1); err != nil {
				t.Fatal(err)
			}
		}
		at(3 * time.Second)
		shut.Store(false)
		s.Cut()
		at(8 * time.Second)
	})
}
