package admin

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// with starts a standalone server with more settings than the usual ones.
func with(t *testing.T, more map[string]string) *pinfold.Server {
	t.Helper()
	all := maps.Clone(settings)
	maps.Copy(all, more)
	s, err := pinfold.New(pinfold.Config{DataDir: t.TempDir(), Settings: all})
	must(t, err)
	start(t, s)
	return s
}

func connect(t *testing.T, s *pinfold.Server, options ...client.Option) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, s.Addr(), options...)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// check asks a question, and compares status and a part of the body.
func check(t *testing.T, address string, q question, status int, part string) answer {
	t.Helper()
	a := ask(t, address, q)
	if a.Status != status || !strings.Contains(a.Body, part) {
		t.Errorf("%s with %q: %d, %s", q.get, q.auth, a.Status, a.Body)
	}
	return a
}

// The answer to snapshot is the file, from which a server starts with the same znodes.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	s := with(t, map[string]string{"admin.rateLimiterIntervalInMS": "0"})
	_, err := connect(t, s).Create(t.Context(), "/kept", []byte("data"), zk.Persistent, nil)
	must(t, err)
	a := check(t, s.AdminAddr(), question{get: "/commands/snapshot", auth: "digest a:b"}, http.StatusOK, "ZKSN")
	if a.Type != "application/octet-stream" || !strings.HasPrefix(a.Zxid, "0x") {
		t.Errorf("headers %+v", a)
	}
	check(t, s.AdminAddr(), question{get: "/commands/snapshot", auth: "ip"}, http.StatusOK, "ZKSN") // without a limit

	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "version-2"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "version-2", "snapshot."+strings.TrimPrefix(a.Zxid, "0x")), []byte(a.Body), 0o644))
	again, err := pinfold.New(pinfold.Config{DataDir: dir, Settings: map[string]string{"snapshot.trust.empty": "true"}})
	must(t, err)
	start(t, again)
	if data, _, err := connect(t, again).Get(t.Context(), "/kept"); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
}

// What is turned off is refused with Apache's status, and after the authorization.
func TestTurnedOff(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"admin.snapshot.enabled", "admin.restore.enabled", "serializeLastProcessedZxid.enabled"} {
		s := with(t, map[string]string{setting: "false"})
		status, restore := http.StatusInternalServerError, http.StatusInternalServerError // a body that is no snapshot
		switch setting {
		case "admin.snapshot.enabled":
			status = http.StatusServiceUnavailable
		case "admin.restore.enabled":
			status, restore = http.StatusOK, http.StatusServiceUnavailable
		}
		part := `"error" : null`
		if status == http.StatusOK {
			part = "ZKSN"
		}
		check(t, s.AdminAddr(), question{get: "/commands/snapshot", auth: "ip"}, status, part)
		check(t, s.AdminAddr(), question{get: "/commands/snapshot"}, http.StatusUnauthorized, "Auth info is missing")
		check(t, s.AdminAddr(), question{get: "POST /commands/restore", auth: "ip"}, restore, `"error" : null`)
		check(t, s.AdminAddr(), question{get: "/commands/restore", auth: "ip"}, http.StatusMethodNotAllowed, "does not accept the method GET")
		check(t, s.AdminAddr(), question{get: "POST /commands/ruok"}, http.StatusMethodNotAllowed, "does not accept the method POST")
		check(t, s.AdminAddr(), question{get: "/debug/pprof/"}, http.StatusNotFound, "")
		check(t, s.AdminAddr(), question{get: "POST /healthz"}, http.StatusMethodNotAllowed, "")
	}
}

// A caller needs every permission on the root, each for itself.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := with(t, map[string]string{
		"admin.rateLimiterIntervalInMS": "0", "IPAuthenticationProvider.usexforwardedfor": "true",
		"DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU=", // of the password test
	})
	c := connect(t, s)
	must(t, c.AddAuth(t.Context(), "digest", []byte("all:pw")))
	must(t, c.AddAuth(t.Context(), "digest", []byte("most:pw")))
	acl := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: digest("all:pw")}},
		{Perms: zk.PermAll &^ zk.PermDelete, ID: zk.ID{Scheme: "digest", ID: digest("most:pw")}},
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: "192.0.2.7"}},
	}
	_, err := c.SetACL(t.Context(), "/", acl, -1)
	must(t, err)
	for auth, status := range map[string]int{
		"digest all:pw": http.StatusOK, "digest super:test": http.StatusOK,
		"digest most:pw": http.StatusForbidden, "digest all:wrong": http.StatusForbidden, "ip": http.StatusForbidden,
		"digest all:pw more": http.StatusUnauthorized, "x509": http.StatusUnauthorized,
	} {
		check(t, s.AdminAddr(), question{get: "/commands/snapshot?streaming=false", auth: auth}, status, `"snapshot"`)
	}
	for from, status := range map[string]int{"192.0.2.7, 192.0.2.8": http.StatusOK, " 192.0.2.7 ": http.StatusOK, "192.0.2.8, 192.0.2.7": http.StatusForbidden, "nonsense": http.StatusUnauthorized} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.AdminAddr()+"/commands/snapshot?streaming=false", nil)
		must(t, err)
		r.Header.Set("Authorization", "ip")
		r.Header.Set("X-Forwarded-For", from)
		a, err := http.DefaultClient.Do(r)
		must(t, err)
		if a.Body.Close(); a.StatusCode != status {
			t.Errorf("from %q: %d, want %d", from, a.StatusCode, status)
		}
	}
}

// With admin.authorizeAnyone=false a root that is open to everybody is open to nobody but the
// superuser, in the five commands that need a proof of identity; a root that names a user is as ever.
func TestAuthorizationOfAnyone(t *testing.T) {
	t.Parallel()
	s := with(t, map[string]string{
		"admin.rateLimiterIntervalInMS": "0", "admin.authorizeAnyone": "false",
		"DigestAuthenticationProvider.superDigest": "super:D/InIHSb7yEEbrWz8b9l71RjZJU=", // of the password test
	})
	for _, get := range []string{"/commands/snapshot", "POST /commands/restore", "POST /commands/shed_connections", "POST /commands/hand_over", "POST /commands/resolve"} {
		for _, auth := range []string{"ip", "digest any:pw"} {
			check(t, s.AdminAddr(), question{get: get, auth: auth}, http.StatusForbidden, "Not authorized")
		}
	}
	snapshot := func(auth string, status int) {
		t.Helper()
		check(t, s.AdminAddr(), question{get: "/commands/snapshot?streaming=false", auth: auth}, status, `"snapshot"`)
	}
	snapshot("digest super:test", http.StatusOK)
	c := connect(t, s)
	_, err := c.SetACL(t.Context(), "/", []zk.ACL{
		{Perms: zk.PermAll, ID: zk.AnyoneUnsafe},
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: digest("all:pw")}},
	}, -1)
	must(t, err)
	snapshot("digest all:pw", http.StatusOK)
	snapshot("digest any:pw", http.StatusForbidden)
	snapshot("ip", http.StatusForbidden)
}

// Connections are closed, and their clients return with their sessions.
func TestShed(t *testing.T) {
	t.Parallel()
	s := with(t, nil)
	c := connect(t, s)
	id := c.SessionID()
	post := func(body string, status int, part string) {
		t.Helper()
		a := ask(t, s.AdminAddr(), question{get: "POST /commands/shed_connections", auth: "ip", body: body})
		if a.Status != status || !strings.Contains(a.Body, part) {
			t.Errorf("%s: %d, %s", body, a.Status, a.Body)
		}
	}
	post("", http.StatusBadRequest, "Request body is required")
	post(strings.Repeat(" ", 10000), http.StatusBadRequest, "Invalid JSON or failed to read request body")
	post(`{"percentage": 0}`, http.StatusOK, "\"connections_shed\" : 0,\n  \"percentage_requested\" : 0,\n")
	post(`{"percentage": 100}`, http.StatusOK, "\"connections_shed\" : 1,\n")
	for {
		if _, _, err := c.Get(t.Context(), "/"); err == nil {
			break
		}
		must(t, t.Context().Err())
	}
	if c.SessionID() != id {
		t.Error("the session is another one")
	}
}

// The probes tell a server that serves from one that has no quorum.
func TestProbes(t *testing.T) {
	t.Parallel()
	ready := with(t, nil)
	check(t, ready.AdminAddr(), question{get: "/healthz"}, http.StatusOK, `"alive" : true`)
	check(t, ready.AdminAddr(), question{get: "/readyz"}, http.StatusOK, "\"ready\" : true,\n  \"mode\" : \"standalone\",\n")

	servers, err := pinfold.NewEnsemble(3, pinfold.Config{Settings: settings})
	must(t, err)
	for _, s := range servers {
		t.Cleanup(func() { must(t, s.Stop()) })
	}
	alone := servers[0]
	must(t, alone.Start(t.Context()))
	check(t, alone.AdminAddr(), question{get: "/healthz"}, http.StatusOK, `"alive" : true`)
	check(t, alone.AdminAddr(), question{get: "/readyz"}, http.StatusServiceUnavailable, `"ready" : false`)
	check(t, alone.AdminAddr(), question{get: "/commands/ruok"}, http.StatusOK, `"error" : null`)
	check(t, alone.AdminAddr(), question{get: "/commands/zabstate"}, http.StatusOK, `"is_leader" : false`)
	for _, name := range []string{"stats", "monitor", "leader", "dump", "observers"} {
		check(t, alone.AdminAddr(), question{get: "/commands/" + name}, http.StatusOK,
			"{\n  \"command\" : \""+name+"\",\n  \"error\" : \"This ZooKeeper instance is not currently serving requests\"\n}")
	}
	check(t, alone.AdminAddr(), question{get: "/commands/snapshot"}, http.StatusOK, "not currently serving requests")
}

// A leader hands over when it is asked; a follower cannot.
func TestHandOver(t *testing.T) {
	t.Parallel()
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{Settings: settings})
	must(t, err)
	start(t, servers...)
	post := func(s *pinfold.Server) (status int, body string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.AdminAddr()+"/commands/hand_over", nil)
		must(t, err)
		r.Header.Set("Authorization", "ip")
		a, err := http.DefaultClient.Do(r)
		must(t, err)
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		must(t, err)
		return a.StatusCode, string(text)
	}
	refused := 0
	for { // a leader whose followers are not up to date yet, or are slow, leads on
		for _, s := range servers {
			switch status, body := post(s); {
			case status == http.StatusConflict:
				refused++
			case status != http.StatusOK:
				t.Fatalf("%d, %s", status, body)
			case strings.Contains(body, `"error" : null`):
				t.Logf("handed over; %d times it was refused", refused)
				return
			}
		}
		must(t, t.Context().Err())
	}
}

// The packets and requests of an observer are counted, and from 0 again after a reset.
func TestObserverCounts(t *testing.T) {
	t.Parallel()
	all := maps.Clone(settings)
	maps.Copy(all, map[string]string{"reconfigEnabled": "true", "skipACL": "yes"})
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{Settings: all})
	must(t, err)
	start(t, servers...)
	leads := leader(t, servers)
	observer := servers[(slices.Index(servers, leads)+1)%3]
	observe(t, connect(t, leads), slices.Index(servers, observer)+1, observer.Addr())
	observerCounts(t, leads) // before that the observer's clients lose their connections
	c := connect(t, observer)

	const writes = 30
	write := func() {
		for range writes {
			_, err := c.Set(t.Context(), "/", []byte("x"), -1)
			must(t, err)
		}
	}
	write()
	received, sent, requests := observerCounts(t, leads)
	if received < writes || sent < writes || requests < writes {
		t.Fatalf("received %d packets, sent %d, %d requests: fewer than %d writes", received, sent, requests, writes)
	}
	check(t, leads.AdminAddr(), question{get: "/commands/observer_connection_stat_reset"}, http.StatusOK, `"error" : null`)
	if r, s, q := observerCounts(t, leads); r >= received || s >= sent || q != 0 { // a PING may have come since
		t.Errorf("after the reset: received %d packets, sent %d, %d requests; before %d, %d, %d", r, s, q, received, sent, requests)
	}
	write()
	if _, _, q := observerCounts(t, leads); q != writes {
		t.Errorf("%d writes are %d requests", writes, q)
	}
}

// observe makes the member id, which clients reach at an address, an observer.
func observe(t *testing.T, c *client.Client, id int, address string) {
	t.Helper()
	text, _, err := c.Config(t.Context())
	must(t, err)
	prefix := fmt.Sprintf("server.%d=", id)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			line = strings.Replace(strings.TrimSpace(line), ":participant", ":observer", 1) + ";" + address
			_, _, err = c.Reconfig(t.Context(), client.Reconfig{Joining: line, From: -1})
			must(t, err)
			return
		}
	}
	t.Fatalf("no %s in %s", prefix, text)
}

// observerCounts waits until the leader has one observer, and returns what has gone over its link.
func observerCounts(t *testing.T, s *pinfold.Server) (received, sent, requests int) {
	t.Helper()
	for {
		var got struct {
			Observers []struct {
				Received int `json:"packets_received"`
				Sent     int `json:"packets_sent"`
				Requests int `json:"requests"`
			} `json:"observers"`
		}
		must(t, json.Unmarshal([]byte(ask(t, s.AdminAddr(), question{get: "/commands/observers"}).Body), &got))
		if len(got.Observers) == 1 {
			o := got.Observers[0]
			return o.Received, o.Sent, o.Requests
		}
		must(t, t.Context().Err())
	}
}

// A server says which addresses a name has, to those who may ask.
func TestResolve(t *testing.T) {
	t.Parallel()
	s := with(t, nil)
	get := func(who, query string, status int, want string) {
		t.Helper()
		check(t, s.AdminAddr(), question{get: "POST /commands/resolve" + query, auth: who}, status, want)
	}
	get("ip", "?host=127.0.0.1", http.StatusOK, `"addresses" : [ "127.0.0.1" ]`)
	get("ip", "?host=no-such-host.invalid", http.StatusUnprocessableEntity, "no-such-host.invalid")
	get("ip", "", http.StatusBadRequest, "the parameter host is missing")
	get("", "?host=127.0.0.1", http.StatusUnauthorized, "Auth info is missing")
}

// A server whose leader serves no clients is not ready, and answers commands.
func TestLeaderServesNot(t *testing.T) {
	t.Parallel()
	all := maps.Clone(settings)
	all["leaderServes"] = "no"
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{Settings: all})
	must(t, err)
	start(t, servers...)
	for _, s := range servers {
		if s.Role() == "leader" {
			check(t, s.AdminAddr(), question{get: "/readyz"}, http.StatusServiceUnavailable, "leaderServes=no")
			check(t, s.AdminAddr(), question{get: "/commands/server_stats"}, http.StatusOK, `"server_state" : "leader"`)
			continue
		}
		check(t, s.AdminAddr(), question{get: "/readyz"}, http.StatusOK, `"reasons" : [ ]`)
	}
}

// The description is JSON, and names all commands; with another path too.
func TestDescription(t *testing.T) {
	t.Parallel()
	s := with(t, map[string]string{"admin.commandURL": "/zk/admin", "admin.pprof.enabled": "true"})
	var page struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	must(t, json.Unmarshal([]byte(check(t, s.AdminAddr(), question{get: "/openapi.json"}, http.StatusOK, "openapi").Body), &page))
	index := check(t, s.AdminAddr(), question{get: "/zk/admin/"}, http.StatusOK, "<a href=\"/zk/admin/configuration\">configuration</a>\n<br/>\n").Body
	links := strings.Count(index, "<a ")
	if links != 31 || len(page.Paths) != links+6 || page.Paths["/zk/admin/shed_connections"]["post"].Summary == "" {
		t.Errorf("%d links, %d paths", links, len(page.Paths))
	}
	check(t, s.AdminAddr(), question{get: "/commands/ruok"}, http.StatusNotFound, "")
	check(t, s.AdminAddr(), question{get: "/metrics"}, http.StatusOK, "")
	check(t, s.AdminAddr(), question{get: "/debug/pprof/goroutine?debug=1"}, http.StatusOK, "")
	check(t, s.AdminAddr(), question{get: "/debug/pprof/cmdline"}, http.StatusNotFound, "")
}

// The secrets of the configuration are not shown.
func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	must(t, os.WriteFile(file, []byte("dataDir="+dir+"/data\nclientPort=0\nDigestAuthenticationProvider.superDigest=super:secret\n"), 0o600))
	s, err := pinfold.New(pinfold.Config{File: file, Addr: "127.0.0.1:0", Settings: settings})
	must(t, err)
	start(t, s)
	for _, name := range []string{"system_properties", "initial_configuration"} {
		if a := check(t, s.AdminAddr(), question{get: "/commands/" + name}, http.StatusOK, "superDigest"); strings.Contains(a.Body, "super:secret") {
			t.Error(a.Body)
		}
	}
}

// Connections that send nothing, and answers that nobody reads, delay no other request and
// no client.
func TestStrangers(t *testing.T) {
	t.Parallel()
	s := with(t, nil)
	c := connect(t, s)
	for range 200 {
		raw, err := net.Dial("tcp", s.AdminAddr())
		must(t, err)
		t.Cleanup(func() { raw.Close() })
		_, err = io.WriteString(raw, strings.Repeat("GET /commands/monitor HTTP/1.1\r\nHost: x\r\n\r\n", 20))
		if err != nil && !isReset(err) {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Get(t.Context(), "/"); err != nil {
		t.Error(err)
	}
	big, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.AdminAddr()+"/commands/ruok", nil)
	must(t, err)
	big.Header.Set("X-Long", strings.Repeat("x", 100<<10))
	for { // a connection may be closed for one of those above
		a, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(big)
		if err != nil {
			must(t, t.Context().Err())
			continue
		}
		if a.Body.Close(); a.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 100 KiB: %d", a.StatusCode)
		}
		break
	}
}

// isReset reports whether the server has closed a connection.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// digest is the id of a user in the scheme digest.
func digest(userPassword string) string {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return user + ":" + base64.StdEncoding.EncodeToString(sum[:])
}
