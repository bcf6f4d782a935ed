// Package openapi holds the description of the administration server against a real one, with a library that knows
// OpenAPI. It is a module of its own: the library and what it needs are no part of the product's modules.
package openapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// never are the answers that no test can provoke: a page does not answer them unless the server is about to end, or its
// tree has no root.
var never = []string{
	"/healthz get 503", "/commands/hand_over post 503",
	"/commands/hand_over post 500", "/commands/resolve post 500", "/commands/shed_connections post 500",
}

// TestDescription asks every documented page for every documented status. The description must be valid OpenAPI 3.0, every answer must
// be as it says, and every answer that it has must have been seen, but for those in never.
func TestDescription(t *testing.T) {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.FileBodyDecoder)
	server := start(t, nil)
	d := describe(t, server)
	snapshot := d.ask(start(t, nil), http.MethodGet, "/commands/snapshot", "ip", nil)
	commands(t, d, server, snapshot)
	members(t, d, snapshot)
	refusals(t, d)
	d.ask(server, http.MethodPost, "/commands/snapshot", "", nil)
	d.ask(server, http.MethodGet, "/commands/snapshot?streaming=false", "ip", nil)
	d.ask(server, http.MethodGet, "/commands/snapshot", "ip", nil) // too soon
	d.finish()
}

// commands asks every command by both methods, with what it needs.
func commands(t *testing.T, d *description, s *pinfold.Server, snapshot []byte) {
	t.Helper()
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			wrong := map[string]string{http.MethodGet: http.MethodPost, http.MethodPost: http.MethodGet}[method]
			auth := ""
			if op.Security != nil {
				auth = "ip"
			}
			if op.Responses.Status(http.StatusMethodNotAllowed) != nil {
				d.ask(s, wrong, path, auth, nil)
			}
			if auth == "" {
				d.ask(s, method, path, "", nil)
			}
		}
	}
	d.ask(s, http.MethodPost, "/commands/shed_connections", "ip", []byte(`{"percentage": 0}`))
	d.ask(s, http.MethodPost, "/commands/shed_connections", "ip", []byte(`{"percentage": 101}`))
	d.ask(s, http.MethodPost, "/commands/resolve?host=127.0.0.1", "ip", nil)
	d.ask(s, http.MethodPost, "/commands/resolve?host=no-such-host.invalid", "ip", nil)
	d.ask(s, http.MethodPost, "/commands/resolve", "ip", nil)
	d.ask(s, http.MethodPost, "/commands/restore", "ip", snapshot)
	d.ask(s, http.MethodPost, "/commands/restore", "ip", snapshot) // too soon
	d.ask(s, http.MethodPost, "/commands/hand_over", "ip", nil)    // it has nobody
}

// members asks a member without a quorum, and members that lead and follow.
func members(t *testing.T, d *description, snapshot []byte) {
	t.Helper()
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{Settings: settings})
	must(t, err)
	run(t, servers[0])
	d.ask(servers[0], http.MethodGet, "/readyz", "", nil)
	d.ask(servers[0], http.MethodGet, "/commands/stats", "", nil)
	run(t, servers[1:]...)
	for _, s := range servers {
		must(t, s.Ready(t.Context()))
		for path := range d.doc.Paths.Map() {
			if d.doc.Paths.Value(path).Get != nil && path != "/commands/snapshot" {
				d.ask(s, http.MethodGet, path, "", nil)
			}
		}
		if s.Role() == "follower" {
			d.ask(s, http.MethodPost, "/commands/restore", "ip", snapshot)
		}
	}
	for !d.seen["/commands/hand_over post 200"] { // a leader whose followers are not up to date yet leads on
		for _, s := range servers {
			d.ask(s, http.MethodPost, "/commands/hand_over", "ip", nil)
		}
		must(t, t.Context().Err())
	}
}

// refusals asks servers that do not do what they are asked.
func refusals(t *testing.T, d *description) {
	t.Helper()
	closed := start(t, nil)
	c, err := client.Dial(t.Context(), closed.Addr())
	must(t, err)
	defer c.Close()
	_, err = c.SetACL(t.Context(), "/", []zk.ACL{{Perms: zk.PermRead, ID: zk.AnyoneUnsafe}}, -1)
	must(t, err)
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.Security != nil {
				d.ask(closed, method, path, "", nil)
				d.ask(closed, method, path, "ip", nil)
			}
		}
	}
	for setting, value := range map[string]string{
		"admin.snapshot.enabled": "false", "admin.restore.enabled": "false", "serializeLastProcessedZxid.enabled": "false",
	} {
		s := start(t, map[string]string{setting: value})
		d.ask(s, http.MethodGet, "/commands/snapshot", "ip", nil)
		d.ask(s, http.MethodPost, "/commands/restore", "ip", []byte("no snapshot"))
	}
}

// A description is that of a server, and which of the answers in it were seen.
type description struct {
	t    *testing.T
	doc  *openapi3.T
	seen map[string]bool // "path method status"
}

// describe reads the description of a server. It must be valid, and have all commands of the server's list.
func describe(t *testing.T, s *pinfold.Server) *description {
	t.Helper()
	_, body := fetch(t, s, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	doc, err := openapi3.NewLoader().LoadFromData(body)
	must(t, err)
	must(t, doc.Validate(t.Context()))
	_, index := fetch(t, s, httptest.NewRequest(http.MethodGet, "/commands/", nil))
	documented := 0
	for path := range doc.Paths.Map() {
		if strings.HasPrefix(path, "/commands/") && path != "/commands/" {
			documented++
			if !bytes.Contains(index, fmt.Appendf(nil, `<a href="%s">`, path)) {
				t.Errorf("%s is no command of the server", path)
			}
		}
	}
	if links := bytes.Count(index, []byte("<a ")); links != documented || links == 0 {
		t.Errorf("%d commands, of which %d are documented", links, documented)
	}
	return &description{t: t, doc: doc, seen: map[string]bool{}}
}

// ask asks a server, and holds question and answer against the description. It returns the body.
func (d *description) ask(s *pinfold.Server, method, path, auth string, body []byte) []byte {
	d.t.Helper()
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	if auth != "" {
		r.Header.Set("Authorization", auth)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if bytes.HasPrefix(body, []byte("{")) {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, got := fetch(d.t, s, r.Clone(d.t.Context()))
	item := d.doc.Paths.Value(r.URL.Path)
	if item == nil {
		d.t.Fatalf("%s is not documented", r.URL.Path)
	}
	for documented, op := range item.Operations() {
		in := &openapi3filter.RequestValidationInput{
			Request: r, Route: &routers.Route{Spec: d.doc, Path: r.URL.Path, PathItem: item, Method: documented, Operation: op},
			Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
		}
		if answer.StatusCode == http.StatusOK {
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err := openapi3filter.ValidateRequest(d.t.Context(), in); err != nil {
				d.t.Errorf("%s %s is answered, and is not as described: %v", method, path, err)
			}
		}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: answer.StatusCode, Header: answer.Header, Options: in.Options}
		out.SetBodyBytes(got)
		if err := openapi3filter.ValidateResponse(d.t.Context(), out); err != nil {
			d.t.Errorf("%s %s: %v", method, path, err)
		}
		d.seen[fmt.Sprint(r.URL.Path, " ", strings.ToLower(documented), " ", answer.StatusCode)] = true
	}
	return got
}

// finish reports the documented answers that were not seen, and those of never that are not documented, or were seen.
func (d *description) finish() {
	left := map[string]bool{}
	for path, item := range d.doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status := range op.Responses.Map() {
				if answer := fmt.Sprint(path, " ", strings.ToLower(method), " ", status); !d.seen[answer] {
					left[answer] = true
				}
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(left)), slices.Sorted(slices.Values(never)); !slices.Equal(got, want) {
		d.t.Errorf("documented and not seen: %q, want %q", got, want)
	}
	d.t.Logf("%d answers of %d pages seen", len(d.seen), d.doc.Paths.Len())
}

// settings have a server listen for HTTP, with the pages that must be asked for. One snapshot and one restore are allowed.
var settings = map[string]string{
	"admin.enableServer": "true", "admin.serverPort": "0", "admin.serverAddress": "127.0.0.1", "admin.pprof.enabled": "true", "admin.authorizeAnyone": "true",
}

// start starts a standalone server with more settings.
func start(t *testing.T, more map[string]string) *pinfold.Server {
	t.Helper()
	all := maps.Clone(settings)
	maps.Copy(all, more)
	s, err := pinfold.New(pinfold.Config{DataDir: t.TempDir(), Settings: all})
	must(t, err)
	run(t, s)
	must(t, s.Ready(t.Context()))
	return s
}

// run starts servers, which stop when the test ends.
func run(t *testing.T, servers ...*pinfold.Server) {
	t.Helper()
	for _, s := range servers {
		must(t, s.Start(t.Context()))
		t.Cleanup(func() { must(t, s.Stop()) })
	}
}

// fetch sends a request to the administration server of s.
func fetch(t *testing.T, s *pinfold.Server, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r = r.WithContext(ctx)
	r.URL.Scheme, r.URL.Host, r.RequestURI = "http", s.AdminAddr(), ""
	answer, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer, body
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
