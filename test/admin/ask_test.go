package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A question is a request, and says how much of the answer must be Apache's.
type question struct {
	name  string // of the recording
	get   string // path below the server, with the method if it is not GET
	auth  string // Authorization
	body  string // of the request
	exact bool   // the body must be equal, byte for byte
}

// commands are asked of every server. The name is the part of the path after /commands/,
// unless there is a "=".
const commands = `
	configuration connections connection_stat_reset! dirs dump environment get_trace_mask! hash initial_configuration
	is_read_only! last_snapshot leader monitor observer_connection_stat_reset! observers ruok! server_stats
	set_trace_mask! stat_reset! stats system_properties voting_view watch_summary! watches watches_by_path zabstate
	conf crst! cons env gtmk! icfg isro! lsnp lead mntr orst! obsr srvr srst! stat sysp wchs! wchc wchp
	snapshot! snap! bogus! ruok/! RUOK! a/b! set_trace_mask?traceMask=12! set_trace_mask?traceMask=1&traceMask=2!
	set_trace_mask?traceMask=x! set_trace_mask?traceMask=! get_trace_mask?x=1! stmk?traceMask=306!`

// questions returns what is asked of every server.
func questions() (list []question) {
	for word := range strings.FieldsSeq(commands) {
		name, exact := strings.CutSuffix(word, "!")
		list = append(list, question{name: name, get: "/commands/" + name, exact: exact})
	}
	for _, header := range []string{"ip", "digest", "digest a:b c", "digest  a:b", "Basic YTpi", "sasl x", "world anyone", "auth", "super"} {
		list = append(list, question{name: "snapshot, " + header, get: "/commands/snapshot?streaming=false", auth: header, exact: true})
	}
	return append(list,
		question{name: "a snapshot", get: "/commands/snapshot?streaming=false", auth: "digest a:b", exact: true},
		question{name: "OPTIONS", get: "OPTIONS /commands/ruok", exact: true},
		question{name: "TRACE", get: "TRACE /commands/ruok", exact: true},
		question{name: "PUT", get: "PUT /commands/ruok", exact: true},
		question{name: "DELETE", get: "DELETE /commands/ruok", exact: true},
		question{name: "PATCH", get: "PATCH /commands/ruok", exact: true},
		question{name: "HEAD", get: "HEAD /commands/ruok", exact: true},
		question{name: "POST of what is unknown", get: "POST /commands/bogus", exact: true},
		question{name: "POST without authorization", get: "POST /commands/restore", exact: true},
		question{name: "a restore of nothing", get: "POST /commands/restore", auth: "digest a:b", exact: true},
		question{name: "a restore too soon", get: "POST /commands/rest", auth: "digest a:b", exact: true},
		question{name: "root", get: "/"},
		question{name: "elsewhere", get: "/foo"},
		question{name: "nearly", get: "/commandsx"},
	)
}

// An answer is what a server has answered to a question.
type answer struct {
	Status int
	Type   string `json:",omitempty"` // Content-Type
	Allow  string `json:",omitempty"`
	Zxid   string `json:",omitempty"` // header last_zxid
	Body   string
}

// ask asks one question of the administration server at address.
func ask(t *testing.T, address string, q question) answer {
	t.Helper()
	method, path, ok := strings.Cut(q.get, " ")
	if !ok {
		method, path = http.MethodGet, q.get
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(q.body))
	must(t, err)
	if q.auth != "" {
		r.Header.Set("Authorization", q.auth)
	}
	answered, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	defer answered.Body.Close()
	body, err := io.ReadAll(answered.Body)
	must(t, err)
	h := answered.Header
	a := answer{Status: answered.StatusCode, Type: h.Get("Content-Type"), Allow: h.Get("Allow"), Zxid: h.Get("last_zxid"), Body: string(body)}
	if strings.HasPrefix(a.Type, "text/") { // a page for people
		a.Type, a.Body = "text", ""
	}
	return a
}

// use makes a server at clients what it must be before it is asked: there is a session
// with an ephemeral and two data watches.
func use(t *testing.T, clients string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, clients, client.SessionTimeout(20*time.Second))
	must(t, err)
	t.Cleanup(func() { c.Close() })
	for _, path := range []string{"/ephemeral", "/other"} {
		_, err = c.Create(ctx, path, []byte("x"), zk.Ephemeral, nil)
		must(t, err)
		_, _, _, err = c.GetW(ctx, path)
		must(t, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// askAll asks all questions.
func askAll(t *testing.T, address string) map[string]answer {
	t.Helper()
	answers := map[string]answer{}
	for _, q := range questions() {
		answers[q.name] = ask(t, address, q)
	}
	return answers
}

// sameAs begins the recorded body of an alias; the name of the command follows.
const sameAs = "the body of "

// shorten makes answers of which only the shape is compared shorter, and takes the values
// out of those that show much of a machine.
func shorten(t *testing.T, answers map[string]answer) {
	t.Helper()
	for _, q := range questions() {
		a := answers[q.name]
		if q.exact || a.Type != "application/json" {
			continue
		}
		v, err := parse([]byte(a.Body))
		must(t, err)
		command, _ := v.get("command")
		switch {
		case command.text != q.name:
			a.Body = sameAs + command.text
		case q.name == "system_properties":
			a.Body = `{"command":"system_properties","error":null}`
		case q.name == "environment":
			a.Body = "{"
			for _, key := range v.keys[:len(v.keys)-2] {
				a.Body += fmt.Sprintf("%q:\"\",", key)
			}
			a.Body += `"command":"environment","error":null}`
		}
		answers[q.name] = a
	}
}

// compare reports where our answers are not like Apache's. A question that Apache's release
// does not know is left out.
func compare(t *testing.T, role string, apache, ours map[string]answer) {
	t.Helper()
	old := !strings.Contains(apache["OPTIONS"].Allow, "POST") // before 3.9
	for _, q := range questions() {
		a, ok := apache[q.name]
		if primary, isAlias := strings.CutPrefix(a.Body, sameAs); isAlias {
			a.Body = apache[primary].Body
		}
		o := ours[q.name]
		if !ok || old && (strings.Contains(a.Body, "Unknown command: sna") || strings.HasPrefix(q.get, "POST ") || q.name == "OPTIONS") {
			continue
		}
		if a.Status != o.Status || a.Type != o.Type || a.Allow != o.Allow || (a.Zxid == "") != (o.Zxid == "") {
			t.Errorf("%s: %s: Apache answers %+v, we %+v", role, q.name, a, o)
		}
		if q.exact && a.Body != o.Body {
			t.Errorf("%s: %s: Apache answers\n%s\nwe\n%s", role, q.name, a.Body, o.Body)
		}
		if q.exact || a.Type != "application/json" {
			continue
		}
		av, err := parse([]byte(a.Body))
		must(t, err)
		ov, err := parse([]byte(o.Body))
		if err != nil {
			t.Errorf("%s: %s: %v in %s", role, q.name, err, o.Body)
			continue
		}
		primary, _ := ov.get("command")
		for _, line := range differences(primary.text, av, ov) {
			t.Errorf("%s: %s", role, line)
		}
	}
}
