package server

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// newSASLRig starts a server with the users bob, super and root, who is the
// superuser, and with the scheme sasl.
func newSASLRig(t *testing.T, change func(*rigSetup)) *rig {
	t.Helper()
	s := newRig(t, func(setup *rigSetup) {
		setup.cfg.Auth.SASL.Provider, setup.cfg.Auth.SASL.SuperUsers = true, []string{"root"}
		if change != nil {
			change(setup)
		}
	})
	s.srv.logins.Digest = sasl.NewServer(sasl.ClientProtocol, sasl.ClientServerName, sasl.Users{"bob": "b", "super": "s", "root": "r"}).Begin
	return s
}

// tokenReply is the answer to a token of SASL.
type tokenReply struct {
	code  zk.Code
	token string
	null  bool
}

func (c *wireClient) token(token []byte) tokenReply {
	c.t.Helper()
	r := c.call(wire.OpSASL, jute.AppendBuffer(nil, token))
	d := jute.NewDecoder(r.body)
	answer := d.Buffer()
	if d.Err() != nil || d.Len() != 0 || r.Zxid != 0 {
		c.t.Fatalf("answer of zxid %v, %d bytes left, %v", r.Zxid, d.Len(), d.Err())
	}
	return tokenReply{r.Err, string(answer), answer == nil}
}

var noncePattern = regexp.MustCompile(`nonce="([^"]+)"`)

// login sends both tokens and returns the answer to the second.
func (c *wireClient) login(user, password string) tokenReply {
	c.t.Helper()
	return c.token(c.response(user, password))
}

// response sends the first token and returns the second.
func (c *wireClient) response(user, password string) []byte {
	c.t.Helper()
	challenge := c.token([]byte{})
	nonce := noncePattern.FindStringSubmatch(challenge.token)
	if challenge.code != zk.OK || nonce == nil {
		c.t.Fatalf("challenge %+v", challenge)
	}
	const realm, uri = "zk-sasl-md5", "zookeeper/zk-sasl-md5"
	h := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
	inner := md5.Sum([]byte(user + ":" + realm + ":" + password))
	response := h(h(string(inner[:])+":"+nonce[1]+":cn") + ":" + nonce[1] + ":00000001:cn:auth:" + h("AUTHENTICATE:"+uri))
	return fmt.Appendf(nil, `username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="cn",digest-uri="%s",response=%s,qop=auth`,
		user, realm, nonce[1], uri, response)
}

func (c *wireClient) mustLogin(user, password string) {
	c.t.Helper()
	if r := c.login(user, password); r.code != zk.OK || len(r.token) != len("rspauth=")+32 {
		c.t.Fatalf("login of %s: %+v", user, r)
	}
}

// mustBeOver checks that the server has closed in order.
func (c *wireClient) mustBeOver() {
	c.t.Helper()
	if err := c.ended(); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		c.t.Errorf("the connection ended by %v", err)
	}
}

func (c *wireClient) createFor(path string, id zk.ID) zk.Code {
	c.t.Helper()
	r := wire.CreateRequest{Path: path, ACL: []zk.ACL{{Perms: zk.PermAll, ID: id}}}
	return c.call(wire.OpCreate, r.Append(nil, wire.OpCreate)).Err
}

// whoAmI returns "scheme:user", sorted.
func (c *wireClient) whoAmI() (list []string) {
	c.t.Helper()
	r := c.mustCall(wire.OpWhoAmI, nil)
	d := jute.NewDecoder(r.body)
	for range d.Count(8) {
		list = append(list, d.String()+":"+d.String())
	}
	slices.Sort(list)
	return list
}

// Each user is who it says, and may do what the ACLs let it.
func TestSASLLogin(t *testing.T) {
	s := newSASLRig(t, nil)
	bob, al := s.open(), s.open()
	bob.mustLogin("bob", "b")
	if got := bob.whoAmI(); len(got) != 2 || got[1] != "sasl:bob" {
		t.Errorf("bob is %v", got)
	}
	if code := bob.createFor("/bob", zk.ID{Scheme: "sasl", ID: "bob"}); code != zk.OK {
		t.Fatal(code)
	}
	if code := bob.createFor("/auth", zk.ID{Scheme: "auth"}); code != zk.OK {
		t.Fatal(code)
	}
	for _, path := range []string{"/bob", "/auth"} {
		if _, r := bob.get(path); r.Err != zk.OK {
			t.Errorf("bob at %s: %v", path, r.Err)
		}
		if _, r := al.get(path); r.Err != zk.ErrNoAuth {
			t.Errorf("a stranger at %s: %v", path, r.Err)
		}
	}
	root := s.open()
	root.mustLogin("root", "r")
	if got := root.whoAmI(); len(got) != 3 || got[1] != "sasl:root" || got[2] != "super:" {
		t.Errorf("root is %v", got)
	}
	if _, r := root.get("/bob"); r.Err != zk.OK {
		t.Errorf("root: %v", r.Err)
	}
}

// A failed login is answered by a null token and the error, then the end.
func TestSASLRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*rigSetup)
		code   zk.Code
		stays  bool
	}{
		{"by default", nil, zk.ErrAuthFailed, false},
		{"failed clients stay", func(s *rigSetup) { s.cfg.Auth.SASL.AllowFailed = true }, zk.OK, true},
		{"SASL is required", func(s *rigSetup) { s.cfg.Auth.RequireSASL = true }, zk.ErrSessionClosedRequireSaslAuth, false},
		{"SASL is required, failed clients would stay", func(s *rigSetup) {
			s.cfg.Auth.RequireSASL, s.cfg.Auth.SASL.AllowFailed = true, true
		}, zk.ErrSessionClosedRequireSaslAuth, false},
		{"digest is required", func(s *rigSetup) {
			s.cfg.Auth.Enforce, s.cfg.Auth.EnforceSchemes = true, []string{"digest"}
		}, zk.ErrAuthFailed, false},
	}
	for _, tt := range tests {
		for user, password := range map[string]string{"bob": "x", "nobody": "b"} {
			t.Run(tt.name+"/"+user, func(t *testing.T) {
				c := newSASLRig(t, tt.change).open()
				if r := c.login(user, password); r.code != tt.code || !r.null {
					t.Fatalf("%+v, want %v and no token", r, tt.code)
				}
				if !tt.stays {
					c.mustBeOver()
					return
				}
				if got := c.whoAmI(); len(got) != 1 {
					t.Errorf("who failed is %v", got)
				}
				if r := c.token([]byte{}); r.code != zk.OK || !r.null {
					t.Errorf("another try: %+v", r)
				}
			})
		}
	}
}

// An exchange is good for one login.
func TestSASLTwice(t *testing.T) {
	c := newSASLRig(t, nil).open()
	c.mustLogin("bob", "b")
	if r := c.token([]byte{}); r.code != zk.ErrAuthFailed || !r.null {
		t.Errorf("%+v", r)
	}
	c.mustBeOver()
}

// A name that no ACL could have does not log in.
func TestSASLUnusableName(t *testing.T) {
	s := newSASLRig(t, nil)
	s.srv.logins.Digest = sasl.NewServer(sasl.ClientProtocol, sasl.ClientServerName, sasl.Users{"a@b@c": "p"}).Begin
	c := s.open()
	if r := c.login("a@b@c", "p"); r.code != zk.ErrAuthFailed || !r.null {
		t.Errorf("%+v", r)
	}
	c.mustBeOver()
}

// A token that is null, or not there, ends the connection without an answer,
// whether anybody can log in or not.
func TestSASLNoToken(t *testing.T) {
	for name, s := range map[string]*rig{"with users": newSASLRig(t, nil), "without": newRig(t)} {
		for _, body := range [][]byte{jute.AppendBuffer(nil, nil), {}, jute.AppendInt(nil, 5), jute.AppendInt(nil, 1<<30)} {
			c := s.open()
			if r, err := c.do(wire.OpSASL, body); err == nil {
				t.Errorf("%s, body %x: answer %+v", name, body, r)
			}
		}
	}
}

// Without a login file the answer is no token and no error, as Apache's.
func TestSASLNotConfigured(t *testing.T) {
	c := newRig(t).open()
	if r := c.token([]byte("any")); r.code != zk.OK || !r.null {
		t.Errorf("%+v", r)
	}
	if !c.has("/zookeeper") {
		t.Error("the connection is of no use")
	}
}

// Who must authenticate gets one answer to whatever it asks, and no zxid is
// spent on it.
func TestEnforcedAuthentication(t *testing.T) {
	s := newSASLRig(t, func(s *rigSetup) { s.cfg.Auth.RequireSASL = true })
	for op, body := range map[wire.OpCode][]byte{
		wire.OpExists: readBody("/", false), wire.OpCreate: createBody("/n", nil, 0), wire.OpCloseSession: nil, wire.OpPing: nil, 99: nil,
	} {
		c := s.open()
		before := s.rep.LastApplied()
		if r := c.call(op, body); r.Err != zk.ErrSessionClosedRequireSaslAuth || r.Zxid != 0 || len(r.body) != 0 {
			t.Errorf("%v: %+v", op, r)
		}
		c.mustBeOver()
		if after := s.rep.LastApplied(); after != before {
			t.Errorf("%v: zxid %v, was %v", op, after, before)
		}
	}
	c := s.open()
	c.mustCall(wire.OpAuth, (&wire.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}).Append(nil))
	if r := c.call(wire.OpExists, readBody("/", false)); r.Err != zk.ErrSessionClosedRequireSaslAuth {
		t.Errorf("after a digest: %+v", r)
	}
	half := s.open()
	half.token([]byte{})
	if r := half.call(wire.OpExists, readBody("/", false)); r.Err != zk.ErrSessionClosedRequireSaslAuth {
		t.Errorf("half logged in: %+v", r)
	}
	in := s.open()
	in.mustLogin("bob", "b")
	if !in.has("/") {
		t.Error("who is logged in may not ask")
	}
}

// Of several schemes one will do.
func TestEnforcedSchemes(t *testing.T) {
	s := newSASLRig(t, func(s *rigSetup) {
		s.cfg.Auth.Enforce, s.cfg.Auth.EnforceSchemes = true, []string{"sasl", "digest"}
	})
	c := s.open()
	c.mustCall(wire.OpAuth, (&wire.AuthPacket{Scheme: "ip"}).Append(nil))
	if r := c.call(wire.OpExists, readBody("/", false)); r.Err != zk.ErrSessionClosedRequireSaslAuth {
		t.Errorf("by address: %+v", r)
	}
	d := s.open()
	d.mustCall(wire.OpAuth, (&wire.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}).Append(nil))
	if !d.has("/") {
		t.Error("a digest will not do")
	}
}

// What is pipelined behind a request that is turned away is neither answered nor
// done.
func TestEnforcedPipeline(t *testing.T) {
	s := newSASLRig(t, func(s *rigSetup) { s.cfg.Auth.RequireSASL = true })
	c := s.open()
	both := encode(encode(nil, 1, wire.OpExists, readBody("/", false)), 2, wire.OpCreate, createBody("/n", nil, 0))
	if err := c.write(both); err != nil {
		t.Fatal(err)
	}
	if r, err := c.next(); err != nil || r.Xid != 1 || r.Err != zk.ErrSessionClosedRequireSaslAuth {
		t.Errorf("first: %+v, %v", r, err)
	}
	if r, err := c.next(); err == nil {
		t.Errorf("second: %+v", r)
	}
	in := s.open()
	in.mustLogin("bob", "b")
	if in.has("/n") {
		t.Error("the second was done")
	}
}

// A login overtakes the session's writes in the pipeline, as an auth packet does,
// and what comes behind it has the new identity.
func TestSASLPipelined(t *testing.T) {
	s := newSASLRig(t, nil)
	c := s.open()
	if code := c.createFor("/mine", zk.ID{Scheme: "sasl", ID: "bob"}); code != zk.OK {
		t.Fatal(code)
	}
	if _, r := c.get("/mine"); r.Err != zk.ErrNoAuth {
		t.Fatalf("before: %v", r.Err)
	}
	all := encode(nil, 101, wire.OpCreate, createBody("/w", nil, 0))
	all = encode(all, 102, wire.OpSASL, jute.AppendBuffer(nil, c.response("bob", "b")))
	all = encode(all, 103, wire.OpGetData, readBody("/mine", false))
	if err := c.write(all); err != nil {
		t.Fatal(err)
	}
	for _, xid := range []int32{102, 101, 103} {
		if r, err := c.nextReply(); err != nil || r.Xid != xid || r.Err != zk.OK {
			t.Errorf("%+v, %v; want xid %d without an error", r, err, xid)
		}
	}
}

// Randomness is fresh for every connection.
func TestSASLNonces(t *testing.T) {
	s := newSASLRig(t, nil)
	seen := map[string]bool{}
	for range 8 {
		seen[s.open().token([]byte{}).token] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d different challenges of 8", len(seen))
	}
}

// An answer's frame says its own length, whatever the code.
func TestSASLFrame(t *testing.T) {
	c := newSASLRig(t, nil).open()
	c.token([]byte{})
	if _, err := c.send(wire.OpSASL, jute.AppendBuffer(nil, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	b, err := c.readFrame()
	want := binary.BigEndian.AppendUint32(nil, uint32(c.xid))
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0x8D, 0xFF, 0xFF, 0xFF, 0xFF) // zxid 0, -115, null
	if err != nil || !slices.Equal(b, want) {
		t.Errorf("frame %x, %v; want %x", b, err, want)
	}
}
