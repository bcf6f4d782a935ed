package sasl

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

func testUsers() Users {
	return Users{"bob": "bobsecret", "é": "ü", "Ωmega": "Ω", `q"u\o,te`: `a"b`, "empty": "", "al@R": "p"}
}

// chance returns what makes the given nonce.
func chance(t testing.TB, nonce string) io.Reader {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(nonce)
	if err != nil || len(b) != nonceBytes {
		t.Fatalf("nonce %q: %d bytes, %v", nonce, len(b), err)
	}
	return bytes.NewReader(b)
}

const testNonce = "44kOu5tNDzLWd6bhE35ZyoFMpgdtyoQB5PI/ZH96"

// challengedBy returns an exchange whose challenge has the nonce.
func challengedBy(t testing.TB, s *Server, nonce string) *Exchange {
	t.Helper()
	x := s.Begin()
	answer, err := x.Step(nil, chance(t, nonce))
	want := `realm="zk-sasl-md5",nonce="` + nonce + `",charset=utf-8,algorithm=md5-sess`
	if err != nil || string(answer) != want {
		t.Fatalf("challenge %q, %v; want %q", answer, err, want)
	}
	return x
}

func testServer() *Server { return NewServer(ClientProtocol, ClientServerName, testUsers()) }

// TestJavaClients replays what Java's own client and server said to each other.
func TestJavaClients(t *testing.T) {
	tests := []struct{ user, nonce, token, rspauth string }{
		{"bob", testNonce, `charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="44kOu5tNDzLWd6bhE35ZyoFMpgdtyoQB5PI/ZH96",nc=00000001,cnonce="ZZl/BiH6Pe/jCGwAZSo7/qEXp04DS0dzEJsBoSQu",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=e9d1fe8b99fb4f7926ce6def21e682f6,qop=auth`,
			"193467d76680099d1400b61dd8b131ae"},
		{"é", "VuI9g7+wjVFTZpgQmFkXHPy0G9+UGNp+kIInyMME", `charset=utf-8,username="é",realm="zk-sasl-md5",nonce="VuI9g7+wjVFTZpgQmFkXHPy0G9+UGNp+kIInyMME",nc=00000001,cnonce="ojLI5qA5bOPnpMSGXjfr0+NNGmgRncK4Mu9gdv4+",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=b8b3f8f4b534ba9fe8f07d5039bc3f54,qop=auth`,
			"041045202f0a878e4a0d7706af0bf7e7"},
		{"Ωmega", "/GK+xiyThfmirAQK8mo1GwT4HmLvxKeIf1y7nlLH", `charset=utf-8,username="Ωmega",realm="zk-sasl-md5",nonce="/GK+xiyThfmirAQK8mo1GwT4HmLvxKeIf1y7nlLH",nc=00000001,cnonce="JjCZKMeg//NsU7UerVJiJ/MdqoDB1SIVTqLhmDdg",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=2df0d32d7cd2ed80cddb3d1ad713732e,qop=auth`,
			"f2d0dedfeb014bb66427e8206f97d9ca"},
		{`q"u\o,te`, "S5rpnwv1SgbTo7pFTArsP9e7Gh6XhVhMa4vKK0zy", `charset=utf-8,username="q\"u\\o,te",realm="zk-sasl-md5",nonce="S5rpnwv1SgbTo7pFTArsP9e7Gh6XhVhMa4vKK0zy",nc=00000001,cnonce="xPzqUHtql8P/MqQkgZRHNXt6BmHNfofT3CLvU3tU",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=418c3f1d55d2898c01fdc216c61b9290,qop=auth`,
			"f76072a4639031e476897e123e0567a2"},
		{"empty", "omEETreHw/rYO8qzSmQJXkh/WZLoHaAM6XM4oIlT", `charset=utf-8,username="empty",realm="zk-sasl-md5",nonce="omEETreHw/rYO8qzSmQJXkh/WZLoHaAM6XM4oIlT",nc=00000001,cnonce="hgtu3gLPTNifswM0B6i/e3kHYC0+rOw19RMCl3Br",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=42ed88a8e4675b51e57294219eac9168,qop=auth`,
			"c2065fc129e97d8af94a242b33e1b5d1"},
		{"bob", "JBdtz8bLQiWQ/2NTvtf8kLD3jeONQjZiTh0yxJ8L", `charset=utf-8,username="bob",realm="zk-sasl-md5",nonce="JBdtz8bLQiWQ/2NTvtf8kLD3jeONQjZiTh0yxJ8L",nc=00000001,cnonce="QyqIV3beTEpJHgHH9p0d0DlK2H1GzJl5nwVvdeej",digest-uri="zookeeper/zk-sasl-md5",maxbuf=65536,response=402f6424335130744ac5c052c2fec09d,qop=auth,authzid="root"`,
			"5665d670a6f24408748188de375e75b3"},
	}
	s := testServer()
	for _, tt := range tests {
		x := challengedBy(t, s, tt.nonce)
		answer, err := x.Step([]byte(tt.token), nil)
		if err != nil || string(answer) != "rspauth="+tt.rspauth {
			t.Errorf("%s: answer %q, %v; want rspauth=%s", tt.user, answer, err, tt.rspauth)
		}
		if user, ok := x.User(); !ok || user != tt.user {
			t.Errorf("logged in as %q, %v; want %q", user, ok, tt.user)
		}
	}
}

// TestRFC2831 is the two examples of section 4.
func TestRFC2831(t *testing.T) {
	const realm = "elwood.innosoft.com"
	tests := []struct{ protocol, nonce, token, rspauth string }{
		{"imap", "OA6MG9tEQGm2hh", `charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth`,
			"ea40f60335c427b5527b84dbabcdfffd"},
		{"acap", "OA9BSXrbuRhWay", `charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA9BSXrbuRhWay",nc=00000001,cnonce="OA9BSuZWMSpW8m",digest-uri="acap/elwood.innosoft.com",response=6084c6db3fede7352c551284490fd0fc,qop=auth`,
			"2f0b3d7c3c2e486600ef710726aa2eae"},
	}
	for _, tt := range tests {
		x := NewServer(tt.protocol, realm, Users{"chris": "secret"}).Begin()
		x.nonce, x.state = tt.nonce, challenged
		answer, err := x.Step([]byte(tt.token), nil)
		if err != nil || string(answer) != "rspauth="+tt.rspauth {
			t.Errorf("%s: %q, %v; want rspauth=%s", tt.protocol, answer, err, tt.rspauth)
		}
	}
}

// login is a client of its own: what it says, and what goes into the hash.
type login struct {
	user, password     string
	realm, nonce, nc   string
	cnonce, uri, qop   string
	authzid            *string
	userHash, passHash []byte // as hashed; nil is the text
	replace            map[string]string
	omit               []string
	extra              string
}

func bob() login {
	return login{
		user: "bob", password: "bobsecret", realm: "zk-sasl-md5", nonce: testNonce, nc: "00000001", cnonce: "cn",
		uri: "zookeeper/zk-sasl-md5", qop: "auth", replace: map[string]string{},
	}
}

func (l login) hash(a2 string) string {
	h := func(s string) string { sum := md5.Sum([]byte(s)); return string(sum[:]) }
	hex := func(s string) string { return fmt.Sprintf("%x", s) }
	user, password := l.user, l.password
	if l.userHash != nil {
		user = string(l.userHash)
	}
	if l.passHash != nil {
		password = string(l.passHash)
	}
	a1 := h(user+":"+l.realm+":"+password) + ":" + l.nonce + ":" + l.cnonce
	if l.authzid != nil {
		a1 += ":" + *l.authzid
	}
	return hex(h(hex(h(a1)) + ":" + l.nonce + ":" + l.nc + ":" + l.cnonce + ":" + l.qop + ":" + hex(h(a2+l.uri))))
}

func (l login) token() []byte {
	all := map[string]string{
		"charset": "utf-8", "username": `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(l.user) + `"`,
		"realm": `"` + l.realm + `"`, "nonce": `"` + l.nonce + `"`, "nc": l.nc, "cnonce": `"` + l.cnonce + `"`,
		"digest-uri": `"` + l.uri + `"`, "maxbuf": "65536", "response": l.hash("AUTHENTICATE:"), "qop": l.qop,
	}
	if l.authzid != nil {
		all["authzid"] = `"` + *l.authzid + `"`
	}
	maps.Copy(all, l.replace)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(l.omit, key) {
			list = append(list, key+"="+all[key])
		}
	}
	return []byte(strings.Join(list, ",") + l.extra)
}

// TestResponses has what Apache 3.8.0 does with each response, but for those
// marked: they pass there.
func TestResponses(t *testing.T) {
	with := func(change func(*login)) login { l := bob(); change(&l); return l }
	set := func(key, value string) login { return with(func(l *login) { l.replace[key] = value }) }
	without := func(key string) login { return with(func(l *login) { l.omit = []string{key} }) }
	extra := func(s string) login { return with(func(l *login) { l.extra = s }) }
	text := func(s string) *string { return &s }
	tests := []struct {
		name string
		l    login
		user string // "" is refused
	}{
		{"right", bob(), "bob"},
		{"wrong password", with(func(l *login) { l.password = "x" }), ""},
		{"empty password", with(func(l *login) { l.password = "" }), ""},
		{"unknown user", with(func(l *login) { l.user = "nobody" }), ""},
		{"unknown user, no password", with(func(l *login) { l.user, l.password = "nobody", "" }), ""},
		{"user in capitals", with(func(l *login) { l.user = "Bob" }), ""},

		{"authzid counts for nothing", with(func(l *login) { l.authzid = text("root") }), "bob"},
		{"empty authzid", with(func(l *login) { l.authzid = text("") }), "bob"},
		{"authzid of a name with a realm; Apache gives root", with(func(l *login) {
			l.user, l.password, l.authzid = "al@R", "p", text("root")
		}), "al@R"},
		{"authzid that was not hashed", extra(`,authzid="root"`), ""},

		{"hashed as Latin-1", with(func(l *login) {
			l.user, l.password, l.userHash, l.passHash = "é", "ü", []byte{0xE9}, []byte{0xFC}
		}), "é"},
		{"hashed as UTF-8", with(func(l *login) { l.user, l.password = "é", "ü" }), ""},
		{"sent as Latin-1", with(func(l *login) {
			l.user, l.password, l.userHash, l.passHash = "\xE9", "ü", []byte{0xE9}, []byte{0xFC}
			l.omit = []string{"charset"}
		}), ""},
		{"no charset, sent as UTF-8", with(func(l *login) {
			l.user, l.password, l.userHash, l.passHash = "é", "ü", []byte{0xE9}, []byte{0xFC}
			l.omit = []string{"charset"}
		}), "é"},

		{"no realm", without("realm"), ""},
		{"no realm, hashed so", with(func(l *login) { l.realm, l.omit = "", []string{"realm"} }), ""},
		{"other realm", with(func(l *login) { l.realm = "other" }), ""},
		{"no nonce", without("nonce"), ""},
		{"other nonce", with(func(l *login) { l.nonce = "OA6MG9tEQGm2hh" }), ""},
		{"no cnonce", without("cnonce"), ""},
		{"empty cnonce", with(func(l *login) { l.cnonce = "" }), "bob"},
		{"no count", without("nc"), "bob"},
		{"second count", with(func(l *login) { l.nc = "00000002" }), ""},
		{"short count", with(func(l *login) { l.nc = "1" }), ""},
		{"other count than was hashed; passes on Apache", set("nc", "00000002"), ""},
		{"count of letters; passes on Apache", set("nc", "zz"), ""},

		{"no qop", without("qop"), "bob"},
		{"qop in quotes", set("qop", `"auth"`), "bob"},
		{"auth-int", with(func(l *login) { l.qop = "auth-int" }), ""},
		{"auth-conf", with(func(l *login) { l.qop = "auth-conf" }), ""},
		{"AUTH", with(func(l *login) { l.qop = "AUTH" }), ""},
		{"uri in other case", with(func(l *login) { l.uri = "ZooKeeper/ZK-sasl-md5" }), "bob"},
		{"uri with a third part", with(func(l *login) { l.uri += "/x" }), ""},
		{"uri of another server", with(func(l *login) { l.uri = "zookeeper/other" }), ""},
		{"no uri", without("digest-uri"), ""},
		{"charset in quotes", set("charset", `"utf-8"`), "bob"},
		{"charset in capitals", set("charset", "UTF-8"), ""},
		{"other charset", set("charset", "iso-8859-1"), ""},
		{"no maxbuf", without("maxbuf"), "bob"},
		{"no response", without("response"), ""},
		{"response in quotes", set("response", `"`+bob().hash("AUTHENTICATE:")+`"`), "bob"},
		{"response in capitals", set("response", strings.ToUpper(bob().hash("AUTHENTICATE:"))), ""},

		{"user twice", extra(`,username="bob"`), ""},
		{"count twice; passes on Apache", extra(",nc=00000001"), ""},
		{"unknown directives", extra(`,foo="b,a\"r",foo=1`), "bob"},
		{"comma at the end", extra(","), "bob"},
		{"empty element", extra(",,cipher=rc4"), "bob"},
		{"user without quotes", set("username", "bob"), "bob"},
		{"blanks", extra("\r\n ,\t foo \t= bar \n"), "bob"},
		{"quote not closed", extra(`,foo="x`), ""},
		{"backslash at the end", extra(`,foo="x\`), ""},
		{"no value", extra(",foo="), ""},
		{"no =; passes on Apache", extra(",foo"), ""},
		{"junk behind a quote", extra(`,foo="x"y`), ""},
		{"quote in a token", extra(`,foo=x"y`), ""},
		{"no name", extra(`,=x`), ""},
		{"quote as a name", extra(`,"x"=x`), ""},
	}
	s := testServer()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := challengedBy(t, s, testNonce)
			answer, err := x.Step(tt.l.token(), nil)
			user, ok := x.User()
			if user != tt.user || ok != (tt.user != "") || ok != (err == nil) || !ok && answer != nil {
				t.Fatalf("logged in as %q, %v, answer %q, %v; want %q", user, ok, answer, err, tt.user)
			}
			if ok {
				if want := "rspauth=" + tt.l.hash(":"); string(answer) != want {
					t.Errorf("answer %q, want %q", answer, want)
				}
				return
			}
			if !errors.Is(err, ErrRefused) {
				t.Errorf("error %v is not ErrRefused", err)
			}
			for _, password := range testUsers() {
				if len(password) > 1 && strings.Contains(err.Error(), password) { // invariant 3
					t.Errorf("error %q has a password", err)
				}
			}
		})
	}
}

// TestKeysInAnyCase: names of directives are.
func TestKeysInAnyCase(t *testing.T) {
	x := challengedBy(t, testServer(), testNonce)
	token := strings.NewReplacer("username=", "UserName=", "realm=", "REALM=").Replace(string(bob().token()))
	if _, err := x.Step([]byte(token), nil); err != nil {
		t.Error(err)
	}
}

// Test1OnlyTheListed: a name that is not listed gets nothing from who was there
// before, by the same server or the same exchange.
func Test1OnlyTheListed(t *testing.T) {
	s := testServer()
	if _, err := challengedBy(t, s, testNonce).Step(bob().token(), nil); err != nil {
		t.Fatal(err)
	}
	ghost := bob()
	ghost.user = "ghost"
	x := challengedBy(t, s, testNonce)
	if _, err := x.Step(ghost.token(), nil); !errors.Is(err, ErrRefused) {
		t.Errorf("a ghost with bob's password: %v", err)
	}
	if user, ok := x.User(); ok || user != "" {
		t.Errorf("the ghost is logged in as %q", user)
	}
}

// The map that a server was made with is not its own.
func TestServerKeepsACopy(t *testing.T) {
	users := testUsers()
	s := NewServer(ClientProtocol, ClientServerName, users)
	users["bob"] = "changed"
	if _, err := challengedBy(t, s, testNonce).Step(bob().token(), nil); err != nil {
		t.Error(err)
	}
}

func Test2AnExchangeIsGoodForOne(t *testing.T) {
	s := testServer()
	wrong := bob()
	wrong.password = "x"
	for name, second := range map[string][]byte{"after a login": bob().token(), "after a failure": wrong.token(), "after nothing": {}} {
		x := challengedBy(t, s, testNonce)
		_, _ = x.Step(second, nil) // judged by TestResponses
		for _, token := range [][]byte{bob().token(), nil} {
			if answer, err := x.Step(token, chance(t, testNonce)); !errors.Is(err, ErrRefused) || answer != nil {
				t.Errorf("%s: %q, %v", name, answer, err)
			}
			if _, ok := x.User(); ok {
				t.Errorf("%s: still logged in", name)
			}
		}
	}
}

func Test4LongTokens(t *testing.T) {
	s := testServer()
	padded := func(n int) []byte {
		token := append(bob().token(), `,foo="`...)
		return append(append(token, bytes.Repeat([]byte("x"), n-len(token)-1)...), '"')
	}
	if _, err := challengedBy(t, s, testNonce).Step(padded(MaxTokenBytes), nil); err != nil {
		t.Errorf("longest token: %v", err)
	}
	if _, err := challengedBy(t, s, testNonce).Step(padded(MaxTokenBytes+1), nil); !errors.Is(err, ErrRefused) {
		t.Errorf("longer token: %v", err)
	}
	if _, err := s.Begin().Step(make([]byte, MaxTokenBytes+1), chance(t, testNonce)); !errors.Is(err, ErrRefused) {
		t.Errorf("longer first token: %v", err)
	}
}

func TestNoRandomness(t *testing.T) {
	_, err := testServer().Begin().Step(nil, strings.NewReader("short"))
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrRefused) {
		t.Errorf("error %v", err)
	}
}

// The content of the first token does not count; the nonce is chance's.
func TestFirstToken(t *testing.T) {
	s := testServer()
	a, err := s.Begin().Step([]byte("anything"), chance(t, testNonce))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Begin().Step(nil, chance(t, "VuI9g7+wjVFTZpgQmFkXHPy0G9+UGNp+kIInyMME"))
	if err != nil || bytes.Equal(a, b) {
		t.Errorf("second challenge %q, %v", b, err)
	}
}

// FuzzStep: no token panics, and none but one with the right hash logs in.
func FuzzStep(f *testing.F) {
	f.Add(bob().token())
	f.Add([]byte(`username="\"",realm=x , nonce = "`))
	f.Add([]byte(`,=,"",a="b"c`))
	s := testServer()
	right := bob().hash("AUTHENTICATE:")
	f.Fuzz(func(t *testing.T, token []byte) {
		x := challengedBy(t, s, testNonce)
		answer, err := x.Step(token, nil)
		user, ok := x.User()
		switch {
		case ok != (err == nil):
			t.Fatalf("logged in %v with error %v", ok, err)
		case ok && (user != "bob" || !strings.Contains(string(token), right)):
			// Another cnonce would need another hash, which chance does not find.
			t.Fatalf("logged in as %q by %q", user, token)
		case ok && !strings.HasPrefix(string(answer), "rspauth="):
			t.Fatalf("answer %q", answer)
		}
	})
}
