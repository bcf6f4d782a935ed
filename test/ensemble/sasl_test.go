package ensemble

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
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
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// The steps in which logins between servers are rolled out, each with the lines before it.
var loginLines = []string{"quorum.auth.enableSasl=true", "quorum.auth.learnerRequireSasl=true", "quorum.auth.serverRequireSasl=true"}

const loginPassword = "the password of all"

// loginFlags are the flags of members that log in with a password.
func loginFlags(t *testing.T, password string) string {
	t.Helper()
	// From 3.9.4 on, Apache's learners use DIGEST-MD5 only with this mode off.
	return smallJVM + " -Dzookeeper.fips-mode=false" + loginFile(t, password)
}

// loginFile writes a login file with a password, and returns the flag that names it, after a blank.
func loginFile(t *testing.T, password string) string {
	t.Helper()
	const module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
	text := fmt.Sprintf("QuorumServer { %s user_zk=%q; };\nQuorumLearner { %s username=\"zk\" password=%q; };\n", module, loginPassword, module, password)
	file := filepath.Join(t.TempDir(), "jaas.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return " -Djava.security.auth.login.config=" + file
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
// what was refused. A flood of logins keeps no member out.
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
			leader, other := r.leader()
			r.flood(leader, other)
			r.progress()
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

// The logins of a flood. None of them may succeed.
const floodLogins = 240

// flood has attackers at another address log in at both ports of a member, many at a time, with tokens that
// are cut, repeated, huge, out of order, guessed, and recorded from a login that has succeeded. No
// login succeeds, and a member that is restarted meanwhile comes back.
func (r *rig) flood(m, restarted *cluster.Member) {
	r.t.Helper()
	recorded := r.logIn(m.Quorum, loginPassword, nil)
	if recorded == nil {
		r.t.Fatal("a login with the password fails")
	}
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			for i := worker; i < floodLogins; i += 16 {
				address := []string{m.Quorum, m.Election}[i/16%2]
				switch i / 32 % 3 {
				case 0:
					r.says(address, loginPacket(0, nil), []string{
						loginPacket(0, []byte("cut"))[:17], loginPacket(1, nil), loginPacket(0, make([]byte, 80<<10)), loginHead + "\x00\x00\x00\x00\x7f\xff\xff\xff",
						strings.Repeat(loginPacket(0, nil), 20), loginPacket(-1, []byte{}), loginPacket(0, []byte("username=")),
					}[i/96%7])
				case 1:
					if r.logIn(address, fmt.Sprint("guess ", i), nil) != nil {
						r.t.Error("a wrong password is accepted")
					}
				case 2:
					if r.logIn(address, "", recorded) != nil {
						r.t.Error("a recorded login is accepted")
					}
				}
			}
		})
	}
	r.must(restarted.Stop())
	r.must(restarted.Start())
	_, err := r.e.WaitCaughtUp(r.within(patience), restarted)
	r.must(err)
	all.Wait()
	r.must(r.e.Until(r.within(patience), func() bool { return r.refused(m, "127.0.0.99") }))
}

// loginHead begins every packet of a login.
const loginHead = "\x5f\x24\x35\x01\x35\x01\xed\xcc"

func loginPacket(status int32, token []byte) string {
	return loginHead + string(jute.AppendBuffer(jute.AppendInt(nil, status), token))
}

// attacker connects to a port from the attackers' address; on an election port it says the first message.
func (r *rig) attacker(address string) net.Conn {
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 99)}}).Dial("tcp", address)
	if err != nil {
		return nil // there is no leader at this moment
	}
	_ = nc.SetDeadline(time.Now().Add(patience)) // fails only if it is closed
	if slices.ContainsFunc(r.e.Members, func(m *cluster.Member) bool { return m.Election == address }) {
		hello := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1<<64-65536), 77)
		_, _ = nc.Write(append(hello, "\x00\x00\x00\x0e127.0.0.1:3888"...)) // the member may have closed it
	}
	return nc
}

// says sends what is no login, and demands that the connection ends without a success.
func (r *rig) says(address string, texts ...string) {
	nc := r.attacker(address)
	if nc == nil {
		return
	}
	defer nc.Close()
	for _, text := range texts {
		_, _ = io.WriteString(nc, text) // the member may have closed it
	}
	_ = nc.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(nc)
	if strings.Contains(string(answer), loginHead+"\x00\x00\x00\x01") || errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Errorf("%.100q to %s: %q, %v", texts, address, answer, err)
	}
}

// logIn logs in as zk with a password, or with a response that was recorded. It returns the response, nil if it
// is refused.
func (r *rig) logIn(address, password string, recorded []byte) (response []byte) {
	nc := r.attacker(address)
	if nc == nil {
		return nil
	}
	defer nc.Close()
	_, _ = io.WriteString(nc, loginPacket(0, nil)) // the member may have closed it
	status, challenge := readLogin(nc)
	if status != 0 {
		return nil
	}
	if response = recorded; response == nil {
		var err error
		if response, err = sasl.NewClientExchange(sasl.PeerProtocol, sasl.PeerServerName, "zk", password).Respond(challenge, rand.Reader); err != nil {
			return nil
		}
	}
	_, _ = io.WriteString(nc, loginPacket(0, response))
	if status, _ = readLogin(nc); status != 1 {
		return nil
	}
	return response
}

// readLogin reads a packet of a login; its status is -2 if there is none.
func readLogin(nc net.Conn) (status int32, token []byte) {
	var head [16]byte
	if _, err := io.ReadFull(nc, head[:]); err != nil || string(head[:8]) != loginHead {
		return -2, nil
	}
	token = make([]byte, max(0, int32(binary.BigEndian.Uint32(head[12:]))))
	if _, err := io.ReadFull(nc, token); err != nil {
		return -2, nil
	}
	return int32(binary.BigEndian.Uint32(head[8:])), token
}
