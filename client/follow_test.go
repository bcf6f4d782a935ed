package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// A standalone server has no members; a Client that follows them serves as any other,
// through restarts and new sessions, and ends when it is closed.
func TestFollowStandaloneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t, client.FollowMembers(client.Member.ClientAddr), client.NewSession())
		if m, err := c.Members(ctx); err != nil || len(m.Members) != 0 {
			t.Errorf("members %+v, %v", m, err)
		}
		s.Restart()
		s.Expire(c.SessionID())
		for {
			_, err := c.Create(ctx, "/a", nil, zk.Persistent, nil)
			if err == nil {
				break
			}
			time.Sleep(time.Second)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
