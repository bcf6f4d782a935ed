package ensemble

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// manual is docs/ops/security.md.
type manual struct {
	t    *testing.T
	text string
}

// fence is a block of a page: its language, and its lines.
var fence = regexp.MustCompile("(?s)\n```(sh)?\n(.*?)\n```\n")

// blocks returns the blocks of a section: commands, and settings.
func (m *manual) blocks(heading string, least int) (commands, settings []string) {
	m.t.Helper()
	_, section, _ := strings.Cut(m.text, "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, match := range fence.FindAllStringSubmatch(section, -1) {
		if match[1] == "sh" {
			commands = append(commands, match[2])
		} else {
			settings = append(settings, match[2])
		}
	}
	if len(commands)+len(settings) < least {
		m.t.Fatalf("the section %q has %d blocks", heading, len(commands)+len(settings))
	}
	return commands, settings
}

// kit is the directory in which the commands of the manual are run: it is empty at first.
type kit struct {
	*rig
	dir    string
	secure map[*cluster.Member]string // address of the port for clients with TLS
}

// here has words of the manual mean this machine: servers have the name 127.0.0.1, and the files are
// in the directory of the test.
func (k *kit) here(text string) string {
	return strings.NewReplacer("DNS:zk1", "IP:127.0.0.1", "zk1", "127.0.0.1", "/etc/zookeeper", k.dir).Replace(text)
}

// run runs commands of the manual.
func (k *kit) run(block string) {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), "sh", "-e", "-c", k.here(block))
	cmd.Dir = k.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("%s: %v\n%s", block, err, out)
	}
}

// dial opens a connection for a client with the files that are current.
func (k *kit) dial(addr string, patience time.Duration) (net.Conn, error) {
	return k.dialAs("client.pem", addr, patience)
}

func (k *kit) dialAs(store, addr string, patience time.Duration) (net.Conn, error) {
	own, err := tls.LoadX509KeyPair(filepath.Join(k.dir, store), filepath.Join(k.dir, store))
	if err != nil {
		return nil, err
	}
	trusted, err := os.ReadFile(filepath.Join(k.dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}
	return d.Dial("tcp", addr)
}

// served reports whether a member answers a client with a store, and returns the issuer of the
// member's certificate.
func (k *kit) served(store string, m *cluster.Member) (issuer string, ok bool) {
	nc, err := k.dialAs(store, k.secure[m], patience)
	if err != nil {
		return "", false
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, _ = nc.Write([]byte("srvr")) // it may be refused before
	answer, _ := io.ReadAll(nc)
	return nc.(*tls.Conn).ConnectionState().PeerCertificates[0].Issuer.CommonName, strings.Contains(string(answer), "Mode")
}

// restart restarts members one after the other, the leader last.
func (k *kit) restart(which func(*cluster.Member) bool) {
	k.t.Helper()
	leader, _ := k.leader()
	order := append(slices.DeleteFunc(slices.Clone(k.e.Members), func(m *cluster.Member) bool { return m == leader }), leader)
	for _, m := range order {
		if !which(m) {
			continue
		}
		k.must(m.Stop())
		k.must(m.Start())
		_, err := k.e.WaitCaughtUp(k.within(patience), m)
		k.must(err)
	}
	k.progress()
}

// await waits until every member is as it must be.
func (k *kit) await(what string, ok func(*cluster.Member) bool) {
	k.t.Helper()
	for _, m := range k.e.Members {
		if err := k.e.Until(k.within(patience), func() bool { return ok(m) }); err != nil {
			k.t.Fatalf("member %v: %s: %v\n%s", m, what, err, m.Tail())
		}
	}
	k.step("%s", what)
}

// TestSecurityManual runs what docs/ops/security.md tells an operator to type: mutual TLS from an
// empty directory, a new certificate, and a new authority, on all ports of a live ensemble whose clients
// have TLS. No session is lost.
func TestSecurityManual(t *testing.T) {
	mixed := mixtures(t, "pinfold,apache-3.9,pinfold", "apache,pinfold,apache-3.9")
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Fatal(err) // a run with servers must show it
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/ops/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := &manual{t, string(text)}
	for _, members := range mixed {
		t.Run(members, func(t *testing.T) { testSecurityManual(t, members, page) })
	}
}

func testSecurityManual(t *testing.T, members string, page *manual) {
	k := &kit{dir: t.TempDir(), secure: map[*cluster.Member]string{}, rig: &rig{t: t}}
	commands, client := page.blocks("From nothing to mutual TLS", 2)
	if n := len(strings.Split(commands[0], "\n")); n != 5 {
		t.Errorf("the manual promises five commands and has %d", n)
	}
	k.run(commands[0])
	_, peers := page.blocks("TLS between servers", 1)
	k.rig = newRig(t, members, rigOptions{lines: smallFiles(), before: func(e *cluster.Ensemble) {
		for _, m := range e.Members {
			if err := k.configure(e, m, client[0], peers[0]); err != nil {
				t.Fatal(err)
			}
		}
	}})
	var addrs []string
	for _, m := range k.e.Members {
		addrs = append(addrs, k.secure[m])
	}
	k.loadAt(addrs, k.dial)
	k.whoAmI(page)

	rotation, _ := page.blocks("Rotation", 4)
	before, err := os.ReadFile(filepath.Join(k.dir, "client.pem"))
	k.must(err)
	k.must(os.WriteFile(filepath.Join(k.dir, "old.pem"), before, 0o600))
	for i, step := range []struct {
		what   string
		issuer string // of the servers' certificates
		old    bool   // the client's first certificate is valid
	}{
		{"a new certificate", "authority", true},
		{"two authorities", "authority", true},
		{"certificates of the new authority", "authority 2", true},
		{"the new authority alone", "authority 2", false},
	} {
		k.run(rotation[i])
		k.restart(func(m *cluster.Member) bool { return m.Kind() == cluster.Apache }) // 3.8 reads files once
		k.await(step.what, func(m *cluster.Member) bool {
			_, old := k.served("old.pem", m)
			issuer, now := k.served("client.pem", m)
			return now && issuer == step.issuer && old == step.old
		})
		k.whoAmI(page)
	}
	k.restart(func(m *cluster.Member) bool { return m.Kind() != cluster.Apache })
	k.finish()
	if lost := k.l.Lost(); lost > 0 {
		t.Errorf("%d sessions were lost", lost)
	}
}

// configure gives a member the settings of the manual.
func (k *kit) configure(e *cluster.Ensemble, m *cluster.Member, client, peers string) error {
	port, err := e.FreePort()
	if err != nil {
		return err
	}
	k.secure[m] = fmt.Sprintf("127.0.0.1:%d", port)
	lines := strings.Split(k.here(client)+"\n"+k.here(peers), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "secureClientPort=") {
			lines[i] = fmt.Sprintf("secureClientPort=%d", port)
		}
	}
	if m.Kind() != cluster.Pinfold { // verifyPeers is beyond Apache; its TLS needs Netty, and reads files once unless it is told otherwise
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "ssl.quorum.verifyPeers") })
		lines = append(lines, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory", "client.certReload=true", "sslQuorumReloadCertFiles=true")
	}
	return m.Configure(lines...)
}

// whoAmI runs the manual's command of a client at a member of Pinfold.
func (k *kit) whoAmI(page *manual) {
	k.t.Helper()
	command := regexp.MustCompile("`(pinfold cli --server zk1:2281 [^`]*)`").FindStringSubmatch(page.text)
	if command == nil {
		k.t.Fatal("the manual has no command of a client")
	}
	i := slices.IndexFunc(k.e.Members, func(m *cluster.Member) bool { return m.Kind() == cluster.Pinfold })
	words := strings.Fields(strings.Replace(command[1], "zk1:2281", k.secure[k.e.Members[i]], 1))
	binary, err := filepath.Abs(programs(k.t, nil, "").Pinfold)
	k.must(err)
	cmd := exec.CommandContext(k.t.Context(), binary, append(words[1:], "whoami")...)
	cmd.Dir = k.dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "x509: CN=client,O=Example") {
		k.t.Errorf("%v: %v\n%s", cmd.Args, err, out)
	}
}
