package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// at is a reading between two zxids of a znode that was changed last at mzxid.
func at(mzxid, low, high zk.Zxid) *znode {
	return &znode{stat: zk.Stat{Czxid: 1, Mzxid: mzxid}, low: low, high: high}
}

func absent(low, high zk.Zxid) *znode { return &znode{code: zk.ErrNoNode, low: low, high: high} }

func TestContradict(t *testing.T) {
	late := at(25, 20, 20)
	late.stat.Czxid = 25
	torn := at(7, 20, 20)
	torn.torn = true
	for _, tt := range []struct {
		name                  string
		before, middle, after *znode
		want                  bool
	}{
		{"the same", at(5, 10, 10), at(5, 20, 20), at(5, 30, 30), false},
		{"the second lacks a change", at(7, 10, 10), at(5, 20, 20), at(7, 30, 30), true},
		{"the second has a change of its own", at(5, 10, 10), at(7, 20, 20), at(5, 30, 30), true},
		{"the first changed meanwhile", at(5, 10, 10), at(5, 20, 20), at(25, 30, 30), false},
		{"the second may be behind", at(7, 10, 12), at(5, 11, 20), at(7, 30, 30), false},
		{"the first may be behind", at(5, 10, 10), at(7, 20, 22), at(5, 21, 30), false},
		{"torn", at(5, 10, 10), torn, at(5, 30, 30), false},
		{"absent at the second", at(5, 10, 10), absent(20, 20), at(5, 30, 30), true},
		{"absent at the first", absent(10, 10), at(5, 20, 20), absent(30, 30), true},
		{"absent at the first, and made and deleted meanwhile", absent(10, 10), late, absent(30, 30), false},
	} {
		if got := contradict(tt.before, tt.middle, tt.after); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A state that both have shown, at whatever time, is a common one.
func TestSame(t *testing.T) {
	var s sightings
	for i, r := range [][3]*znode{{at(1, 1, 1), at(2, 2, 2), at(3, 3, 3)}, {at(4, 4, 4), at(3, 5, 5), at(5, 6, 6)}} {
		if got := s.same(r[0], r[1], r[2]); got != (i == 1) {
			t.Errorf("round %d: %v", i, got)
		}
	}
}

// servers are standalone servers that pretend to be members, by their addresses.
type servers struct {
	fake
	byAddr map[string]*inproc.Server
}

func (s *servers) Dial(ctx context.Context, _ string, opts ...client.Option) (*client.Client, error) {
	return client.Dial(ctx, "", append(opts, client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.byAddr[addr].Dial(ctx, network, addr)
	}))...)
}

func (s *servers) Status(context.Context, Member) (fourletter.Status, error) {
	return fourletter.Status{Mode: "follower"}, nil
}

// two pretends that two servers are the members of an ensemble of two.
func two(t *testing.T, first, second *inproc.Server) (Ensemble, *Config) {
	t.Helper()
	return &servers{byAddr: map[string]*inproc.Server{"127.0.0.1:1": first, "127.0.0.2:1": second}},
		configOf(t, "clientPort=1\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.2:1:2\n")
}

func verify(t *testing.T, first, second *inproc.Server) (*Report, error) {
	t.Helper()
	e, c := two(t, first, second)
	return Verify(t.Context(), e, c, func(int64) int { return 0 }, func(string) {})
}

// A server does not differ from itself while a client writes.
func TestVerifyEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		w := s.Client(t)
		for i := range 2 * batch {
			if _, err := w.Create(t.Context(), fmt.Sprintf("/n%d", i), []byte("data"), zk.Persistent, anyone); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			for i := 0; i < 2000 && ctx.Err() == nil; i++ { // bounded: on one processor it could go on for long
				_, _ = w.Set(ctx, fmt.Sprintf("/n%d", i%batch), []byte("new"), -1) // the end of ctx is the end
			}
		}()
		r, err := verify(t, s, s)
		if err != nil || r.Znodes < 2*batch || len(r.Differ) > 0 {
			t.Errorf("%v, %+v", err, r)
		}
	})
}

// Each kind of difference is found, and nothing else.
func TestVerifyDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var both [2]*inproc.Server
		for i := range both {
			both[i] = inproc.Start(t)
			w := both[i].Client(t)
			for _, p := range []string{"/same", "/data", "/acl", "/" + []string{"first", "second"}[i]} {
				data, acl := "data", anyone
				if p == "/data" {
					data = fmt.Sprint(i)
				}
				if p == "/acl" && i == 1 {
					acl = []zk.ACL{{Perms: zk.PermRead, ID: anyone[0].ID}}
				}
				if _, err := w.Create(t.Context(), p, []byte(data), zk.Persistent, acl); err != nil {
					t.Fatal(err)
				}
			}
		}
		r, err := verify(t, both[0], both[1])
		if !errors.Is(err, ErrDiffer) {
			t.Fatal(err)
		}
		var got []string
		for _, d := range r.Differ {
			got = append(got, d.Path+" "+d.What)
		}
		slices.Sort(got)
		want := []string{
			"/ children: 5 and 5", "/acl acl [world:anyone:cdrwa] and [world:anyone:r]", "/data data of 1 and 1 bytes",
			"/first only the first has it", "/second only the second has it",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// The canaries write and are notified, and lose nothing when their connections are cut.
func TestCanaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		e, c := two(t, s, s)
		f, err := hatch(t.Context(), e, c, 2, "/")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(time.Second)
			s.Cut()
		}
		f.close()
		if all := f.total(); all.Lost != 0 || all.Sessions != 0 || all.Writes < 1000 || all.Events < 500 || all.GapMS > 500 {
			t.Errorf("%v", all)
		}
	})
}

// A canary whose session is lost says so, and goes on with another.
func TestCanaryLosesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		e, c := two(t, s, s)
		f, err := hatch(t.Context(), e, c, 2, "/")
		if err != nil {
			t.Fatal(err)
		}
		s.Expire(f.canaries[0].client().SessionID())
		time.Sleep(time.Second)
		first := f.felt()
		time.Sleep(time.Second)
		later := f.felt()
		f.close()
		if first.Sessions != 1 || later.Sessions != 0 || later.Writes < 100 {
			t.Errorf("%v, then %v", first, later)
		}
	})
}
