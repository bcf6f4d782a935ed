package recipe

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

// children are the names below base, after all that clients do by themselves.
func children(t *testing.T, c Client, base string) (names []string) {
	t.Helper()
	time.Sleep(2 * time.Second) // who lost its connection has it back
	synctest.Wait()
	err := retry(context.Background(), func() (err error) {
		names, _, err = c.Children(context.Background(), base)
		return err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

func TestCreateFindableSurvivesLostAnswers(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreate2, wire.OpSync, wire.OpGetChildren2, wire.OpExists} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			c := s.Client(t)
			if op != wire.OpCreate2 {
				c.Create(ctx, "/q", nil, zk.Persistent, nil)
			}
			s.LoseAnswer(wire.OpCreate2, 0)
			made := make(chan error)
			go func() {
				name, stat, err := createFindable(ctx, c, "/q", "x-guid-", "guid", nil, nil)
				if err == nil && (name != "x-guid-0000000000" || stat.EphemeralOwner != int64(c.SessionID())) {
					t.Errorf("made %s, %+v", name, stat)
				}
				made <- err
			}()
			if op != wire.OpCreate2 {
				synctest.Wait() // it is about to look
				s.LoseAnswer(op, 0)
			}
			if err := <-made; err != nil {
				t.Fatal(err)
			}
			if names := children(t, c, "/q"); len(names) != 1 || s.Lost() < 1 {
				t.Errorf("%v: %q exist after %d lost answers", op, names, s.Lost())
			}
		})
	}
}

// stuck is a client whose sync takes longer than any caller waits.
type stuck struct{ *client.Client }

func (s stuck) Sync(ctx context.Context, path string) error {
	if ctx.Done() == nil { // nobody waits
		return s.Client.Sync(ctx, path)
	}
	<-ctx.Done()
	return &client.Error{Op: "sync", Path: path, Err: ctx.Err()}
}

// A caller that is gone when the answer to its create comes leaves nothing.
func TestCreateFindableIsTakenBack(t *testing.T) {
	for name, stopped := range map[string]bool{"before it is sent": true, "after its answer was lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inproc.Start(t)
				c := s.Client(t)
				if _, _, err := c.Create2(context.Background(), "/q", nil, zk.Persistent, nil); err != nil { // the release is known then
					t.Fatal(err)
				}
				if stopped {
					s.Stop()
					synctest.Wait() // the client knows that its connection is lost, and keeps requests for the next
				}
				s.LoseAnswer(wire.OpCreate2, 0)
				ctx, cancel := context.WithCancel(context.Background())
				made := make(chan error)
				go func() {
					_, _, err := createFindable(ctx, stuck{c}, "/q", "guid-", "guid", nil, nil)
					made <- err
				}()
				synctest.Wait()
				cancel()
				if err := <-made; !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				if stopped {
					s.Start()
				}
				if names := children(t, c, "/q"); len(names) != 0 {
					t.Errorf("%q stay", names)
				}
				stat, _, err := c.Exists(context.Background(), "/q")
				if err != nil || stat.Cversion != 2 || s.Lost() != 1 {
					t.Errorf("not created and deleted: %+v, %v, %d answers lost", stat, err, s.Lost())
				}
			})
		})
	}
}

// renewed is a client whose session has been followed by another.
type renewed struct{ *client.Client }

func (r renewed) SessionID() zk.SessionID { return r.Client.SessionID() + 1 }

// What is found must be of the present session.
func TestCreateFindableOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		s.LoseAnswer(wire.OpCreate2, 1) // the first finds no base
		_, _, err := createFindable(context.Background(), renewed{c}, "/q", "guid-", "guid", nil, nil)
		if !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		if names := children(t, c, "/q"); len(names) != 0 {
			t.Errorf("%q stay", names)
		}
	})
}

// old is a client of servers before 3.5.
type old struct {
	*client.Client
	asked *int
}

func (o old) Create2(context.Context, string, []byte, zk.CreateMode, []zk.ACL) (string, zk.Stat, error) {
	*o.asked++
	return "", zk.Stat{}, &client.Error{Op: "create", Err: zk.ErrUnimplemented}
}

func TestCreateFindableOnAnOldServer(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreate, wire.OpExists} {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			c := old{s.Client(t), new(int)}
			skip := 0
			if op == wire.OpCreate {
				skip = 2 // one that finds no base, and the base
			}
			s.LoseAnswer(op, skip)
			name, stat, err := createFindable(context.Background(), c, "/q", "guid-", "guid", nil, nil)
			if err != nil || stat.Czxid == 0 || *c.asked != 1 || s.Lost() != 1 {
				t.Errorf("made %q, %+v, %v; create2 asked for %d times", name, stat, err, *c.asked)
			}
			if names := children(t, c, "/q"); len(names) != 1 || names[0] != name {
				t.Errorf("%q exist", names)
			}
		})
	}
}

// cutOff is a client whose operations of a kind lose their answers, when the
// context has just ended.
type cutOff struct {
	*client.Client
	server *inproc.Server
	op     wire.OpCode
	cancel context.CancelFunc
}

// lose has the next answer lost, if it is of the kind, and the context end.
func (c cutOff) lose(op wire.OpCode, f func(ctx context.Context)) {
	if op == c.op {
		c.server.LoseAnswer(op, 0)
	}
	f(context.Background())
	if op == c.op {
		c.cancel()
	}
}

func (c cutOff) Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (made string, stat zk.Stat, err error) {
	c.lose(wire.OpCreate2, func(ctx context.Context) { made, stat, err = c.Client.Create2(ctx, path, data, mode, acl) })
	return made, stat, err
}

func (c cutOff) GetW(ctx context.Context, path string) (data []byte, stat zk.Stat, w *client.Watch, err error) {
	c.lose(wire.OpGetData, func(ctx context.Context) { data, stat, w, err = c.Client.GetW(ctx, path) })
	return data, stat, w, err
}

func (c cutOff) ExistsW(ctx context.Context, path string) (stat zk.Stat, exists bool, w *client.Watch, err error) {
	c.lose(wire.OpExists, func(ctx context.Context) { stat, exists, w, err = c.Client.ExistsW(ctx, path) })
	return stat, exists, w, err
}

// When the context ends together with the connection, the error is the context's.
func TestContextAndConnectionEndTogether(t *testing.T) {
	for name, x := range map[string]struct {
		op wire.OpCode
		do func(ctx context.Context, c AsyncClient) error
	}{
		"simple lock": {wire.OpCreate2, func(ctx context.Context, c AsyncClient) error {
			_, err := NewSimpleLock(c, "/held").Lock(ctx)
			return err
		}},
		"ready": {wire.OpExists, func(ctx context.Context, c AsyncClient) error {
			_, err := NewReadyConfig(c, "/ready", ReadyOptions{}).Get(ctx)
			return err
		}},
		"lock": {wire.OpGetData, func(ctx context.Context, c AsyncClient) error {
			l := NewLock(c, "/lock")
			return l.queue.await(ctx, &claim{}, "there")
		}},
		"revoke": {wire.OpGetData, func(ctx context.Context, c AsyncClient) error {
			return NewRevocableLock(c, "/lock").awaitOrDelete(ctx, "/lock/there", time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := inproc.Start(t)
				c := s.Client(t)
				must(t, makePath(context.Background(), c, "/lock/there", nil))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				wantErr(t, x.do(ctx, cutOff{c, s, x.op, cancel}), context.Canceled)
				settle()
			})
		})
	}
}
