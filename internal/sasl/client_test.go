package sasl

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

// The two halves agree, whatever is in names and passwords, and only then.
func TestClientAgainstServer(t *testing.T) {
	users := Users{"bob": "secret", "é": "ü", `a"b\c,d`: `x"y\z`, "日本": "語"}
	for _, service := range [][2]string{{ClientProtocol, ClientServerName}, {PeerProtocol, PeerServerName}} {
		agree(t, service[0], service[1], users)
	}
	other := NewClientExchange(PeerProtocol, ClientServerName, "bob", "secret")
	if err := logIn(NewServer(ClientProtocol, ClientServerName, users).Begin(), other); !errors.Is(err, ErrRefused) {
		t.Errorf("a login to another service: %v", err)
	}
}

// agree logs every user in, and one with a wrong password.
func agree(t *testing.T, protocol, name string, users Users) {
	t.Helper()
	s := NewServer(protocol, name, users)
	for user, password := range users {
		c := NewClientExchange(protocol, name, user, password)
		if err := logIn(s.Begin(), c); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if err := c.Verify([]byte("rspauth=" + strings.Repeat("0", 32))); err == nil {
			t.Error("a wrong proof is taken")
		}
	}
	if err := logIn(s.Begin(), NewClientExchange(protocol, name, "bob", "wrong")); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
}

// logIn carries the tokens of one login.
func logIn(x *Exchange, c *ClientExchange) error {
	challenge, err := x.Step([]byte{}, rand.Reader)
	if err != nil {
		return err
	}
	token, err := c.Respond(challenge, rand.Reader)
	if err != nil {
		return err
	}
	proof, err := x.Step(token, rand.Reader)
	if err != nil {
		return err
	}
	return c.Verify(proof)
}

func TestChallengesThatAreNone(t *testing.T) {
	for _, challenge := range []string{
		"", "nonsense", `realm="r",algorithm=md5-sess`, `nonce="n",algorithm=md5`,
		`nonce="n",algorithm=md5-sess,qop="auth-conf"`, strings.Repeat("x", MaxTokenBytes+1),
	} {
		if token, err := NewClientExchange(ClientProtocol, ClientServerName, "u", "p").Respond([]byte(challenge), rand.Reader); err == nil {
			t.Errorf("challenge %.40q is answered with %q", challenge, token)
		}
	}
	if err := NewClientExchange(ClientProtocol, ClientServerName, "u", "p").Verify(nil); err == nil {
		t.Error("a proof is taken before the challenge")
	}
}

// FuzzChallenge: whatever a server asks, the answer has each directive once, with the client's values and those of
// the challenge.
func FuzzChallenge(f *testing.F) {
	f.Add([]byte(`realm="zk-sasl-md5",nonce="n",charset=utf-8,algorithm=md5-sess`))
	f.Add([]byte(`realm="a\",username=\"eve",nonce="\\",algorithm=md5-sess,qop="auth-int, auth"`))
	f.Add([]byte("nonce=n , algorithm = md5-sess"))
	f.Fuzz(func(t *testing.T, challenge []byte) {
		const user = `b"o\b,`
		token, err := NewClientExchange(ClientProtocol, ClientServerName, user, "secret").Respond(challenge, rand.Reader)
		if err != nil {
			return
		}
		given, err := parseChallenge(challenge)
		if err != nil {
			t.Fatalf("%q is answered: %v", challenge, err)
		}
		want := map[string]string{"username": user, "realm": given["realm"], "nonce": given["nonce"], "digest-uri": ClientProtocol + "/" + ClientServerName,
			"charset": charset, "nc": "00000001", "maxbuf": "65536", "qop": qopAuth}
		d, seen := directives{rest: string(token)}, map[string]bool{"cnonce": false, "response": false}
		err = d.each(func(key, value string) error {
			if once, free := seen[key]; once || !free && value != want[key] {
				t.Errorf("%q is answered with %s=%q", challenge, key, value)
			}
			seen[key] = true
			return nil
		})
		if err != nil || len(seen) != len(want)+2 || !seen["cnonce"] || !seen["response"] {
			t.Errorf("%q is answered with %q: %v", challenge, token, err)
		}
	})
}
