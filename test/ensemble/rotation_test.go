package ensemble

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// loginFiles are the login files in a section of docs/ops/security.md.
func loginFiles(t *testing.T, heading string, want int) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/ops/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n"+heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	var files []string
	for _, m := range regexp.MustCompile("(?s)\n```\n(Quorum.*?)```\n").FindAllStringSubmatch(section, -1) {
		files = append(files, m[1])
	}
	if len(files) != want {
		t.Fatalf("%s has %d login files: %q", heading, len(files), files)
	}
	return files
}

// TestLoginsGetANewPassword changes the password by which servers log in at each other, as
// docs/ops/security.md has it, under load: no session may be lost, and no server be refused.
// Members of Apache restart, those of Pinfold read the file again. In the end one with the old
// password is refused.
func TestLoginsGetANewPassword(t *testing.T) {
	first, files := loginFiles(t, "## Servers that log in", 2)[0], loginFiles(t, "### New passwords of servers", 3)
	for _, members := range mixtures(t, "pinfold,apache,pinfold") {
		t.Run(members, func(t *testing.T) {
			dir := t.TempDir()
			file := func(m *cluster.Member) string { return filepath.Join(dir, fmt.Sprintf("jaas-%d.conf", m.ID)) }
			give := func(m *cluster.Member, text string) {
				if err := errors.Join(os.WriteFile(file(m)+".new", []byte(text), 0o600), os.Rename(file(m)+".new", file(m))); err != nil {
					t.Fatal(err)
				}
			}
			r := newRig(t, members, rigOptions{lines: slices.Concat(smallFiles(), loginLines), before: func(e *cluster.Ensemble) {
				for _, m := range e.Members {
					give(m, first)
					m.SetFlags(smallJVM + " -Dzookeeper.fips-mode=false -Djava.security.auth.login.config=" + file(m))
				}
			}})
			r.load()
			for i, text := range files {
				for _, m := range r.e.Members {
					r.step("%v gets login file %d", m, i+1)
					give(m, text)
					if m.Kind() == cluster.Pinfold {
						r.must(r.e.Until(r.within(patience), func() bool {
							out, err := m.Output()
							return err == nil && strings.Count(out, "passwords of a file have changed") == i+1
						}))
						continue
					}
					r.must(m.Stop())
					r.must(m.Start())
					_, err := r.e.WaitCaughtUp(r.within(patience), m)
					r.must(err)
					r.progress()
				}
				if leader, _ := r.leader(); leader.Kind() == cluster.Pinfold { // all log in again
					leader.Kill()
					r.must(leader.Start())
					_, err := r.e.WaitCaughtUp(r.within(patience), leader)
					r.must(err)
				}
			}
			r.nothingRefused()
			last := r.e.Members[len(r.e.Members)-1]
			r.isRefused(last, `unknown user \"zk\"`, func() { give(last, first) })
			give(last, files[2])
			r.must(last.Start())
			_, err := r.e.WaitCaughtUp(r.within(patience), last)
			r.must(err)
			r.finish()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
		})
	}
}

// TestSuperuserGetsANewPassword replaces the file of the superuser's digest in a live ensemble under
// load: every member accepts the new password and refuses the old one, sessions that are connected
// keep their rights, and none is lost.
func TestSuperuserGetsANewPassword(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "super")
			give := func(password string) {
				hash := sha1.Sum([]byte("super:" + password))
				text := "super:" + base64.StdEncoding.EncodeToString(hash[:]) + "\n"
				if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
					t.Fatal(err)
				}
			}
			give("first")
			r := newRig(t, members, rigOptions{lines: append(smallFiles(), "DigestAuthenticationProvider.superDigestPath="+file)})
			r.load()
			var connected []*client.Client
			for _, m := range r.e.Members {
				connected = append(connected, r.superuser(m, "first", true))
				r.superuser(m, "second", false)
			}
			give("second")
			for _, m := range r.e.Members {
				r.must(r.e.Until(r.within(patience), func() bool {
					out, err := m.Output()
					return err == nil && strings.Contains(out, "event=passwords_changed")
				}))
			}
			r.step("every member has read the new digest")
			for i, m := range r.e.Members {
				r.superuser(m, "second", true)
				r.superuser(m, "first", false)
				if !isSuper(r, connected[i]) {
					t.Errorf("%v: a client that was the superuser is it no longer", m)
				}
			}
			r.progress()
			if lost := r.l.Lost(); lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
			for _, c := range connected {
				r.must(c.Close())
			}
			r.finish()
		})
	}
}

// superuser connects to a member with a password of the user super, and demands that this makes
// the client the superuser, or that it does not.
func (r *rig) superuser(m *cluster.Member, password string, want bool) *client.Client {
	r.t.Helper()
	c, err := client.Dial(r.within(patience), m.Client, client.Auth("digest", []byte("super:"+password)), client.SessionTimeout(sessionTimeout))
	r.must(err)
	r.t.Cleanup(func() { c.Close() })
	if isSuper(r, c) != want {
		r.t.Errorf("%v: with the %s password a client is the superuser: %v, want %v", m, password, !want, want)
	}
	if !want {
		r.must(c.Close())
	}
	return c
}

func isSuper(r *rig, c *client.Client) bool {
	r.t.Helper()
	ids, err := c.WhoAmI(r.within(patience))
	r.must(err)
	return slices.ContainsFunc(ids, func(id zk.ID) bool { return id.Scheme == "super" })
}
