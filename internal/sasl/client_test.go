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
	s := NewServer(ClientProtocol, ClientServerName, users)
	for user, password := range users {
		x, c := s.Begin(), NewClientExchange(user, password)
		challenge, err := x.Step([]byte{}, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		token, err := c.Respond(challenge, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := x.Step(token, rand.Reader)
		if err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if err := c.Verify(proof); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if err := c.Verify([]byte("rspauth=" + strings.Repeat("0", 32))); err == nil {
			t.Error("a wrong proof is taken")
		}
	}
	x, c := s.Begin(), NewClientExchange("bob", "wrong")
	challenge, err := x.Step([]byte{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.Respond(challenge, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Step(token, rand.Reader); !errors.Is(err, ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestChallengesThatAreNone(t *testing.T) {
	for _, challenge := range []string{
		"", "nonsense", `realm="r",algorithm=md5-sess`, `nonce="n",algorithm=md5`,
		`nonce="n",algorithm=md5-sess,qop="auth-conf"`, strings.Repeat("x", MaxTokenBytes+1),
	} {
		if token, err := NewClientExchange("u", "p").Respond([]byte(challenge), rand.Reader); err == nil {
			t.Errorf("challenge %.40q is answered with %q", challenge, token)
		}
	}
	if err := NewClientExchange("u", "p").Verify(nil); err == nil {
		t.Error("a proof is taken before the challenge")
	}
}
