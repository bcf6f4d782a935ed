package sasl

import (
	"bytes"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A ClientExchange is the client's half of an exchange by DIGEST-MD5, for one
// connection.
type ClientExchange struct {
	uri            string
	user, password string
	want           []byte // the server's proof that it knows the password
}

// NewClientExchange begins a login to the service with that protocol and name. The
// first token to the server is empty.
func NewClientExchange(protocol, name, user, password string) *ClientExchange {
	return &ClientExchange{uri: protocol + "/" + name, user: user, password: password}
}

// Respond answers the server's challenge. random provides the client's nonce. The error
// reports an invalid challenge, or one that asks for something unsupported.
func (x *ClientExchange) Respond(challenge []byte, random io.Reader) ([]byte, error) {
	given, err := parseChallenge(challenge)
	if err != nil {
		return nil, err
	}
	var b [nonceBytes]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return nil, fmt.Errorf("sasl: nonce: %w", err)
	}
	r := &response{
		username: x.user, realm: given["realm"], nonce: given["nonce"], hasCnonce: true,
		cnonce: base64.StdEncoding.EncodeToString(b[:]),
		uri:    x.uri,
	}
	secret := r.secret(x.password, r.realm)
	x.want = append([]byte("rspauth="), r.proof(secret, ":")...)
	return fmt.Appendf(nil, `charset=%s,username=%s,realm=%s,nonce=%s,nc=%08x,cnonce=%s,digest-uri=%s,maxbuf=65536,response=%s,qop=%s`,
		charset, quote(r.username), quote(r.realm), quote(r.nonce), firstCount, quote(r.cnonce), quote(r.uri),
		r.proof(secret, "AUTHENTICATE:"), qopAuth), nil
}

// Verify checks the server's last token, which proves that the server knows the
// password too.
func (x *ClientExchange) Verify(token []byte) error {
	if x.want == nil || subtle.ConstantTimeCompare(bytes.TrimSpace(token), x.want) != 1 {
		return errors.New("sasl: the server does not prove that it knows the password")
	}
	return nil
}

// parseChallenge reads the server's challenge.
func parseChallenge(token []byte) (map[string]string, error) {
	if len(token) > MaxTokenBytes {
		return nil, fmt.Errorf("sasl: challenge of %d bytes, more than %d", len(token), MaxTokenBytes)
	}
	given := map[string]string{}
	d := directives{rest: string(token)}
	err := d.each(func(key, value string) error {
		given[key] = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch qop, asked := given["qop"]; {
	case given["nonce"] == "":
		return nil, errors.New("sasl: challenge without a nonce")
	case given["algorithm"] != "md5-sess":
		return nil, fmt.Errorf("sasl: algorithm %q", given["algorithm"])
	case asked && !strings.Contains(","+strings.ReplaceAll(qop, " ", "")+",", ","+qopAuth+","):
		return nil, fmt.Errorf("sasl: quality of protection %q", qop)
	}
	return given, nil
}

// quote puts s in quotes.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
