package peerauth

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/sasl"
)

// ensemble is the Options of servers that log in at each other as user bob.
func ensemble(password string, learner, server bool) Options {
	return Options{
		LearnerRequired: learner, ServerRequired: server,
		Learner: DigestLearner(func() (string, string) { return "bob", password }), Server: DigestServer(users("secret")),
	}
}

// users returns what begins a login at a server with the user bob.
func users(password string) func() *sasl.Exchange {
	return sasl.NewServer(sasl.PeerProtocol, sasl.PeerServerName, sasl.Users{"bob": password}).Begin
}

func noHost() []string { return nil }

// outcome is what both sides have of a connection.
type outcome struct {
	proved, admitted error
	name             string
	next             string // what the learner said next, as the server reads it
}

// connect has a learner log in at a server, and then say more.
func connect(t *testing.T, learner, server Options) outcome {
	t.Helper()
	return connectHost(t, learner, server, "zk1")
}

// connectHost is connect to a host, with the hosts that are members.
func connectHost(t *testing.T, learner, server Options, host string, members ...string) (o outcome) {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer here.Close()
		if o.proved = New(learner).Prove(t.Context(), here, here, host); o.proved == nil {
			_, _ = here.Write([]byte("what comes next")) // the server may have gone
		}
	}()
	in := bufio.NewReader(there)
	if o.name, o.admitted = New(server).Admit(in, there, func() []string { return members }); o.admitted == nil {
		next, err := io.ReadAll(in)
		if err != nil {
			t.Error(err)
		}
		o.next = string(next)
	}
	there.Close()
	<-done
	return o
}

// The three steps of a rolling change, and back: a server of each step and of the next one
// understand each other, and nothing that follows the login is lost (invariant 4).
func TestRollingChange(t *testing.T) {
	steps := []Options{ensemble("secret", false, false), ensemble("secret", true, false), ensemble("secret", true, true)}
	for i, learner := range steps {
		for j, server := range steps {
			o := connect(t, learner, server)
			if i == 0 && j == 2 {
				if !errors.Is(o.admitted, ErrRefused) || !strings.Contains(o.admitted.Error(), "learnerRequireSasl=true") {
					t.Errorf("a plain peer where a login is required: %v", o.admitted)
				}
				continue
			}
			want := ""
			if i > 0 {
				want = "bob"
			}
			if o.proved != nil || o.admitted != nil || o.name != want || o.next != "what comes next" {
				t.Errorf("step %d to step %d: %+v, want user %q", i, j, o, want)
			}
		}
	}
}

// Invariants 1 and 3: a failed login is an error on both sides, whatever is required, and
// no password is in it.
func TestI1WrongPassword(t *testing.T) {
	for _, required := range []bool{false, true} {
		o := connect(t, ensemble("wrong", true, required), ensemble("secret", true, required))
		if !errors.Is(o.proved, ErrRefused) || !errors.Is(o.admitted, ErrRefused) || o.name != "" {
			t.Errorf("required %v: %+v", required, o)
		}
		text := fmt.Sprint(o.proved, o.admitted)
		if !strings.Contains(text, `wrong password of user "bob"`) || strings.Contains(text, "secret") {
			t.Errorf("required %v: %s", required, text)
		}
	}
}

// Invariant 2: a server that does without a login, does not know the password, or is none
// of ZooKeeper's, is not spoken to.
func TestI2TheServerHasToAnswer(t *testing.T) {
	impostor := ensemble("secret", true, true)
	impostor.Server = DigestServer(users("guessed"))
	if o := connect(t, ensemble("secret", true, true), impostor); !errors.Is(o.proved, ErrRefused) {
		t.Errorf("a server that does not know the password: %v", o.proved)
	}
	success := func(token []byte) []byte { return bytesOf(packet{success, token}) }
	challenge := bytesOf(packet{inProgress, []byte(`realm="r",nonce="n",charset=utf-8,algorithm=md5-sess`)})
	for name, answer := range map[string][]byte{
		"success at once":             success(nil),
		"success without a proof":     slices.Concat(challenge, success(nil)),
		"success with a wrong proof":  slices.Concat(challenge, success([]byte("rspauth="+strings.Repeat("0", 32)))),
		"a refusal":                   bytesOf(packet{refused, []byte{}}),
		"another status":              bytesOf(packet{7, nil}),
		"a second challenge":          slices.Concat(challenge, challenge),
		"nothing":                     nil,
		"a packet of the quorum port": make([]byte, 40),
		"a huge token":                jute.AppendInt(bytesOf(packet{inProgress, nil})[:12], 1<<30),
	} {
		err := New(ensemble("secret", true, true)).Prove(t.Context(), bytes.NewReader(answer), io.Discard, "zk1")
		if err == nil {
			t.Errorf("%s: the login has succeeded", name)
		}
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v is no refusal", name, err)
		}
	}
}

func bytesOf(p packet) []byte {
	var b bytes.Buffer
	if err := p.write(&b); err != nil {
		panic(err) // a Buffer takes everything
	}
	return b.Bytes()
}

// endless is a mechanism that always asks for one more token.
type endless struct{}

func (endless) Step([]byte) ([]byte, string, bool, error) { return []byte("more"), "", false, nil }

// Invariant 5, and every other way to say something wrong: the error says what.
func TestI5TokensAreBounded(t *testing.T) {
	o := ensemble("secret", true, false)
	forever := o
	forever.Server = func(func() []string) Server { return endless{} }
	empty := bytesOf(packet{inProgress, []byte{}})
	for _, c := range []struct {
		name  string
		o     Options
		input []byte
		want  string
	}{
		{"too many tokens", forever, bytes.Repeat(empty, 100), "more than 6 tokens"},
		{"a huge token", o, jute.AppendInt(empty[:12:12], maxTokenBytes+1), fmt.Sprintf("a token of %d bytes, the limit is %d", maxTokenBytes+1, maxTokenBytes)},
		{"a negative length", o, jute.AppendInt(empty[:12:12], -2), "a token of -2 bytes"},
		{"a cut head", o, empty[:15], "unexpected EOF"},
		{"a cut token", o, append(jute.AppendInt(empty[:12:12], 10), 1, 2, 3), "read a token of 10 bytes: EOF"},
		{"success claimed", o, bytesOf(packet{success, nil}), "a token with status 1"},
		{"no second packet", o, slices.Concat(empty, make([]byte, 16)), "is not the start of a packet of a login"},
		{"a token that is no response", o, slices.Concat(empty, bytesOf(packet{inProgress, []byte("hello")})), "login refused"},
	} {
		var out bytes.Buffer
		name, err := New(c.o).Admit(bufio.NewReader(bytes.NewReader(c.input)), &out, noHost)
		if name != "" || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, name, err, c.want)
		}
		if !bytes.HasSuffix(out.Bytes(), bytesOf(packet{refused, []byte{}})) {
			t.Errorf("%s: the last word is %x", c.name, out.Bytes())
		}
	}
}

// Invariant 4: what is no login is left for the next reader, however short it is.
func TestI4NothingElseIsConsumed(t *testing.T) {
	for _, input := range []string{"", "short", "a frame of something else"} {
		in := bufio.NewReader(strings.NewReader(input))
		if name, err := New(ensemble("secret", true, false)).Admit(in, io.Discard, noHost); name != "" || err != nil {
			t.Errorf("%q: %q, %v", input, name, err)
		}
		if rest, err := io.ReadAll(in); string(rest) != input || err != nil {
			t.Errorf("%q: %q is left, %v", input, rest, err)
		}
		in = bufio.NewReader(strings.NewReader(input))
		if _, err := New(ensemble("secret", true, true)).Admit(in, io.Discard, noHost); !errors.Is(err, ErrRefused) {
			t.Errorf("%q where a login is required: %v", input, err)
		}
	}
}

// The bytes of packets as Apache ZooKeeper 3.8.0 sends them.
func TestPacketBytes(t *testing.T) {
	for _, c := range []struct {
		p    packet
		want string
	}{
		{packet{inProgress, []byte{}}, "\x5f\x24\x35\x01\x35\x01\xed\xcc\x00\x00\x00\x00\x00\x00\x00\x00"},
		{packet{success, nil}, "\x5f\x24\x35\x01\x35\x01\xed\xcc\x00\x00\x00\x01\xff\xff\xff\xff"},
		{packet{refused, []byte{}}, "\x5f\x24\x35\x01\x35\x01\xed\xcc\xff\xff\xff\xff\x00\x00\x00\x00"},
	} {
		if got := bytesOf(c.p); string(got) != c.want {
			t.Errorf("%+v is %x, want %x", c.p, got, c.want)
		}
		p, err := readPacket(strings.NewReader(c.want + "more"))
		if err != nil || p.status != c.p.status || !bytes.Equal(p.token, c.p.token) || (p.token == nil) != (c.p.token == nil) {
			t.Errorf("%x is read as %+v, %v", c.want, p, err)
		}
	}
}

// Both sides read anything without a panic, and no input without the password gets in.
func FuzzLogin(f *testing.F) {
	f.Add(bytesOf(packet{inProgress, []byte{}}))
	f.Add(slices.Concat(bytesOf(packet{inProgress, []byte{}}), bytesOf(packet{inProgress, []byte(`username="bob",nonce="x"`)})))
	f.Add(bytesOf(packet{inProgress, []byte(`realm="r",nonce="n",charset=utf-8,algorithm=md5-sess`)}))
	f.Add([]byte("\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, input []byte) {
		a := New(ensemble("secret", true, true))
		if name, err := a.Admit(bufio.NewReader(bytes.NewReader(input)), io.Discard, noHost); err == nil {
			t.Errorf("%q is admitted by %x", name, input)
		}
		if err := a.Prove(t.Context(), bytes.NewReader(input), io.Discard, "zk1"); err == nil {
			t.Errorf("%x has proved to know the password", input)
		}
	})
}
