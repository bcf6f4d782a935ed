package admin

import (
	"fmt"
	"html"
	"net/http"
	"sort"
	"strings"
	"time"
)

// methods is the header Allow of an answer to OPTIONS, as Apache sends it.
const methods = "GET, HEAD, POST, TRACE, OPTIONS"

// notServing is the error of commands that need a server that serves clients.
const notServing = "This ZooKeeper instance is not currently serving requests"

// serve answers one request.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.take() {
		return // the server is being closed
	}
	defer s.handlers.Done()
	if overTLS(r) {
		w.Header().Set("Strict-Transport-Security", "max-age=86400; includeSubDomains")
	}
	if r.ContentLength != 0 { // a body is read in pieces, and what is left of it is skipped
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(pieceTimeout)) // fails only if it is closed
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
		s.route(w, r)
	case http.MethodOptions:
		w.Header().Set("Allow", methods)
		w.Header().Set("Content-Length", "0")
	case http.MethodTrace:
		w.WriteHeader(http.StatusForbidden)
	case http.MethodPut, http.MethodDelete:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}

// route passes a request to its page.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, s.cfg.Admin.CommandURL); ok && (rest == "" || rest[0] == '/') {
		if name := strings.TrimPrefix(rest, "/"); name != "" {
			s.command(w, r, name)
		} else {
			s.index(w)
		}
		return
	}
	page := s.page(r.URL.Path)
	switch {
	case r.URL.Path == "/metrics":
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(metricsTimeout)) // fails only if it is closed
		s.metrics.ServeHTTP(w, r)
	case page == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodPost:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		page(w, r)
	}
}

// page returns the page that is no command, nil if there is none.
func (s *Server) page(path string) http.HandlerFunc {
	switch path {
	case "/healthz":
		return s.healthz
	case "/readyz":
		return s.readyz
	case "/openapi.json":
		return s.openapi
	}
	if s.cfg.Admin.Pprof && strings.HasPrefix(path, profiles) {
		return profile(strings.TrimPrefix(path, profiles))
	}
	return nil
}

// index lists the commands as links.
func (s *Server) index(w http.ResponseWriter) {
	var names []string
	for name, c := range s.commands {
		if name == c.names[0] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var page []byte
	for _, name := range names {
		page = fmt.Appendf(page, "<a href=\"%s\">%s</a>\n<br/>\n", html.EscapeString(s.cfg.Admin.CommandURL+"/"+name), name)
	}
	w.Header()["Content-Type"] = nil // as Apache: the list has none
	_, _ = w.Write(page)             // the client has gone
}

// command answers a command. The checks and their order are Apache's.
func (s *Server) command(w http.ResponseWriter, r *http.Request, typed string) {
	q := newReply(w, r)
	defer q.finish()
	c := s.commands[typed]
	if c == nil {
		q.fail(http.StatusOK, typed, "Unknown command: "+typed)
		return
	}
	if c.serving && !serving(s.server.Mode()) {
		q.fail(http.StatusOK, typed, notServing)
		return
	}
	if c.authorized {
		if status, text := s.authorize(r); status != 0 {
			q.fail(status, typed, text)
			return
		}
	}
	if post := r.Method == http.MethodPost; post != c.post { // Apache ends in a null pointer here
		allow := "GET, HEAD, OPTIONS"
		if c.post {
			allow = "POST, OPTIONS"
		}
		w.Header().Set("Allow", allow)
		q.fail(http.StatusMethodNotAllowed, c.names[0], c.names[0]+" does not accept the method "+r.Method)
		return
	}
	q.name = c.names[0]
	c.run(s, q)
}

// A reply is the answer to a command while it is being written: a JSON object, to which
// the command adds what it shows. The keys "command" and "error" come last.
type reply struct {
	jsonWriter
	w       http.ResponseWriter
	r       *http.Request
	name    string // of the command
	status  int
	failed  bool   // the object has the key "error" already
	problem string // the key error; "": null
	sent    bool   // the header is sent
	binary  bool   // the body is no JSON; the command has sent it
}

func newReply(w http.ResponseWriter, r *http.Request) *reply {
	q := &reply{w: w, r: r, status: http.StatusOK}
	q.jsonWriter.send = q.write
	q.object("")
	return q
}

// query returns the first value of a parameter. ok is false if there is none.
func (q *reply) query(key string) (value string, ok bool) {
	values, ok := q.r.URL.Query()[key]
	if !ok {
		return "", false
	}
	return values[0], true
}

// fail makes the answer an error with the given status.
func (q *reply) fail(status int, name, text string) { q.status, q.name, q.problem = status, name, text }

// failWithin writes the key "error" before "command", as some commands of Apache do.
func (q *reply) failWithin(text string) {
	q.text("error", text)
	q.failed = true
}

// finish writes the last keys, and sends what is not sent.
func (q *reply) finish() {
	if q.binary {
		return
	}
	q.text("command", q.name)
	switch {
	case q.failed:
	case q.problem != "":
		q.text("error", q.problem)
	default:
		q.literal("error", "null")
	}
	q.end()
	q.flush()
}

// write sends a piece of JSON.
func (q *reply) write(b []byte) error {
	if !q.sent {
		q.w.Header().Set("Content-Type", "application/json")
	}
	return q.piece(b)
}

// piece sends a piece of the body, and the header before the first. The client must
// accept it within pieceTimeout.
func (q *reply) piece(b []byte) error {
	// It fails only if the connection is closed; then the write fails too.
	_ = http.NewResponseController(q.w).SetWriteDeadline(time.Now().Add(pieceTimeout))
	if !q.sent {
		q.sent = true
		q.w.WriteHeader(q.status)
	}
	_, err := q.w.Write(b)
	return err
}
