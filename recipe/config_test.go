package recipe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// seen collects what a Watch tells.
type seen struct {
	mu   sync.Mutex
	list []string
	end  chan error
}

func watchConfig(ctx context.Context, g *Config) *seen {
	w := &seen{end: make(chan error, 1)}
	go func() {
		w.end <- g.Watch(ctx, func(v Value) { w.add(string(v.Data)) })
	}()
	return w
}

func (w *seen) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, s)
}

func (w *seen) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.list) == 0 {
		return "nothing"
	}
	return w.list[len(w.list)-1]
}

// Whatever answer is lost, a watcher sees each value once, in order, and none
// comes back.
func TestConfigWithLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		g := NewConfig(s.Client(t), "/app/config", ConfigOptions{})
		w := watchConfig(ctx, NewConfig(s.Client(t), "/app/config", ConfigOptions{}))
		settle()
		for i, data := range []string{"1", "2", "3"} {
			stat, err := g.Set(ctx, []byte(data))
			if err != nil || int(stat.Version) != i {
				t.Errorf("set %s: version %d, %v", data, stat.Version, err)
			}
			settle()
		}
		v, err := g.Get(ctx)
		if err != nil || string(v.Data) != "3" || !v.Exists {
			t.Errorf("get: %q, %v", v.Data, err)
		}
		stat, err := g.Update(ctx, []byte("4"), v.Stat)
		if err != nil || stat.Version != 3 {
			t.Errorf("update: version %d, %v", stat.Version, err)
		}
		if _, err := g.Update(ctx, []byte("5"), v.Stat); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("an update of what has changed: %v", err)
		}
		settle()
		if want := []string{"", "1", "2", "3", "4"}; !slices.Equal(w.list, want) {
			t.Errorf("the watcher saw %q, not %q", w.list, want)
		}
	})
}

// Of a set whose answer was lost, and what others have done since.
func TestConfigSetAgainstAnother(t *testing.T) {
	tests := map[string]struct {
		others []string
		err    error
		want   string
	}{
		"nobody":               {nil, nil, "mine"},
		"another has set it":   {[]string{"theirs"}, zk.ErrConnectionLoss, "theirs"},
		"another set the same": {[]string{"mine"}, zk.ErrConnectionLoss, "mine"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				s := inproc.Start(t)
				a, b := s.Client(t), s.Client(t)
				_, err := a.Create(ctx, "/config", nil, zk.Persistent, nil)
				must(t, err)
				s.LoseAnswer(wire.OpSetData, 0)
				meddler := &between{AsyncClient: a, before: func() {
					for _, o := range test.others {
						_, err := b.Set(ctx, "/config", []byte(o), -1)
						must(t, err)
					}
				}}
				_, err = NewConfig(meddler, "/config", ConfigOptions{}).Set(ctx, []byte("mine"))
				if !errors.Is(err, test.err) {
					t.Errorf("set: %v", err)
				}
				if v, err := NewConfig(b, "/config", ConfigOptions{}).Get(ctx); err != nil || string(v.Data) != test.want {
					t.Errorf("the configuration is %q, %v", v.Data, err)
				}
			})
		})
	}
}

// between is a Client during whose first sync something else happens.
type between struct {
	AsyncClient
	before func()
	once   sync.Once
}

func (b *between) Sync(ctx context.Context, path string) error {
	b.once.Do(b.before)
	return b.AsyncClient.Sync(ctx, path)
}

// Watchers live through a restart, and end with their session or context.
func TestConfigWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		a, b, c := s.Client(t), s.Client(t), s.Client(t)
		wa, wb := watchConfig(ctx, NewConfig(a, "/config", ConfigOptions{})), watchConfig(ctx, NewConfig(b, "/config", ConfigOptions{}))
		g := NewConfig(c, "/config", ConfigOptions{})
		_, err := g.Set(ctx, []byte("1"))
		must(t, err)
		settle()
		s.Restart()
		_, err = g.Set(ctx, []byte("2"))
		must(t, err)
		settle()
		if wa.last() != "2" || wb.last() != "2" {
			t.Errorf("after the restart the watchers have %q and %q", wa.last(), wb.last())
		}
		must(t, c.Delete(ctx, "/config", -1))
		settle()
		if wa.last() != "" {
			t.Errorf("after the deletion: %q", wa.last())
		}
		s.Expire(a.SessionID())
		wantErr(t, <-wa.end, zk.ErrSessionExpired)
		cancel()
		wantErr(t, <-wb.end, context.Canceled)
	})
}

// unsent is a Client whose first write never leaves it, as the connection breaks;
// others write meanwhile.
type unsent struct {
	AsyncClient
	before func()
	once   sync.Once
}

func (u *unsent) fails() (err error) {
	u.once.Do(func() {
		u.before()
		err = &client.Error{Op: "write", Err: zk.ErrConnectionLoss}
	})
	return err
}

func (u *unsent) Set(ctx context.Context, path string, data []byte, version int32) (zk.Stat, error) {
	if err := u.fails(); err != nil {
		return zk.Stat{}, err
	}
	return u.AsyncClient.Set(ctx, path, data, version)
}

func (u *unsent) Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, zk.Stat, error) {
	if err := u.fails(); err != nil {
		return "", zk.Stat{}, err
	}
	return u.AsyncClient.Create2(ctx, path, data, mode, acl)
}

// What has never been sent was not carried out, whatever others have done since.
func TestWritesThatWereNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		a, b := s.Client(t), s.Client(t)
		others := NewConfig(b, "/config", ConfigOptions{})
		set := func(data string) {
			_, err := others.Set(ctx, []byte(data))
			must(t, err)
		}
		set("0")
		v, err := others.Get(ctx)
		must(t, err)
		u := &unsent{AsyncClient: a, before: func() { set("1"); set("2") }}
		_, err = NewConfig(u, "/config", ConfigOptions{}).Set(ctx, []byte("mine"))
		must(t, err)
		u = &unsent{AsyncClient: a, before: func() { set("3"); set("4") }}
		_, err = NewConfig(u, "/config", ConfigOptions{}).Update(ctx, []byte("mine, too"), v.Stat)
		wantErr(t, err, zk.ErrBadVersion)

		u = &unsent{AsyncClient: a, before: func() { must(t, NewNames(b, "/names", NamesOptions{}).Bind(ctx, "x", []byte("same"))) }}
		wantErr(t, NewNames(u, "/names", NamesOptions{}).Bind(ctx, "x", []byte("same")), zk.ErrNodeExists)
	})
}
