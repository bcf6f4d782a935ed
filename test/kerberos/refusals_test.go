package kerberos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/test/tickets"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRefusals: each login that is refused is one line in the server's log, with the
// client's address, the reason and what to do. The keys are the KDC's.
func TestRefusals(t *testing.T) {
	r := start(t, kinds[:1])
	keys := tickets.Read(t, r.serverKeys)
	version := int(keys.Entries[0].KVNO)
	ticket := func(change func(*tickets.Issue)) tickets.Ticket {
		return tickets.New(t, func(i *tickets.Issue) {
			i.Client, i.Service, i.Keys, i.Version = "bob", "zookeeper/localhost", keys, version
			if change != nil {
				change(i)
			}
		})
	}
	hour := time.Hour
	for _, tt := range []struct {
		name         string
		ticket       tickets.Ticket
		clock        time.Duration // of the client
		reason, todo string
	}{
		{"expired", ticket(func(i *tickets.Issue) { i.From, i.Till = -3*hour, -2*hour }), 0, `the ticket of \"bob@EXAMPLE.COM\" has expired at `, "kinit"},
		{"not yet valid", ticket(func(i *tickets.Issue) { i.From, i.Till = hour, 2*hour }), 0, "is valid from ", "compare the clocks"},
		{"slow clock", ticket(nil), -hour, `the clock of \"bob@EXAMPLE.COM\" differs by -1h0m`, "NTP"},
		{"fast clock", ticket(nil), hour, `the clock of \"bob@EXAMPLE.COM\" differs by `, "NTP"},
		{"another host", tickets.New(t, nil), 0, `a ticket for \"zookeeper/host.example.com@EXAMPLE.COM\", not for ` + service, "clients must use the host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.refusal(t, tt.ticket.Request(t, time.Now().Add(tt.clock)), tt.reason, tt.todo)
		})
	}
	good := ticket(nil).Request(t, time.Now())
	if code, _ := r.send(t, good); code != zk.OK {
		t.Errorf("a good ticket: %v", code)
	}
	t.Run("a replay", func(t *testing.T) { r.refusal(t, good, "was used before: a replay", "") })
	t.Run("garbage", func(t *testing.T) { r.refusal(t, []byte("garbage"), "a token that is none of GSSAPI", "") })
}

// TestWrongKeys: the KDC has a newer key than the server's key table, or another one, or the
// file is gone: what the log says, and that it is enough to do what it says.
func TestWrongKeys(t *testing.T) {
	r := start(t, kinds[:1])
	token := func() []byte {
		_, token := (&script{login: r.scripted()}).begin(t.Context(), true)
		return token
	}
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.file("elsewhere")+" "+service))
	r.refusal(t, token(), "a ticket for key version 3 of "+service+", and "+r.serverKeys+" has only [2]", "bring the new key with kadmin's ktadd")
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.serverKeys+" "+service))
	r.dial("pinfold", r.mechanism(bob))

	must(t, r.Run("kadmin.local", "-q", "delprinc -force "+service))
	for _, query := range []string{"addprinc -randkey ", "ktadd -k " + r.file("again") + " "} {
		must(t, r.Run("kadmin.local", "-q", query+service))
	}
	r.refusal(t, token(), "that the key in "+r.serverKeys+" does not open", "run kadmin's ktadd")

	must(t, os.Remove(r.serverKeys))
	r.send(t, token())
	r.logged(t, "keytab_unusable", r.serverKeys+": no such file or directory")
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.serverKeys+" "+service))
	r.dial("pinfold", r.mechanism(bob))
}

// TestKeysAtTheStart: a server whose key table is missing or has not its key does not start,
// and says why and what to do.
func TestKeysAtTheStart(t *testing.T) {
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	dir := t.TempDir()
	cfg := filepath.Join(dir, "zoo.cfg")
	must(t, os.WriteFile(cfg, []byte("dataDir="+dir+"\nclientPort=0\nadmin.enableServer=false\n"), 0o600))
	for keytab, want := range map[string]string{
		filepath.Join(dir, "none"): "no such file or directory; kadmin's ktadd -k makes it",
		tickets.Keytab(t):          "has no key of " + service + ": add it with kadmin's ktadd",
		cfg:                        cfg + " is no key table, or is damaged",
	} {
		jaas := filepath.Join(dir, "jaas.conf")
		text := fmt.Sprintf("Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab=%q principal=%q; };", keytab, service)
		must(t, os.WriteFile(jaas, []byte(text), 0o600))
		for _, args := range [][]string{{"server", cfg}, {"server", "--check", cfg}} {
			cmd := exec.CommandContext(t.Context(), *pinfoldPath(), args...)
			cmd.Env = append(os.Environ(), "SERVER_JVMFLAGS=-Djava.security.auth.login.config="+jaas)
			out, err := cmd.CombinedOutput()
			if lines := lines(string(out), want); err == nil || len(lines) != 1 || !strings.Contains(lines[0], jaas) {
				t.Errorf("%v: %v\n%s", args, err, out)
			}
		}
	}
}

// TestNoTicket: a client that gets no ticket says why and what to do.
func TestNoTicket(t *testing.T) {
	r := start(t, kinds[:1])
	old := r.file("old.keytab")
	b, err := os.ReadFile(r.keytab)
	must(t, err)
	must(t, os.WriteFile(old, b, 0o600))
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.keytab+" "+bob))
	must(t, r.Run("kadmin.local", "-q", "modprinc +requires_preauth "+admin))
	must(t, r.Run("kadmin.local", "-q", "ktadd -k "+r.keytab+" "+admin))
	must(t, r.Run("kadmin.local", "-q", "delprinc -force "+zk1))
	nowhere := r.file("nowhere.conf")
	text, err := os.ReadFile(r.Config)
	must(t, err)
	must(t, os.WriteFile(nowhere, regexp.MustCompile(`  kdc = \S+`).ReplaceAll(text, []byte("  kdc = 127.0.0.1:1")), 0o600))
	for _, tt := range []struct{ principal, keytab, config, service, want string }{
		{bob, r.keytab, r.Config, service, ""},
		{bob, r.keytab, r.Config, "zookeeper/elsewhere", "the KDC does not know the service: use the host in the server's principal"},
		{bob, old, r.Config, service, "the KDC has another key of " + bob + ": bring the newest with kadmin's ktadd"},
		{admin, old, r.Config, service, "the KDC has another key of " + admin + ": bring the newest with kadmin's ktadd"},
		{zk1, r.keytab, r.Config, service, "the KDC does not know " + zk1 + ": add it"},
		{bob, r.keytab, nowhere, service, "no KDC answers: is the section realms of krb5.conf right?"},
	} {
		login, err := kerberos.NewLogin(kerberos.Credentials{Principal: tt.principal, Keytab: tt.keytab, Config: tt.config})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, _, err = login.Begin(ctx, tt.service, kerberos.InitiatorOptions{})
		cancel()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s at %s: %v, want %q", tt.principal, tt.service, err, tt.want)
		}
		t.Log(err)
	}
}

// refusal sends a token, which is refused, and demands one line that says so.
func (r *rig) refusal(t *testing.T, token []byte, reason, todo string) {
	t.Helper()
	code, from := r.send(t, token)
	if code != zk.ErrAuthFailed {
		t.Errorf("the answer is %v", code)
	}
	line := r.logged(t, "event=sasl_login_failed", "client="+from)
	if !strings.Contains(line, reason) || !strings.Contains(line, todo) {
		t.Errorf("%s\nwant %s … %s", line, reason, todo)
	}
	t.Log(line)
}

// send sends a token on a connection of its own, and returns the code of the answer and the
// client's address.
func (r *rig) send(t *testing.T, token []byte) (code zk.Code, from string) {
	t.Helper()
	nc, err := net.Dial("tcp", r.servers["pinfold"].Client)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(patience)))
	c := frames.New(nc)
	_, err = c.Connect(wire.ConnectRequest{TimeoutMillis: 30000})
	must(t, err)
	answer, err := c.Call(1, wire.OpSASL, jute.AppendBuffer(nil, token))
	must(t, err)
	return answer.Err, nc.LocalAddr().String()
}

// logged returns the one line of the server's log that has all texts.
func (r *rig) logged(t *testing.T, texts ...string) string {
	t.Helper()
	out, err := r.servers["pinfold"].Output()
	must(t, err)
	found := lines(out, texts...)
	if len(found) != 1 {
		t.Fatalf("%d lines with %q in\n%s", len(found), texts, out)
	}
	return found[0]
}

// lines returns the lines that have all texts.
func lines(out string, texts ...string) (found []string) {
next:
	for line := range strings.Lines(out) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}
