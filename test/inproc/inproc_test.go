package inproc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		a, b := s.Client(t), s.Client(t)
		if _, err := a.Create(ctx, "/a", []byte("x"), zk.Ephemeral, nil); err != nil {
			t.Fatal(err)
		}
		s.Cut()
		synctest.Wait()
		if data, _, err := b.Get(ctx, "/a"); err != nil || string(data) != "x" {
			t.Errorf("after the cut: %q, %v", data, err)
		}
		s.Restart()
		synctest.Wait()
		if data, _, err := b.Get(ctx, "/a"); err != nil || string(data) != "x" {
			t.Errorf("after the restart: %q, %v", data, err)
		}
		s.Expire(a.SessionID())
		synctest.Wait()
		if _, exists, err := b.Exists(ctx, "/a"); exists || err != nil {
			t.Errorf("after the session's end the ephemeral exists: %v, %v", exists, err)
		}
		if _, _, err := a.Get(ctx, "/a"); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("the client whose session was ended: %v", err)
		}
	})
}

func TestLoseAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		s.LoseAnswer(wire.OpCreate, 1)
		if _, err := c.Create(ctx, "/first", nil, zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
		_, err := c.Create(ctx, "/second", nil, zk.Persistent, nil)
		var e *client.Error
		if !errors.As(err, &e) || !errors.Is(err, zk.ErrConnectionLoss) || !e.Maybe {
			t.Fatalf("a create whose answer was lost: %v", err)
		}
		if _, exists, err := c.Exists(ctx, "/second"); !exists || err != nil || s.Lost() != 1 {
			t.Errorf("it was carried out: %v, %v; %d answers lost", exists, err, s.Lost())
		}
		time.Sleep(time.Hour) // the session lives by pings alone
		if c.State() != client.Connected {
			t.Error("after an hour the client is", c.State())
		}
	})
}

// A client takes its session back at once; it is ended all the same.
func TestExpireAgainstReconnection(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			c := s.Client(t)
			s.Cut()
			s.Expire(c.SessionID())
			if _, _, err := c.Exists(context.Background(), "/"); !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zk.ErrConnectionLoss) {
				t.Errorf("after the session's end: %v", err)
			}
			synctest.Wait()
			if _, _, err := c.Exists(context.Background(), "/"); !errors.Is(err, zk.ErrSessionExpired) {
				t.Errorf("after the session's end: %v", err)
			}
		})
	}
}

// A connection that is accepted while the server stops is waited for, or turned
// away; the race detector tells.
func TestStopWhileClientsConnect(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			nc, err := s.Dial(context.Background(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			s.Stop()
		})
	}
}
