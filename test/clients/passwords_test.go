package clients

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestPasswords has kazoo and zkCli.sh log in by DIGEST-MD5 at every server of each mixture, with right and wrong passwords
// and after the loss of the server that kazoo was connected to. Every mixture must give what one server of Apache 3.8.0 does.
func TestPasswords(t *testing.T) {
	all := mixtures(t, "apache", "apache-3.9", "pinfold", "apache,apache,apache", "pinfold,pinfold,pinfold", "pinfold,apache-3.9,apache")
	if *python == "" {
		t.Skip("-python names a Python with kazoo")
	}
	for _, members := range all {
		t.Run(members, func(t *testing.T) {
			s, jaas := startWithPasswords(t, members)
			for i, m := range s.members {
				s.testKazoo(t, m, fmt.Sprint("/own", i))
				for _, release := range []string{"", "3.9"} {
					testZkCli(t, m.Client, jaas, release)
				}
			}
			s.testMovedKazoo(t)
		})
	}
}

// startWithPasswords starts servers with the users bob and ann. jaas returns the name of a login file for a client.
func startWithPasswords(t *testing.T, members string) (s *servers, jaas func(user, password string) string) {
	t.Helper()
	dir := t.TempDir()
	const module = " { org.apache.zookeeper.server.auth.DigestLoginModule required "
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		must(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	server := write("server.conf", "Server"+module+`user_bob="b" user_ann="a"; };`+"\n")
	s = startWithFlags(t, members, " -Djava.security.auth.login.config="+server, "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider")
	return s, func(user, password string) string {
		return write(user+"-"+password+".conf", fmt.Sprintf("Client%susername=%q password=%q; };\n", module, user, password))
	}
}

// testKazoo logs in at a member as two users and with two wrong logins.
func (s *servers) testKazoo(t *testing.T, m *cluster.Member, path string) {
	for _, c := range []struct{ user, password, want string }{
		{"bob", "b", "as ['sasl:bob 31'] b'x'"},
		{"ann", "a", "NoAuthError"},
		{"ann", "b", "AuthFailedError"},
		{"eve", "b", "AuthFailedError"},
	} {
		k := startKazoo(t, m.Client, c.user, c.password, path)
		if got := k.line(); got != c.want {
			t.Errorf("member %v: kazoo as %s with the password %s: %q, want %q", m, c.user, c.password, got, c.want)
		}
		k.end()
	}
}

// testMovedKazoo kills the server that kazoo is connected to: it logs in at the next one, or at the same when it is back.
func (s *servers) testMovedKazoo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const want = "as ['sasl:bob 31'] b'x'"
	k := startKazoo(t, s.addrs(), "bob", "b", "/moved")
	if got := k.line(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	first := s.members[0] // kazoo tries them in their order
	first.Kill()
	if len(s.members) == 1 {
		must(t, first.Start())
		_, err := first.WaitServing(ctx)
		must(t, err)
	}
	k.again()
	if got := k.line(); got != want {
		t.Errorf("after the loss of its server: %q, want %q", got, want)
	}
	k.end()
}

// kazoo is a running kazoo_login.py.
type kazoo struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *strings.Builder
}

func startKazoo(t *testing.T, args ...string) *kazoo {
	t.Helper()
	k := &kazoo{t: t, cmd: exec.CommandContext(t.Context(), *python, append([]string{"kazoo_login.py"}, args...)...), err: &strings.Builder{}}
	var err error
	k.in, err = k.cmd.StdinPipe()
	must(t, err)
	out, err := k.cmd.StdoutPipe()
	must(t, err)
	k.out, k.cmd.Stderr = bufio.NewReader(out), k.err
	must(t, k.cmd.Start())
	return k
}

// line returns the next line that it prints.
func (k *kazoo) line() string {
	line, _ := k.out.ReadString('\n') // an error ends the line, and end tells why
	return strings.TrimSpace(line)
}

// again has it do its step once more.
func (k *kazoo) again() {
	k.t.Helper()
	_, err := io.WriteString(k.in, "\n")
	must(k.t, err)
}

// end waits for its end.
func (k *kazoo) end() {
	k.t.Helper()
	must(k.t, k.in.Close())
	if err := k.cmd.Wait(); err != nil {
		k.t.Errorf("kazoo: %v\n%s", err, k.err)
	}
}

// testZkCli has zkCli.sh of a release log in at a server, with the right and with a wrong password.
func testZkCli(t *testing.T, addr string, jaas func(user, password string) string, release string) {
	t.Helper()
	for _, c := range []struct{ password, want string }{{"a", "sasl: ann"}, {"wrong", "AuthFailed"}} {
		cmd := exec.CommandContext(t.Context(), root+"/scripts/apache-server", "-server", addr, "-timeout", "60000", "-waitforconnection", "whoami")
		cmd.Env = append(os.Environ(), "CLASS=org.apache.zookeeper.ZooKeeperMain", "RELEASE="+release,
			"JVMFLAGS=-Xmx200m -Dzookeeper.fips-mode=false -Djava.security.auth.login.config="+jaas("ann", c.password))
		out, _ := cmd.CombinedOutput() // its status says nothing: it is 1 or 0 after a refusal
		if !strings.Contains(string(out), c.want) || c.want == "AuthFailed" && strings.Contains(string(out), "sasl: ann") {
			t.Errorf("%s: zkCli.sh of %q with the password %s prints no %q:\n%s", addr, release, c.password, c.want, out)
		}
	}
}
