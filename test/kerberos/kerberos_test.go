package kerberos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/zk"
)

var kinds = []string{"pinfold", "apache", "apache-3.9"}

// TestLogins: every client that there is logs in at every server.
func TestLogins(t *testing.T) {
	r := start(t, kinds)
	cache, err := r.Cache("krb5cc", r.keytab, bob)
	must(t, err)
	byCache, err := client.Kerberos(client.KerberosOptions{Cache: cache, Config: r.Config})
	must(t, err)
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			testACLs(t, r, kind, byCache)
			out := r.run([]string{"KRB5CCNAME=FILE:" + cache}, *pinfoldPath(), "cli", "--server", r.addrs[kind], "--waitforconnection", "--kerberos", "whoami")
			if !strings.Contains(out, "sasl: "+bob+"\n") {
				t.Errorf("pinfold cli: %s", out)
			}
		})
	}
	flags := "-Xmx200m -Djava.security.auth.login.config=" + r.file("jaas.conf") + " -Djava.security.krb5.conf=" + r.Config
	for _, release := range []string{"", "3.9"} {
		env := []string{"CLASS=org.apache.zookeeper.ZooKeeperMain", "RELEASE=" + release, "JVMFLAGS=" + flags}
		if out := r.run(env, apacheServer, "-server", r.addrs["pinfold"], "-timeout", "60000", "-waitforconnection", "whoami"); !strings.Contains(out, "sasl: "+admin) {
			t.Errorf("zkCli.sh of %q: %s", release, out)
		}
	}
	if *python != "" {
		if out := r.run([]string{"KRB5CCNAME=FILE:" + cache}, *python, "kazoo_login.py", r.addrs["pinfold"]); !strings.Contains(out, "'sasl', id='"+bob) {
			t.Errorf("kazoo: %s", out)
		}
	}
}

// pinfoldPath returns the binary as this directory sees it.
func pinfoldPath() *string {
	path := *pinfold
	if !strings.HasPrefix(path, "/") {
		path = root + "/" + path
	}
	return &path
}

// testACLs: a znode of one principal is closed to another, also after a new connection.
func testACLs(t *testing.T, r *rig, kind string, byCache client.Mechanism) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	one, two := r.dial(kind, r.mechanism(admin)), r.dial(kind, byCache)
	if got := fmt.Sprint(r.users(one), r.users(two)); got != fmt.Sprintf("[%s] [%s]", admin, bob) {
		t.Errorf("logged in as %s", got)
	}
	_, err := one.Create(ctx, "/own", []byte("x"), zk.Persistent, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "sasl", ID: admin}}})
	must(t, err)
	if _, _, err := two.Get(ctx, "/own"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("another principal reads: %v", err)
	}
	if _, _, err := one.Get(ctx, "/own"); err != nil {
		t.Errorf("the owner: %v", err)
	}
}

// TestNames: the users of principals are the same on servers of both kinds.
func TestNames(t *testing.T) {
	for name, properties := range map[string][]string{
		"without host and realm": {"-Dzookeeper.kerberos.removeHostFromPrincipal=true", "-Dzookeeper.kerberos.removeRealmFromPrincipal=true"},
		"rules": {
			"-Dzookeeper.kerberos.removeHostFromPrincipal=true",
			"-Dzookeeper.security.auth_to_local=RULE:[2:$1;$2](^.*;admin$)s/;admin$/-adm/RULE:[2:$1](zk.*)s/.*/zookeeper/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, kinds[:2], properties...)
			for _, principal := range []string{bob, admin, zk1} {
				ours, theirs := r.users(r.dial("pinfold", r.mechanism(principal))), r.users(r.dial("apache", r.mechanism(principal)))
				if !slices.Equal(ours, theirs) || len(ours) != 1 {
					t.Errorf("%s is %v, on Apache's %v", principal, ours, theirs)
				}
			}
		})
	}
}

// script is a mechanism that sends what a test says.
type script struct {
	login *kerberos.Login
	act   func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string
	got   string
}

// errPlayed ends the connection after the script.
var errPlayed = fmt.Errorf("the script is over: %w", zk.ErrAuthFailed)

// Authenticate plays the script and remembers what the server did. If that takes too long
// for the client, it is played again.
func (s *script) Authenticate(ctx context.Context, _ string, send func([]byte) ([]byte, error)) error {
	got := s.act(ctx, s, send)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.got = got
	return errPlayed
}

// play connects to the server of a kind and returns what the script has seen.
func (r *rig) play(kind string, login *kerberos.Login, act func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	s := &script{login: login, act: act}
	if c, err := client.Dial(ctx, r.addrs[kind], client.SASL(s), client.SessionTimeout(30*time.Second)); err == nil {
		c.Close()
	}
	return s.got
}

// scripted returns a login that has its ticket, so that a script need not wait for the KDC.
func (r *rig) scripted() *kerberos.Login {
	r.t.Helper()
	login, err := kerberos.NewLogin(kerberos.Credentials{Principal: bob, Keytab: r.keytab, Config: r.Config})
	must(r.t, err)
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	_, _, err = login.Begin(ctx, service, kerberos.InitiatorOptions{})
	must(r.t, err)
	return login
}

// begin begins a login.
func (s *script) begin(ctx context.Context, oneWay bool) (*kerberos.Initiation, []byte) {
	x, token, err := s.login.Begin(ctx, service, kerberos.InitiatorOptions{OneWay: oneWay})
	if err != nil {
		panic(err)
	}
	return x, token
}

// answer describes an answer of the server: the error code, and the token if it is not null.
func answer(token []byte, err error) string {
	var code zk.Code
	switch {
	case errors.As(err, &code):
		return code.Error()
	case err != nil:
		return "closed"
	case len(token) == 0:
		return "empty"
	}
	return "token"
}

// TestBadTokens: both kinds of servers answer the same to tokens that are cut, repeated or
// out of order.
func TestBadTokens(t *testing.T) {
	r := start(t, kinds)
	login := r.scripted()
	for name, act := range map[string]func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string{
		"garbage": func(_ context.Context, _ *script, send func([]byte) ([]byte, error)) string {
			return answer(send([]byte("garbage")))
		},
		"cut": func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			_, token := s.begin(ctx, true)
			return answer(send(token[:len(token)/2]))
		},
		"a bit changed": func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			_, token := s.begin(ctx, true)
			token[len(token)-5] ^= 1
			return answer(send(token))
		},
		"repeated": func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			_, token := s.begin(ctx, true)
			first := answer(send(token))
			return first + " " + answer(send(token))
		},
		"a choice with a bit changed": func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			x, token := s.begin(ctx, true)
			offer, err := send(token)
			choice, stepErr := x.Step(offer)
			if err != nil || stepErr != nil {
				return fmt.Sprint(err, stepErr)
			}
			choice[17] ^= 1
			return answer(send(choice))
		},
		"after the login": func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			x, token := s.begin(ctx, false)
			all := ""
			for !x.Done() {
				offer, err := send(token)
				all += answer(offer, err) + " "
				if token, err = x.Step(offer); err != nil {
					return all + err.Error()
				}
			}
			all += answer(send(token))
			return all + " " + answer(send(token))
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, kind := range kinds {
				got[kind] = r.play(kind, login, act)
			}
			if got["pinfold"] != got["apache"] || got["pinfold"] != got["apache-3.9"] || got["pinfold"] == "" {
				t.Errorf("answers %v", got)
			}
			t.Log(got["pinfold"])
		})
	}
}

// TestReplayedLogin: what was recorded of a login is refused, by a server that has seen it,
// and after a restart too; Apache's servers forget it then.
func TestReplayedLogin(t *testing.T) {
	r := start(t, kinds)
	login := r.scripted()
	for _, kind := range kinds {
		var recorded []byte
		record := func(ctx context.Context, s *script, send func([]byte) ([]byte, error)) string {
			_, recorded = s.begin(ctx, true)
			return answer(send(recorded))
		}
		replay := func(_ context.Context, _ *script, send func([]byte) ([]byte, error)) string {
			return answer(send(recorded))
		}
		got := r.play(kind, login, record) + ", " + r.play(kind, login, replay)
		r.restart(kind)
		got += ", " + r.play(kind, login, replay)
		want := "token, zookeeper: authentication failed, zookeeper: authentication failed"
		if kind != "pinfold" {
			want = "token, zookeeper: authentication failed, token"
		}
		if got != want {
			t.Errorf("%s: a login, again, after a restart: %s, want %s", kind, got, want)
		}
		r.dial(kind, r.mechanism(bob))
	}
}

// TestNewKeys: keys are changed at the KDC and in the server's file while it runs; the
// server accepts tickets with the old and with the new key, without a restart, until the old
// key is removed.
func TestNewKeys(t *testing.T) {
	r := start(t, kinds[:1])
	kept := &script{login: r.scripted()}
	old := r.mechanism(bob)
	r.dial("pinfold", old)
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.serverKeys+" "+service))
	r.dial("pinfold", old)
	r.dial("pinfold", r.mechanism(admin))
	must(t, r.Run("kadmin.local", "-q", "ktremove -k "+r.serverKeys+" "+service+" old"))
	r.dial("pinfold", r.mechanism(admin))
	_, token := kept.begin(t.Context(), true)
	r.refusal(t, token, "a ticket for key version 2 of "+service+", and "+r.serverKeys+" has only [3]", "see kinit")
}

// TestSlowKDC: a ticket that comes too late for one connection is there for the next, and
// is not asked for again.
func TestSlowKDC(t *testing.T) {
	r := start(t, kinds[:1])
	asked := func(hold bool) int {
		p := startProxy(t, r)
		if !hold {
			close(p.release)
		}
		login, err := kerberos.NewLogin(kerberos.Credentials{Principal: bob, Keytab: r.keytab, Config: p.config})
		must(t, err)
		if hold {
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-p.first
				cancel()
			}()
			if _, _, err := login.Begin(ctx, service, kerberos.InitiatorOptions{}); !errors.Is(err, context.Canceled) {
				t.Errorf("while the KDC is silent: %v", err)
			}
			close(p.release)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 2 {
			_, _, err := login.Begin(ctx, service, kerberos.InitiatorOptions{})
			must(t, err)
		}
		return int(p.count.Load())
	}
	if quick, slow := asked(false), asked(true); quick != slow || quick == 0 {
		t.Errorf("a silent KDC is asked %d times, a quick one %d times", slow, quick)
	}
}

// proxy is between a client and the KDC.
type proxy struct {
	config  string        // krb5.conf
	first   chan struct{} // closed when it is asked
	release chan struct{} // closed by the test: it passes on what it is asked
	count   atomic.Int32  // questions
}

func startProxy(t *testing.T, r *rig) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{config: r.file("proxy-" + path.Base(l.Addr().String()) + ".conf"), first: make(chan struct{}), release: make(chan struct{})}
	text, err := os.ReadFile(r.Config)
	must(t, err)
	kdcLine := regexp.MustCompile(`(?m)^  kdc = (\S+)`)
	real := string(kdcLine.FindSubmatch(text)[1])
	must(t, os.WriteFile(p.config, kdcLine.ReplaceAll(text, []byte("  kdc = "+l.Addr().String())), 0o600))
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			if p.count.Add(1) == 1 {
				close(p.first)
			}
			all.Go(func() { p.pass(in, real) })
		}
	})
	return p
}

// pass passes one question on, and its answer back.
func (p *proxy) pass(in net.Conn, real string) {
	defer in.Close()
	<-p.release
	out, err := net.Dial("tcp", real)
	if err != nil {
		return
	}
	defer out.Close()
	go io.Copy(out, in)
	io.Copy(in, out)
}
