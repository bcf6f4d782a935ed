package ensemble

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// The lines of zoo.cfg by which the scheme sasl exists, and those of the scheme ensemble.
const (
	saslLine     = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
	ensembleLine = "authProvider.2=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"
)

type authSetting struct {
	name    string
	lines   []string
	scripts []string
}

// authSettings are configurations, and what clients do to a server with each: a line for each
// connection, of words separated by blanks. A line that begins with tls:NAME is for the port
// with TLS, where the client has the certificate of the name.
var authSettings = []authSetting{
	{"defaults", nil, []string{
		"exists auth:digest:u:p whoami exists", "auth:foo:x exists", "auth:ip:1.2.3.4 whoami", "auth:sasl:bob", "auth:x509:CN=a", "auth:ensemble:a",
		"auth:super:x", "auth:world:anyone", "auth:digest:nocolon whoami", "token exists", "login:bob:b create:sasl:bob", "login:bob:wrong exists", "login:nobody:b exists",
		"null exists",
	}},
	{"enforced digest", []string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest"}, []string{
		"exists", "ping", "close", "create:world:anyone", "auth:ip:x exists", "auth:digest:u:p exists ping exists close", "auth:foo:x exists", "token exists", "whoami",
	}},
	{"enforced digest or sasl", []string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest,sasl", saslLine}, []string{
		"exists", "auth:digest:u:p exists", "login:bob:b exists", "login:bob:wrong", "token exists",
	}},
	{"required SASL", []string{"sessionRequireClientSASLAuth=true", saslLine}, []string{
		"exists", "ping", "close", "auth:digest:u:p exists", "token exists", "login:bob:b exists create:sasl:bob exists", "login:bob:wrong exists", "login:bob:b token exists",
	}},
	{"failed logins allowed", []string{"allowSaslFailedClients=true", saslLine}, []string{
		"login:bob:wrong exists whoami", "login:bob:b exists", "login:bob:b token exists", "login:nobody:x create:sasl:bob exists",
	}},
	{"failed logins allowed and SASL required", []string{"allowSaslFailedClients=true", "sessionRequireClientSASLAuth=true", saslLine}, []string{
		"login:bob:wrong exists", "login:bob:b exists",
	}},
	{"an ensemble's name", []string{"ensembleAuthName=one, two", ensembleLine}, []string{
		"auth:ensemble:one exists", "auth:ensemble:two exists", "auth:ensemble:three exists", "auth:ensemble: exists", "exists", "create:ensemble:one exists", "counts",
	}},
	{"an ensemble without a name", []string{ensembleLine}, []string{"auth:ensemble:one exists", "auth:ensemble: exists", "counts"}},
	{"no digest", []string{"DigestAuthenticationProvider.enabled=false"}, []string{
		"auth:digest:u:p exists", "create:digest:u:x exists", "create:world:anyone exists",
	}},
	{"the class of x509", []string{"authProvider.1=org.apache.zookeeper.server.auth.X509AuthenticationProvider"}, []string{
		"create:x509:CN=a exists", "create:x509:nonsense exists", "auth:x509:CN=a exists",
	}},
	{"another hash", []string{"DigestAuthenticationProvider.digestAlg=SHA-256", "DigestAuthenticationProvider.superDigest=super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw="}, []string{
		"auth:digest:u:p create:auth:x acl exists", "auth:digest:super:secret whoami",
	}},
	{"a superuser of digest", []string{"DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4="}, []string{
		"auth:digest:u:p create:auth:x", "read", "auth:digest:super:wrong read whoami", "auth:digest:super:secret read whoami",
	}},
	{"any user of SASL", []string{"letAnySaslUserDoX=any", saslLine}, []string{
		"login:bob:b create:sasl:any", "read", "auth:digest:any:x read", "login:ann:a read whoami",
	}},
	{"a password of super", []string{"SASLAuthenticationProvider.superPassword=secret", saslLine}, []string{
		"login:bob:b create:sasl:bob", "read", "login:super:s read", "login:super:secret read whoami", "login:ann:a read",
	}},
	{"a superuser of SASL", []string{"superUser=bob", "superUser.1=eve", saslLine}, []string{
		"auth:digest:u:p create:auth:x", "read", "login:bob:b read", "login:eve:e read", "login:ann:a read",
	}},
}

// authExceptions are Pinfold's answers that differ from those of 3.9.3, by the name of the setting and the script.
var authExceptions = map[string]string{
	// 3.9.4 has the setting; 3.8.0 and 3.9.3 ignore it, and let in what it says must not be.
	"addresses in certificates: tls:elsewhere exists": "no session",
}

// TestAuthentication has clients authenticate, or not, at Apache 3.8.0 and 3.9.3 and at
// Pinfold with the same settings: every answer and every end of a connection is that of 3.9.3,
// apart from authExceptions. What 3.8.0 answers is shown beside a difference.
func TestAuthentication(t *testing.T) { testAuthentication(t, []string{"alone"}) }

// TestAuthenticationOfThree is TestAuthentication at the leader, the follower and the observer of an ensemble.
func TestAuthenticationOfThree(t *testing.T) {
	testAuthentication(t, []string{"leader", "follower", "observer"})
}

// testAuthentication does this at servers in some places: one that is alone, or all of an ensemble of three.
func testAuthentication(t *testing.T, places []string) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	kinds := []cluster.Kind{cluster.Apache, cluster.Apache39, cluster.Pinfold}
	specs := []cluster.Spec{{Kind: cluster.Apache}}
	file := filepath.Join(t.TempDir(), "jaas.conf")
	jaas := "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob=\"b\" user_ann=\"a\" user_eve=\"e\" user_super=\"s\"; };\n"
	if err := os.WriteFile(file, []byte(jaas), 0o600); err != nil {
		t.Fatal(err)
	}
	progs := programs(t, specs, smallJVM+" -Djava.security.auth.login.config="+file)
	c := newCertificates(t)
	for _, s := range slices.Concat(authSettings, certificateSettings) {
		t.Run(s.name, func(t *testing.T) {
			said := make([][]string, len(kinds))
			var wg sync.WaitGroup
			for i, kind := range kinds {
				wg.Go(func() { said[i] = s.answersOf(t, progs, kind, c, places) })
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			for i := range said[0] {
				place, script := places[i/len(s.scripts)], s.scripts[i%len(s.scripts)]
				t.Logf("%s, %s: %s", place, script, said[2][i])
				want, excepted := authExceptions[s.name+": "+script]
				if !excepted {
					want = said[1][i]
				}
				if said[2][i] != want || excepted && said[1][i] == want {
					t.Errorf("%s, %s\n  3.8.0:   %s\n  3.9.3:   %s\n  Pinfold: %s", place, script, said[0][i], said[1][i], said[2][i])
				}
			}
		})
	}
}

// answersOf starts servers of a kind with the settings, and returns what those in some places have answered to the
// scripts, place by place. It returns less if something fails.
func (s authSetting) answersOf(t *testing.T, progs cluster.Programs, kind cluster.Kind, c *certificates, places []string) (said []string) {
	lines, secure := s.lines, slices.Contains(s.lines, tlsLine)
	if secure {
		lines = append(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == tlsLine }), c.lines...)
	}
	specs := []cluster.Spec{{Kind: kind}}
	if len(places) > 1 {
		specs = append(specs, cluster.Spec{Kind: kind}, cluster.Spec{Kind: kind, Observer: true})
	}
	e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: specs, Programs: progs, Lines: lines})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer e.Close()
	r, ports := &rig{t: t, e: e}, map[*cluster.Member]*authPorts{}
	for _, m := range e.Members {
		if ports[m], err = newAuthPorts(e, m, c.clients, secure); err != nil {
			t.Error(err)
			return nil
		}
	}
	if err := e.Start(r.within(patience)); err != nil {
		t.Error(err)
		return nil
	}
	for i, place := range places {
		m, err := memberAt(r, place)
		if err == nil {
			err = ports[m].wait(r)
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		ports[m].node = fmt.Sprint("/n", i)
		for _, script := range s.scripts {
			said = append(said, ports[m].talk(t, script))
		}
	}
	return said
}

// memberAt returns the member of an ensemble in a place.
func memberAt(r *rig, place string) (*cluster.Member, error) {
	if place == "alone" {
		return r.e.Members[0], nil
	}
	leader, err := r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(r.e.Members, func(m *cluster.Member) bool {
		switch place {
		case "leader":
			return m == leader
		case "follower":
			return m != leader && !m.Observer
		}
		return m.Observer
	})
	return r.e.Members[i], nil
}

// talk connects, does what the words of a script say, and returns the answers, up to the
// end of the connection.
func (a *authPorts) talk(t *testing.T, script string) string {
	nc, script, err := a.dial(script)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	c := &authClient{Conn: frames.New(nc), addr: a.plain, node: a.node}
	if _, err := c.Connect(wire.ConnectRequest{TimeoutMillis: 30000, HasReadOnly: true}); err != nil {
		return "no session"
	}
	var said []string
	for word := range strings.FieldsSeq(script) {
		answer, err := c.do(word)
		if err != nil {
			return strings.Join(append(said, "closed"), ", ")
		}
		said = append(said, answer)
	}
	if _, err := c.do("exists"); err != nil {
		said = append(said, "closed")
	}
	return strings.Join(said, ", ")
}

type authClient struct {
	*frames.Conn
	addr string
	node string // the znode that scripts create and read
	xid  int32
}

// do does one word of a script.
func (c *authClient) do(word string) (string, error) {
	f := strings.SplitN(word, ":", 3)
	f = append(f, "", "")
	switch f[0] {
	case "auth":
		return c.ask(wire.XidAuth, wire.OpAuth, (&wire.AuthPacket{Scheme: f[1], Auth: []byte(f[2])}).Append(nil))
	case "ping":
		return c.ask(wire.XidPing, wire.OpPing, nil)
	case "login":
		return c.login(f[1], f[2])
	case "token":
		return c.request(wire.OpSASL, jute.AppendBuffer(nil, []byte("nonsense")))
	case "null":
		return c.request(wire.OpSASL, jute.AppendInt(nil, -1))
	case "create":
		q := wire.CreateRequest{Path: c.node, ACL: []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: f[1], ID: f[2]}}}}
		return c.request(wire.OpCreate, q.Append(nil, wire.OpCreate))
	case "read":
		return c.request(wire.OpGetData, frames.Path(c.node, false))
	case "acl":
		return c.show(wire.OpGetACL, jute.AppendString(nil, c.node))
	case "whoami":
		return c.show(wire.OpWhoAmI, nil)
	case "close":
		return c.request(wire.OpCloseSession, nil)
	case "counts":
		return c.counts()
	}
	return c.request(wire.OpExists, frames.Path("/", false))
}

func (c *authClient) request(op wire.OpCode, body []byte) (string, error) {
	c.xid++
	return c.ask(c.xid, op, body)
}

// ask sends a request and returns what the header of the answer says.
func (c *authClient) ask(xid int32, op wire.OpCode, body []byte) (string, error) {
	r, err := c.Call(xid, op, body)
	return fmt.Sprintf("%v %d%s", op, r.Err, map[bool]string{true: " of zxid 0"}[r.Err != 0 && r.Zxid == 0]), err
}

// show is ask with the text of the answer, whose identities come in any order.
func (c *authClient) show(op wire.OpCode, body []byte) (string, error) {
	c.xid++
	r, err := c.Call(c.xid, op, body)
	text := fmt.Sprintf("%v %d", op, r.Err)
	if op == wire.OpWhoAmI && err == nil && r.Err == 0 {
		return text + " " + identities(r.Body), nil
	}
	for _, known := range []string{"digest", "super", "sasl", "x509", "CN=bob", "CN=eve", "ip", "127.0.0.1", "u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA="} {
		if strings.Contains(string(r.Body), known) {
			text += " " + known
		}
	}
	return text, err
}

// identities returns those in an answer to whoAmI, in the order of their text.
func identities(body []byte) string {
	d := jute.NewDecoder(body)
	var list []string
	for range d.Int() {
		list = append(list, fmt.Sprintf("%s:%s", d.String(), d.String()))
	}
	slices.Sort(list)
	return fmt.Sprintf("%q %v", list, d.Err())
}

// counts returns the lines of mntr about the scheme ensemble.
func (c *authClient) counts() (string, error) {
	nc, err := net.Dial("tcp", c.addr)
	if err != nil {
		return "", err
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("mntr")); err != nil {
		return "", err
	}
	text, err := io.ReadAll(nc)
	var said []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "zk_ensemble_auth_") {
			said = append(said, strings.Join(strings.Fields(line), " "))
		}
	}
	slices.Sort(said) // 3.8.0 has an order of its own
	return strings.Join(said, ", "), err
}

// login is a whole login by DIGEST-MD5.
func (c *authClient) login(user, password string) (string, error) {
	c.xid++
	r, err := c.Call(c.xid, wire.OpSASL, jute.AppendBuffer(nil, []byte{}))
	if err != nil || r.Err != 0 {
		return fmt.Sprintf("challenge %d", r.Err), err
	}
	d := jute.NewDecoder(r.Body)
	x := sasl.NewClientExchange(sasl.ClientProtocol, sasl.ClientServerName, user, password)
	token, err := x.Respond(d.Buffer(), rand.Reader)
	if err != nil {
		return "no challenge", nil
	}
	c.xid++
	if r, err = c.Call(c.xid, wire.OpSASL, jute.AppendBuffer(nil, token)); err != nil {
		return "", err
	}
	d = jute.NewDecoder(r.Body)
	proof := d.Buffer()
	return fmt.Sprintf("login %d, proved %v, null %v", r.Err, x.Verify(proof) == nil, proof == nil), nil
}
