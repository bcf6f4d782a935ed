package client

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// lateReader is a connection whose first read has its bytes, and returns too late.
type lateReader struct {
	net.Conn
	late time.Duration
}

func (c *lateReader) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	<-time.After(c.late)
	c.late = 0
	return n, err
}

// A handshake that is answered when the Client has given the member up makes no
// connection: nobody is told of one, and the next begins anew.
func TestAnsweredTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		dials := 0
		c, p := e.client("a,b", Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := e.dial(ctx, network, addr)
			if dials++; dials == 2 {
				return &lateReader{conn, 2 * time.Second}, err // for a sixth of nine seconds a member is waited for
			}
			return conn, err
		}))
		w := p.addWatch(c, "/a", zk.AddWatchPersistent, zk.AddWatchPersistent)
		var j journal
		defer j.states(c)()
		p.cut()
		e.accept().greet(9 * time.Second)
		late := e.accept()
		j.want(t, "connected", "suspended")
		if s := c.Server(); s != "" {
			t.Errorf("while no member answers in time, the server is %s", s)
		}
		late.greet(9 * time.Second)
		late.expect(wire.OpSetWatches2)
		late.silent()
		j.want(t, "connected")
		if n := len(w.Events()); n != 1 {
			t.Errorf("%d events say: read again", n)
		}
	})
}

// A session that was given too late, and is over when it is asked for, was nobody's.
func TestUnknownSessionIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		dials := 0
		c, p := e.client("a,b", NewSession(), Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := e.dial(ctx, network, addr)
			if dials++; dials == 3 {
				return &lateReader{conn, time.Minute}, err
			}
			return conn, err
		}))
		var j journal
		defer j.states(c)()
		p.cut()
		e.accept().refuse()
		late := e.accept()
		done := after(func() error { return c.Sync(t.Context(), "/") })
		late.asked()
		late.welcome(8, 9*time.Second, false)
		e.accept().refuse()
		p = e.accept()
		if ask := p.asked(); ask.SessionID != 0 {
			t.Errorf("session %v is asked for", ask.SessionID)
		}
		p.welcome(9, 9*time.Second, false)
		p.reply(p.expect(wire.OpSync).xid, 1, zk.OK, text("/"))
		check(t, "what was begun meanwhile", <-done, nil, false)
		j.want(t, "connected", "suspended", "expired", "connecting", "connected")
	})
}
