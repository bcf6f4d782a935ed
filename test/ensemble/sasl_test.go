package ensemble

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// The steps in which logins between servers are rolled out, each with the lines before it.
var loginLines = []string{"quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true"}

const loginPassword = "the password of all"

// loginFlags writes a login file with a password, and returns the flag that names it.
func loginFlags(t *testing.T, password string) string {
	t.Helper()
	const module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
	text := fmt.Sprintf("QuorumServer { %s user_zk=%q; };\nQuorumLearner { %s username=\"zk\" password=%q; };\n", module, loginPassword, module, password)
	file := filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// From 3.9.4 on, Apache's learners use DIGEST-MD5 only with this mode off.
	return smallJVM + " -Dzookeeper.fips-mode=false -Djava.security.auth.login.config=" + file
}

// TestLogins has every voter of an ensemble whose servers must log in lead, and kills it.
func TestLogins(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,apache,apache-3.9", "apache,apache-3.9,pinfold", "apache-3.9,pinfold,apache") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: slices.Concat(smallFiles(), loginLines), jvm: loginFlags(t, loginPassword)})
			r.load()
			r.leadersKilled()
			r.finish()
			r.nothingRefused()
		})
	}
}

// nothingRefused demands that no Pinfold has refused a server, and none was refused.
func (r *rig) nothingRefused() {
	r.t.Helper()
	for _, m := range r.e.Members {
		out, err := m.Output()
		r.must(err)
		for line := range strings.Lines(out) {
			if strings.Contains(line, "login refused") {
				r.t.Errorf("member %v: %s", m, line)
			}
		}
	}
}

// TestLoginsRollOut turns logins on in a live ensemble under load, and off again: all members
// restart with each step. No session may be lost, and no server be refused.
func TestLoginsRollOut(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,apache,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: smallFiles(), jvm: loginFlags(t, loginPassword)})
			r.load()
			for _, step := range []int{1, 2, 3, 2, 1, 0} {
				for _, m := range r.e.Members {
					r.step("%v restarts with %v", m, loginLines[:step])
					r.must(m.Configure(loginLines[:step]...))
					r.must(m.Stop())
					r.must(m.Start())
					_, err := r.e.WaitCaughtUp(r.within(patience), m)
					r.must(err)
					r.progress()
				}
			}
			r.finish()
			r.nothingRefused()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
		})
	}
}

// TestLoginsThatFail has a member with the wrong password, one without logins, and strangers
// at both ports of the others: no such member serves, the others go on, and their log says
// what was refused.
func TestLoginsThatFail(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "pinfold,pinfold,apache") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: slices.Concat(smallFiles(), loginLines), jvm: loginFlags(t, loginPassword)})
			r.load()
			last := r.e.Members[len(r.e.Members)-1]
			r.isRefused(last, "wrong password of user", func() { last.SetFlags(loginFlags(t, "wrong")) })
			last.SetFlags(loginFlags(t, loginPassword))
			r.isRefused(last, "begins without a login", func() {
				text, err := os.ReadFile(filepath.Join(last.Dir, "zoo.cfg"))
				r.must(err)
				plain := strings.ReplaceAll(string(text), "quorum.auth", "#")
				r.must(os.WriteFile(filepath.Join(last.Dir, "zoo.cfg"), []byte(plain), 0o644))
			})
			r.must(last.Configure())
			r.must(last.Start())
			_, err := r.e.WaitCaughtUp(r.within(patience), last)
			r.must(err)
			r.strangers(r.e.Members[0])
			r.finish()
		})
	}
}

// isRefused restarts a member as prepare has it, and demands that it does not get in. It is
// stopped in the end.
func (r *rig) isRefused(m *cluster.Member, want string, prepare func()) {
	r.t.Helper()
	r.step("%v is to be refused: %s", m, want)
	r.must(m.Stop())
	prepare()
	r.must(m.Start())
	first := r.e.Members[0]
	r.must(r.e.Until(r.within(patience), func() bool { return r.refused(first, want) }))
	r.progress()
	if s, err := m.Status(); err == nil {
		r.t.Errorf("member %v serves as %s", m, s.Mode)
	}
	r.must(m.Stop())
}

// refused reports whether a member's log has a line about a refused server with the text,
// and no password.
func (r *rig) refused(m *cluster.Member, want string) bool {
	r.t.Helper()
	out, err := m.Output()
	r.must(err)
	if strings.Contains(out, loginPassword) {
		r.t.Errorf("member %v has printed a password", m)
	}
	return slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
		return strings.Contains(l, "was refused") && strings.Contains(l, want)
	})
}

// strangers says what is no login to both ports of a member: each connection is closed, and
// the log says why.
func (r *rig) strangers(m *cluster.Member) {
	r.t.Helper()
	hello := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<64-65536), 2)
	hello = append(hello, "\x00\x00\x00\x0e127.0.0.1:3888"...)
	login := "\x5f\x24\x35\x01\x35\x01\xed\xcc\x00\x00\x00\x00"
	for _, c := range []struct{ say, want string }{
		{"\x00\x00\x00\x0b\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", "begins without a login"},
		{"", "no login came"},
		{login + "\x7f\xff\xff\xff", "a token of 2147483647 bytes"},
		{login + "\x00\x00\x00\x10cut", "a token of 16 bytes"},
		{login + "\x00\x00\x00\x00" + login + "\x00\x00\x00\x03abc", "directive"},
	} {
		for address, first := range map[string]string{m.Quorum: "", m.Election: string(hello)} {
			nc, err := net.Dial("tcp", address)
			r.must(err)
			_, err = io.WriteString(nc, first+c.say)
			r.must(err)
			r.must(nc.(*net.TCPConn).CloseWrite())
			r.must(nc.SetReadDeadline(time.Now().Add(patience)))
			if answer, err := io.ReadAll(nc); err != nil && !strings.Contains(err.Error(), "reset") {
				r.t.Errorf("%q to %s: not closed: %q, %v", c.say, address, answer, err)
			}
			nc.Close()
		}
		r.must(r.e.Until(r.within(patience), func() bool { return r.refused(m, c.want) }))
	}
	r.progress()
}
