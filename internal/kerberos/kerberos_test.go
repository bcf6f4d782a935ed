package kerberos

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/pinfold-zk/pinfold/test/tickets"
)

const (
	realm   = tickets.Realm
	service = tickets.Service
)

// rig is an Acceptor, and the keys of its KDC.
type rig struct {
	*Acceptor
	t    testing.TB
	file string
	keys *keytab.Keytab
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, file: tickets.Keytab(t), keys: tickets.Keys()}
	var err error
	if r.Acceptor, err = NewAcceptor(AcceptorOptions{Principal: service + "@" + realm, Keytab: r.file}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) add(name, realm, password string, version uint8, etype int32) {
	r.t.Helper()
	if err := r.keys.AddEntry(name, realm, password, time.Now(), version, etype); err != nil {
		r.t.Fatal(err)
	}
}

// issue says what a KDC puts into a ticket.
type issue = tickets.Issue

// ticket issues a ticket as a KDC does.
func (r *rig) ticket(change func(*issue)) ticket {
	r.t.Helper()
	k := tickets.New(r.t, func(i *issue) {
		i.Keys = r.keys
		if change != nil {
			change(i)
		}
	})
	return ticket{Ticket: k.Ticket, key: k.Key, name: k.Name, of: k.Issue.Realm, from: k.From, till: k.Till}
}

// tokens runs an exchange to its end and returns the client's tokens.
func (r *rig) tokens(x *Acceptance, t ticket, o InitiatorOptions) (sent [][]byte, err error) {
	r.t.Helper()
	in, token, err := initiate(t, o)
	if err != nil {
		return nil, err
	}
	for range 5 {
		sent = append(sent, token)
		answer, err := x.Step(token)
		if err != nil {
			return sent, err
		}
		if in.Done() {
			if answer != nil {
				r.t.Errorf("the last answer is %x, want null", answer)
			}
			return sent, nil
		}
		if _, ok := x.Principal(); ok {
			r.t.Error("logged in before the last token")
		}
		if token, err = in.Step(answer); err != nil {
			return sent, err
		}
	}
	r.t.Error("the exchange does not end")
	return sent, nil
}

// TestLogin: both kinds of exchange with every encryption type.
func TestLogin(t *testing.T) {
	r := newRig(t)
	for _, e := range tickets.Etypes[:4] {
		for oneWay, tokens := range map[bool]int{true: 2, false: 3} {
			t.Run(fmt.Sprint(e, oneWay), func(t *testing.T) {
				x := r.Begin()
				sent, err := r.tokens(x, r.ticket(func(i *issue) { i.Etype = e }), InitiatorOptions{OneWay: oneWay, Identity: "any"})
				if err != nil || len(sent) != tokens {
					t.Fatalf("%d tokens, %v", len(sent), err)
				}
				if name, ok := x.Principal(); name != "bob/admin@EXAMPLE.COM" || !ok || x.Identity() != "any" {
					t.Errorf("%q, %v, identity %q", name, ok, x.Identity())
				}
			})
		}
	}
}

// TestOffer: the tokens of a login without mutual authentication have the bytes that
// Apache's servers send.
func TestOffer(t *testing.T) {
	r := newRig(t)
	in, token, err := initiate(r.ticket(nil), InitiatorOptions{OneWay: true, Identity: "bob@EXAMPLE.COM"})
	if err != nil {
		t.Fatal(err)
	}
	x := r.Begin()
	answer, err := x.Step(token)
	if err != nil || len(answer) != 32 || !bytes.HasPrefix(answer, []byte{5, 4, 1, 0xFF, 0, 12, 0, 0}) || !bytes.Equal(answer[16:20], []byte{1, 1, 0, 0}) {
		t.Fatalf("offer %x, %v", answer, err)
	}
	if choice, err := in.Step(answer); err != nil || !bytes.HasPrefix(choice, []byte{5, 4, 0, 0xFF, 0, 12, 0, 0}) || !bytes.Equal(choice[8:16], answer[8:16]) ||
		string(choice[16:len(choice)-12]) != "\x01\x00\x00\x00bob@EXAMPLE.COM" {
		t.Errorf("choice %x, %v", choice, err)
	}
}

// TestRefusedTickets is invariant 1: whatever is wrong with the ticket or the
// authenticator, nobody logs in.
func TestRefusedTickets(t *testing.T) {
	r := newRig(t)
	other := keytab.New()
	for version, name := range map[uint8]string{3: service, 4: service} {
		if err := other.AddEntry(name, realm, "another secret", time.Now(), version, 18); err != nil {
			t.Fatal(err)
		}
	}
	r.add("zookeeper/other", realm, "secret", 3, 18)
	r.add(service, "ELSEWHERE", "secret", 3, 18)
	tickets.Write(t, r.file, r.keys)
	tests := map[string]struct {
		change func(*issue)
		use    func(*ticket) // by the client
		want   string
	}{
		"another service":        {change: func(i *issue) { i.Service = "zookeeper/other" }, want: `a ticket for "zookeeper/other@EXAMPLE.COM"`},
		"another service realm":  {change: func(i *issue) { i.ServerRealm = "ELSEWHERE" }, want: `a ticket for "zookeeper/host.example.com@ELSEWHERE"`},
		"another key":            {change: func(i *issue) { i.Keys = other }, want: "does not open"},
		"another key version":    {change: func(i *issue) { i.Keys, i.Version = other, 4 }, want: "key version 4 of zookeeper/host.example.com@EXAMPLE.COM, and "},
		"expired":                {change: func(i *issue) { i.From, i.Till = -time.Hour, -6*time.Minute }, want: "has expired at"},
		"not valid yet":          {change: func(i *issue) { i.From = 6 * time.Minute }, want: "is valid from"},
		"invalid by its flag":    {change: func(i *issue) { i.Flags = []int{7} }, want: "marked as invalid"},
		"RC4":                    {change: func(i *issue) { i.Etype = 23 }, want: "encryption type 23"},
		"another client":         {use: func(t *ticket) { t.name = types.NewPrincipalName(1, "root") }, want: "not of the client"},
		"another client's realm": {use: func(t *ticket) { t.of = "ELSEWHERE" }, want: "not of the client"},
		"another session key":    {use: func(t *ticket) { t.key.KeyValue = bytes.Repeat([]byte{1}, 32) }, want: "authenticator"},
		"a path of realms":       {change: func(i *issue) { i.Realm, i.Transited = "FAR.AWAY", "BETWEEN" }, want: "through other realms"},
		"an empty component":     {change: func(i *issue) { i.Client = "bob/" }, want: "cannot be written"},
		"an at in the realm":     {change: func(i *issue) { i.Realm = "A@B" }, want: "cannot be written"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := r.ticket(tt.change)
			if tt.use != nil {
				tt.use(&k)
			}
			if k.key.KeyType == 23 {
				k.key = newKey(18) // the client's half would refuse it itself
			}
			x := r.Begin()
			_, err := r.tokens(x, k, InitiatorOptions{})
			if !errors.Is(err, ErrRefused) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if name, ok := x.Principal(); ok || name != "" {
				t.Errorf("logged in as %q", name)
			}
		})
	}
}

// TestForeignRealm: a client of another realm logs in with that realm in its name, if the
// KDC has checked the path.
func TestForeignRealm(t *testing.T) {
	r := newRig(t)
	for name, change := range map[string]func(*issue){
		"direct":  func(i *issue) { i.Realm = "FAR.AWAY" },
		"checked": func(i *issue) { i.Realm, i.Transited, i.Flags = "FAR.AWAY", "BETWEEN", []int{12} },
	} {
		x := r.Begin()
		if _, err := r.tokens(x, r.ticket(change), InitiatorOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := x.Principal(); got != "bob/admin@FAR.AWAY" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestNoChecksum: an AP-REQ that was not made for GSSAPI.
func TestNoChecksum(t *testing.T) {
	r := newRig(t)
	k := r.ticket(nil)
	for _, length := range []int{-1, 0, 23} {
		auth, err := types.NewAuthenticator(k.of, k.name)
		if err != nil {
			t.Fatal(err)
		}
		if length >= 0 {
			auth.Cksum = types.Checksum{CksumType: 0x8003, Checksum: make([]byte, length)}
		}
		q, err := messages.NewAPReq(k.Ticket, k.key, auth)
		if err != nil {
			t.Fatal(err)
		}
		b, err := q.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Begin().Step(frame(idRequest, b)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no checksum") {
			t.Errorf("a checksum of %d bytes: %v", length, err)
		}
	}
}

// TestClockSkew: an authenticator of a clock that is wrong by more than the skew.
func TestClockSkew(t *testing.T) {
	r := newRig(t)
	for _, by := range []time.Duration{-6 * time.Minute, -4 * time.Minute, 4 * time.Minute, 6 * time.Minute} {
		x, _, err := initiate(r.ticket(nil), InitiatorOptions{OneWay: true})
		if err != nil {
			t.Fatal(err)
		}
		x.auth.CTime = x.auth.CTime.Add(by)
		token, err := x.request(true)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Begin().Step(token)
		if refused := by.Abs() > 5*time.Minute; refused != (err != nil) || refused && !strings.Contains(err.Error(), "clock skew") {
			t.Errorf("%v: %v", by, err)
		}
	}
}

// TestReplay is invariant 2.
func TestReplay(t *testing.T) {
	r := newRig(t)
	for _, oneWay := range []bool{true, false} {
		sent, err := r.tokens(r.Begin(), r.ticket(nil), InitiatorOptions{OneWay: oneWay})
		if err != nil {
			t.Fatal(err)
		}
		x := r.Begin()
		if _, err := x.Step(sent[0]); err == nil || !strings.Contains(err.Error(), "replay") {
			t.Errorf("one way %v: %v", oneWay, err)
		}
	}
	// Even a server that has forgotten all gives a fresh key to a client that wanted proof.
	sent, err := r.tokens(r.Begin(), r.ticket(nil), InitiatorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.seen = newReplays(r.skew, maxReplays, "", nil)
	x := r.Begin()
	for i, token := range sent {
		_, err := x.Step(token)
		if last := i == len(sent)-1; last != (err != nil) {
			t.Errorf("token %d again: %v", i, err)
		}
	}
}

// TestReplayCache: an entry lives as long as its authenticator is valid, and there are
// only so many.
func TestReplayCache(t *testing.T) {
	const skew = time.Minute
	r := newReplays(skew, 100, "", nil)
	start := time.Unix(1e9, 0)
	for i := range 100 {
		if err := r.add([]byte{byte(i)}, start.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := r.add([]byte("more"), start.Add(100*time.Second)); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("more than fit: %v", err)
	}
	for _, age := range []time.Duration{0, skew, 2*skew - 1} {
		if err := r.add([]byte{99}, start.Add(99*time.Second+age)); err == nil || !strings.Contains(err.Error(), "replay") {
			t.Errorf("after %v: %v", age, err)
		}
	}
	if err := r.add([]byte{99}, start.Add(time.Hour)); err != nil {
		t.Errorf("after an hour: %v", err)
	}
	if n := len(r.mu.present) + len(r.mu.old); n != 1 {
		t.Errorf("%d entries are left", n)
	}
}

// TestReplayFile: logins are remembered after a restart, whatever a crash has left of the
// files, and a disk that does not work is told about once a generation.
func TestReplayFile(t *testing.T) {
	const skew, lifetime = time.Minute, 2 * time.Minute
	name := filepath.Join(t.TempDir(), "replays")
	var log bytes.Buffer
	start := time.Unix(1e9, 5e8)
	restart := func() *replays { return newReplays(skew, 100, name, slog.New(slog.NewTextHandler(&log, nil))) }
	seen := func(r *replays, login string, after time.Duration) bool {
		err := r.add([]byte(login), start.Add(after))
		if err != nil && !strings.Contains(err.Error(), "replay") {
			t.Fatal(err)
		}
		return err != nil
	}
	r := restart()
	if seen(r, "one", 0) || seen(r, "two", lifetime-1) || seen(r, "three", lifetime) {
		t.Error("new logins are refused")
	}
	for _, crash := range []func() error{
		func() error { return nil },
		func() error { return appendTo(name, "a part") },
		func() error { return appendTo(name+".old", "a part") },
	} {
		if err := crash(); err != nil {
			t.Fatal(err)
		}
		r = restart()
		for _, login := range []string{"one", "two", "three"} {
			if !seen(r, login, lifetime+time.Second) {
				t.Errorf("%s is forgotten", login)
			}
		}
	}
	if r = restart(); !seen(r, "two", lifetime+time.Second) || seen(r, "four", lifetime+time.Second) || !seen(restart(), "four", lifetime+2*time.Second) {
		t.Error("a login after a crash is forgotten")
	}
	// begin was interrupted: the newest generation is the older file.
	if err := os.Rename(name, name+".old"); err != nil {
		t.Fatal(err)
	}
	if !seen(restart(), "four", lifetime+2*time.Second) {
		t.Error("the older file does not count")
	}
	if r = restart(); seen(r, "five", lifetime+2*time.Second) || !seen(restart(), "five", lifetime+3*time.Second) {
		t.Error("the older file is not gone on with")
	}
	if r = restart(); seen(r, "three", 5*lifetime) || len(r.mu.old) > 0 {
		t.Error("old logins are remembered for ever")
	}
	// A clock that was wrong by years at the last start.
	if seen(restart(), "late", 1e5*time.Hour) {
		t.Error("a new login is refused")
	}
	if r = restart(); !seen(r, "late", 0) || seen(r, "late", 5*lifetime) {
		t.Error("the end of a generation is years away")
	}
	if log.Len() > 0 {
		t.Error(log.String())
	}
	if err := os.RemoveAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	if r = restart(); seen(r, "one", 0) || seen(r, "two", 0) || !seen(r, "one", 0) || strings.Count(log.String(), "cannot be kept") != 1 {
		t.Errorf("without the directory: %s", log.String())
	}
}

// appendTo writes more to the end of a file.
func appendTo(name, more string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(more)
	return errors.Join(err, f.Close())
}

// TestOver is invariant 3.
func TestOver(t *testing.T) {
	r := newRig(t)
	x := r.Begin()
	sent, err := r.tokens(x, r.ticket(nil), InitiatorOptions{OneWay: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := x.Step(sent[1]); !errors.Is(err, ErrRefused) {
			t.Errorf("%v", err)
		}
		if name, ok := x.Principal(); ok || name != "" {
			t.Errorf("still %q", name)
		}
	}
	failed := r.Begin()
	failed.Step([]byte("x"))
	_, token, _ := initiate(r.ticket(nil), InitiatorOptions{})
	if _, err := failed.Step(token); !errors.Is(err, ErrRefused) {
		t.Errorf("after a failure: %v", err)
	}
}

// TestSpoiledTokens: tokens that are cut, out of order, too long, or changed in any bit.
func TestSpoiledTokens(t *testing.T) {
	r := newRig(t)
	for _, oneWay := range []bool{true, false} {
		o := InitiatorOptions{OneWay: oneWay, Identity: "bob"}
		spoil := func(at int, f func([]byte) []byte) error {
			x := r.Begin()
			in, token, err := initiate(r.ticket(nil), o)
			for i := 0; err == nil && i <= at; i++ {
				if i == at {
					token = f(bytes.Clone(token))
				}
				var answer []byte
				if answer, err = x.Step(token); err != nil || in.Done() {
					break
				}
				token, err = in.Step(answer)
			}
			if _, ok := x.Principal(); ok && err == nil {
				return nil
			}
			return err
		}
		last := 2
		if oneWay {
			last = 1
		}
		for at := range last + 1 {
			for name, f := range map[string]func([]byte) []byte{
				"cut":   func(b []byte) []byte { return b[:len(b)/2] },
				"huge":  func(b []byte) []byte { return append(b, make([]byte, MaxTokenBytes)...) },
				"other": func([]byte) []byte { return []byte("other") },
			} {
				if err := spoil(at, f); !errors.Is(err, ErrRefused) && !(name == "cut" && at == 1 && !oneWay) {
					t.Errorf("one way %v, token %d %s: %v", oneWay, at, name, err)
				}
			}
		}
		for bit := range 8 * 30 {
			err := spoil(last, func(b []byte) []byte { b[bit/8%len(b)] ^= 1 << (bit % 8); return b })
			if !errors.Is(err, ErrRefused) {
				t.Errorf("one way %v, bit %d of the last token: %v", oneWay, bit, err)
			}
		}
	}
}

// TestInitiatorRefuses: a server without the key is found out.
func TestInitiatorRefuses(t *testing.T) {
	r := newRig(t)
	for name, change := range map[string]func([]byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"another":         func([]byte) []byte { return []byte("rspauth=x") },
		"a changed reply": func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"huge":            func([]byte) []byte { return make([]byte, MaxTokenBytes+1) },
	} {
		for _, oneWay := range []bool{true, false} {
			in, token, err := initiate(r.ticket(nil), InitiatorOptions{OneWay: oneWay})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := r.Begin().Step(token)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.Step(change(answer)); !errors.Is(err, ErrRefused) || in.Done() {
				t.Errorf("%s, one way %v: %v", name, oneWay, err)
			}
			if _, err := in.Step(answer); !errors.Is(err, ErrRefused) {
				t.Errorf("%s, one way %v, afterwards: %v", name, oneWay, err)
			}
		}
	}
	// The answer to another request of the same client.
	one, _, _ := initiate(r.ticket(nil), InitiatorOptions{})
	k := one.ticket
	two, token, _ := initiate(k, InitiatorOptions{})
	two.auth.Cusec++
	answer, err := r.Begin().Step(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Step(answer); err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("an answer to another request: %v", err)
	}
}

// TestKeytabChanges: a new key is used at once, and a broken file changes nothing.
func TestKeytabChanges(t *testing.T) {
	r := newRig(t)
	var log bytes.Buffer
	r.Acceptor.keys.log = slog.New(slog.NewTextHandler(&log, nil))
	login := func(version int) error {
		_, err := r.tokens(r.Begin(), r.ticket(func(i *issue) { i.Version = version }), InitiatorOptions{})
		return err
	}
	r.add(service, realm, "next secret", 4, 18)
	if err := login(4); err == nil {
		t.Error("a key that the server does not have")
	}
	tickets.Write(t, r.file, r.keys)
	if err := errors.Join(login(4), login(3)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(r.file, []byte("no keytab, and longer than before is not needed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := login(4); err != nil {
		t.Errorf("with a broken file: %v", err)
	}
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	if err := login(4); err != nil {
		t.Errorf("without the file: %v", err)
	}
	tickets.Write(t, r.file, r.keys)
	if err := login(4); err != nil {
		t.Errorf("with the file again: %v", err)
	}
	if n := strings.Count(log.String(), "cannot be read"); n != 2 {
		t.Errorf("%d lines about the broken file and the missing one:\n%s", n, log.String())
	}
}

// TestNewestKey: of several keys of a client the one of the highest version is used, whatever
// the times say.
func TestNewestKey(t *testing.T) {
	r := newRig(t)
	keys, file := keytab.New(), r.file+"-of-bob"
	for i, version := range []uint8{3, 4, 2} {
		if err := keys.AddEntry("bob", realm, "secret", time.Unix(int64(3-i)*1e8, 0), version, 18); err != nil {
			t.Fatal(err)
		}
	}
	tickets.Write(t, file, keys)
	table, err := readKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, version, err := table.GetEncryptionKey(types.NewPrincipalName(1, "bob"), realm, 0, 18); version != 4 || err != nil {
		t.Errorf("the key of version %d, %v", version, err)
	}
}

// TestKeytabErrors is invariant 5: gokrb5's error for a damaged key table contains it.
func TestKeytabErrors(t *testing.T) {
	r := newRig(t)
	b, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"cut": b[:len(b)-3], "empty": nil, "no keys": {5, 2}, "text": []byte("secret text"), "huge": append(b, make([]byte, MaxFileBytes)...)} {
		if err := os.WriteFile(r.file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := NewAcceptor(AcceptorOptions{Principal: service + "@" + realm, Keytab: r.file})
		if err == nil || len(err.Error()) > 200 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAcceptorOptions: what is missing is named.
func TestAcceptorOptions(t *testing.T) {
	r := newRig(t)
	for want, o := range map[string]AcceptorOptions{
		"":                    {Principal: service, DefaultRealm: realm, Keytab: "FILE:" + r.file},
		"has no realm":        {Principal: service, Keytab: r.file},
		"has no key of":       {Principal: "zookeeper/x@" + realm, Keytab: r.file},
		"no such file":        {Principal: service + "@" + realm, Keytab: r.file + "x"},
		"is no principal":     {Principal: "a//b@" + realm, Keytab: r.file},
		`"@R" is no princ`:    {Principal: "@R", Keytab: r.file},
		`"a@b@c" is no princ`: {Principal: "a@b@c", Keytab: r.file},
	} {
		_, err := NewAcceptor(o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	every, err := NewAcceptor(AcceptorOptions{Principal: "*", Keytab: r.file})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.tokens(every.Begin(), r.ticket(nil), InitiatorOptions{}); err != nil {
		t.Errorf("principal *: %v", err)
	}
}
