package sasl

import (
	"bytes"
	"crypto/md5"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// nonceBytes is how many random bytes a nonce has.
const nonceBytes = 30

// The only accepted values where the challenge leaves a choice to the client.
const (
	qopAuth    = "auth" // authentication; what follows is not signed
	charset    = "utf-8"
	firstCount = 1 // nonce-count: a nonce serves one login
)

// An Exchange is one login: the server answers the client's first token with a
// challenge, and the second one with the proof that the server knows the password too.
// One goroutine at a time uses it.
type Exchange struct {
	server *Server
	nonce  string // "" before the challenge
	user   string // the user that has logged in
	state  exchangeState
}

type exchangeState uint8

const (
	idle exchangeState = iota
	challenged
	loggedIn
	failed
)

// Begin returns a new exchange.
func (s *Server) Begin() *Exchange { return &Exchange{server: s} }

// User returns the name of the user that has logged in; ok is false if none has.
func (x *Exchange) User() (name string, ok bool) { return x.user, x.state == loggedIn }

// Step handles a token of the client and returns the answer. random provides the nonce,
// in the first step. The content of the first token is ignored.
//
// The error wraps ErrRefused if the client caused it; if random fails, it is the error
// of random. After an error, and after a login, every step fails.
func (x *Exchange) Step(token []byte, random io.Reader) (answer []byte, err error) {
	was := x.state
	x.state = failed
	switch {
	case was == loggedIn || was == failed:
		x.user = ""
		return nil, refused("the exchange is over")
	case len(token) > MaxTokenBytes:
		return nil, refused("token of %d bytes, more than %d", len(token), MaxTokenBytes)
	case was == idle:
		var b [nonceBytes]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return nil, fmt.Errorf("sasl: nonce: %w", err)
		}
		x.nonce = base64.StdEncoding.EncodeToString(b[:])
		x.state = challenged
		return x.challenge(), nil
	}
	r, err := parseResponse(token)
	if err != nil {
		return nil, err
	}
	if answer, err = x.judge(r); err != nil {
		return nil, err
	}
	x.user, x.state = r.username, loggedIn
	return answer, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// challenge returns the same bytes as Java's server.
func (x *Exchange) challenge() []byte {
	return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=%s,algorithm=md5-sess`, x.server.name, x.nonce, charset)
}

// judge checks that the response proves the password, and returns the server's proof.
func (x *Exchange) judge(r *response) ([]byte, error) {
	s := x.server
	switch {
	case r.charset != "" && r.charset != charset:
		return nil, refused("charset %q", r.charset)
	case r.qop != "" && r.qop != qopAuth:
		return nil, refused("quality of protection %q", r.qop)
	case r.realm != s.name:
		return nil, refused("realm %q", r.realm)
	case r.nonce != x.nonce:
		return nil, refused("not our nonce")
	case r.nc != "" && !isFirst(r.nc):
		return nil, refused("nonce count %q", r.nc)
	case !r.hasCnonce:
		return nil, refused("no cnonce")
	case !strings.EqualFold(r.uri, s.protocol+"/"+s.name):
		return nil, refused("digest-uri %q", r.uri)
	case !utf8.ValidString(r.username):
		return nil, refused("a user name that is not UTF-8")
	}
	// An unknown user takes as long as a known one, and fails with any password.
	password, known := s.users[r.username]
	secret := r.secret(password, s.name)
	want := r.proof(secret, "AUTHENTICATE:")
	equal := subtle.ConstantTimeCompare(want, []byte(r.response)) == 1
	switch {
	case !known:
		return nil, refused("unknown user %q", r.username)
	case !equal:
		return nil, refused("wrong password of user %q", r.username)
	}
	return append([]byte("rspauth="), r.proof(secret, ":")...), nil
}

// isFirst reports whether nc is the count of the first login with a nonce.
func isFirst(nc string) bool {
	n, err := strconv.ParseUint(nc, 16, 32)
	return err == nil && len(nc) == 8 && n == firstCount
}

// secret is HEX(H(A1)) of RFC 2831, section 2.1.2.1.
func (r *response) secret(password, realm string) []byte {
	inner := md5.Sum(bytes.Join([][]byte{latin1(r.username), []byte(realm), latin1(password)}, []byte(":")))
	a1 := string(inner[:]) + ":" + r.nonce + ":" + r.cnonce
	if r.hasAuthzid {
		a1 += ":" + r.authzid
	}
	return hexMD5(a1)
}

// proof returns the response-value of RFC 2831 for an A2 with this prefix.
func (r *response) proof(secret []byte, a2 string) []byte {
	return hexMD5(string(secret) + ":" + r.nonce + ":00000001:" + r.cnonce + ":" + qopAuth + ":" + string(hexMD5(a2+r.uri)))
}

func hexMD5(s string) []byte {
	sum := md5.Sum([]byte(s))
	return hex.AppendEncode(nil, sum[:])
}

// latin1 encodes s as ISO 8859-1 if it contains only its characters; otherwise s
// remains UTF-8. Names and passwords are hashed in this form, whatever charset was
// agreed on.
func latin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xFF {
			return []byte(s)
		}
		b = append(b, byte(r))
	}
	return b
}

// response is a client's answer to the challenge. Values are raw bytes.
type response struct {
	username, realm, nonce, cnonce, nc, qop, uri, response, charset, authzid string

	hasCnonce, hasAuthzid bool
}

// parseResponse reads a client's answer. A known directive must not occur twice; an
// unknown one is ignored.
func parseResponse(token []byte) (*response, error) {
	var r response
	seen := map[string]bool{}
	d := directives{rest: string(token)}
	err := d.each(func(key, value string) error {
		field := r.field(key)
		if field == nil {
			return nil
		}
		if seen[key] {
			return refused("%s twice", key)
		}
		seen[key] = true
		*field = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.hasCnonce, r.hasAuthzid = seen["cnonce"], seen["authzid"]
	return &r, nil
}

// field returns where to store the value of a directive; nil if it is unknown.
func (r *response) field(key string) *string {
	switch key {
	case "username":
		return &r.username
	case "realm":
		return &r.realm
	case "nonce":
		return &r.nonce
	case "cnonce":
		return &r.cnonce
	case "nc":
		return &r.nc
	case "qop":
		return &r.qop
	case "digest-uri":
		return &r.uri
	case "response":
		return &r.response
	case "charset":
		return &r.charset
	case "authzid":
		return &r.authzid
	}
	return nil
}

// directives splits a list of key=value and key="value" at its commas. Elements may be
// empty, and may be surrounded by white space.
type directives struct {
	rest string
}

const blanks = " \t\r\n"

// each calls f with every directive, its name in lower case, until f fails.
func (d *directives) each(f func(key, value string) error) error {
	for {
		key, value, ok, err := d.next()
		if err == nil && ok {
			err = f(strings.ToLower(key), value)
		}
		if err != nil || !ok {
			return err
		}
	}
}

// next returns the next directive; ok is false at the end.
func (d *directives) next() (key, value string, ok bool, err error) {
	d.rest = strings.TrimLeft(d.rest, blanks+",")
	if d.rest == "" {
		return "", "", false, nil
	}
	i := strings.IndexAny(d.rest, "=,\""+blanks)
	if i <= 0 {
		return "", "", false, refused("directive without a name or a value")
	}
	key = d.rest[:i]
	after, found := strings.CutPrefix(strings.TrimLeft(d.rest[i:], blanks), "=")
	if !found {
		return "", "", false, refused("directive %q has no value", key)
	}
	d.rest = strings.TrimLeft(after, blanks)
	if strings.HasPrefix(d.rest, `"`) {
		value, ok = d.quoted()
	} else {
		value, ok = d.token()
	}
	if !ok {
		return "", "", false, refused("value of directive %q", key)
	}
	if d.rest = strings.TrimLeft(d.rest, blanks); d.rest != "" && d.rest[0] != ',' {
		return "", "", false, refused("more behind the value of directive %q", key)
	}
	return key, value, true, nil
}

// token reads a value without quotes; it is not empty.
func (d *directives) token() (string, bool) {
	i := strings.IndexAny(d.rest, ","+blanks)
	if i < 0 {
		i = len(d.rest)
	}
	value := d.rest[:i]
	d.rest = d.rest[i:]
	return value, value != "" && !strings.Contains(value, `"`)
}

// quoted reads a value in quotes, in which a backslash escapes the next byte.
func (d *directives) quoted() (string, bool) {
	var b strings.Builder
	for i := 1; i < len(d.rest); i++ {
		switch d.rest[i] {
		case '"':
			d.rest = d.rest[i+1:]
			return b.String(), true
		case '\\':
			if i++; i == len(d.rest) {
				return "", false
			}
		}
		b.WriteByte(d.rest[i])
	}
	return "", false
}
