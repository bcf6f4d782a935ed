package session

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// Which passwords each kind gives and accepts. What one kind gives is accepted by the
// kinds next to it, so that an ensemble can go from one to the other server by server.
func TestPasswordKinds(t *testing.T) {
	secret, other := []byte("0123456789abcdef"), []byte("0123456789abcdeg")
	const id = zk.SessionID(0x1000123456780000)
	for _, tt := range []struct {
		name              string
		p                 Passwords
		gives, takesApach bool // the secret's; Apache's
		takesSecret       bool
	}{
		{"no secret", NewPasswords(SecretPassword, nil), false, true, false},
		{"apache", NewPasswords(ApachePassword, secret), false, true, true},
		{"both", NewPasswords(BothPasswords, secret), true, true, true},
		{"secret", NewPasswords(SecretPassword, secret), true, false, true},
	} {
		withSecret := NewPasswords(SecretPassword, secret)
		ours, apache := withSecret.Of(id), Password(id)
		given := tt.p.Of(id)
		if want := map[bool][PasswordLen]byte{true: ours, false: apache}[tt.gives]; given != want {
			t.Errorf("%s: gives %x", tt.name, given)
		}
		if tt.p.Accepts(id, apache[:]) != tt.takesApach || tt.p.Accepts(id, ours[:]) != tt.takesSecret || !tt.p.Accepts(id, given[:]) {
			t.Errorf("%s: accepts Apache's %v, the secret's %v", tt.name, tt.p.Accepts(id, apache[:]), tt.p.Accepts(id, ours[:]))
		}
		of := NewPasswords(SecretPassword, other)
		for _, wrong := range [][]byte{nil, {}, make([]byte, PasswordLen), given[:15], append(given[:], 0)} {
			if tt.p.Accepts(id, wrong) {
				t.Errorf("%s: accepts %x", tt.name, wrong)
			}
		}
		if wrong := of.Of(id); tt.p.Accepts(id, wrong[:]) || tt.p.Accepts(id+1, given[:]) {
			t.Errorf("%s: accepts the password of another secret, or session", tt.name)
		}
	}
}
