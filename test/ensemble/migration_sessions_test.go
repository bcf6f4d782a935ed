package ensemble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	zkclient "github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestVerifyFindsSessions has `pinfold migrate verify` compare the sessions of members of both
// programs, while clients write and sessions begin and end. They are equal at first. Then the
// snapshot of each Pinfold follower in turn is edited: it has one session under another id, and another
// timeout of a second one. Both sessions have no znodes, so that nothing else shows it. A
// follower that is given the leader's tree again is equal again.
func TestVerifyFindsSessions(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,apache-3.9,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(superuser(), smallFiles()...)})
			m := newMigration(r)
			r.load()
			lost, other := r.idle(), r.idle()
			end := r.comeAndGo()
			defer end()
			m.verified(0, "sessions of 3 members compared")
			leader, _ := r.leader()
			for _, one := range r.e.Members {
				if one == leader || one.Kind().IsApache() { // which starts so slowly that the leader sends its tree
					continue
				}
				m.findsEdited(one, lost, other)
				m.verified(0, "sessions of 3 members compared")
			}
			end()
			r.finish()
		})
	}
}

// findsEdited edits a member's snapshot, and demands that verify finds it. Then the member takes the leader's tree. A
// member that is away for so long that the leader sends its tree has nothing that is edited: then it is edited again.
func (m *migration) findsEdited(one *cluster.Member, lost, other zk.SessionID) {
	m.t.Helper()
	const tries = 4
	for range tries {
		m.mislead(one, lost, other)
		out, status := m.run("verify")
		m.t.Logf("pinfold migrate verify: %d\n%s", status, out)
		m.must(one.Stop())
		m.must(os.RemoveAll(filepath.Join(one.DataDir, "version-2")))
		m.must(one.Start())
		_, err := m.e.WaitCaughtUp(m.within(patience), one)
		m.must(err)
		if status == 0 {
			continue
		}
		for _, part := range []string{
			fmt.Sprintf("%v: server %d has it, and server %d does not", lost, firstBut(one.ID), one.ID),
			fmt.Sprintf("%v: server %d has it, and server %d does not", ^lost, one.ID, firstBut(one.ID)),
			fmt.Sprintf("DIFFERS the session %v: its timeout is", other),
		} {
			if !strings.Contains(out, part) {
				m.t.Errorf("%q is not in the output", part)
			}
		}
		return
	}
	m.t.Errorf("member %v: %d edited snapshots were not found", one, tries)
}

// firstBut is the id of the first of the other members.
func firstBut(id int) int {
	if id == 1 {
		return 2
	}
	return 1
}

// verified runs `pinfold migrate verify`, which must end with a status, and print parts.
func (m *migration) verified(status int, parts ...string) {
	m.t.Helper()
	out, got := m.run("verify")
	m.t.Logf("pinfold migrate verify: %d\n%s", got, out)
	if got != status {
		m.t.Errorf("status %d, want %d", got, status)
	}
	for _, p := range parts {
		if !strings.Contains(out, p) {
			m.t.Errorf("%q is not in the output", p)
		}
	}
	if strings.Contains(out, "NOT COMPARED") {
		m.t.Errorf("something was not compared")
	}
	m.progress()
}

// idle opens a session without znodes that lives as long as the test.
func (r *rig) idle() zk.SessionID {
	r.t.Helper()
	c, err := zkclient.Dial(r.within(patience), strings.Join(r.e.Clients(), ","), zkclient.SessionTimeout(sessionTimeout))
	r.must(err)
	r.t.Cleanup(func() { _ = c.Close() }) // the members may have gone
	return c.SessionID()
}

// comeAndGo has sessions begin and end, at all members, until end is called.
func (r *rig) comeAndGo() (end func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var all sync.WaitGroup
	for _, m := range r.e.Members {
		all.Go(func() {
			for ctx.Err() == nil {
				s := client.New(sessionTimeout, answerPatience)
				if s.Connect(m.Client) == nil { // else it is away
					_, _ = s.Close() // the session may end by its timeout
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// mislead edits the newest snapshot of a member in which two sessions are: it has the first
// under another id, and the second with another timeout.
func (r *rig) mislead(m *cluster.Member, lost, other zk.SessionID) {
	r.t.Helper()
	r.step("the snapshot of %v is edited", m)
	// Sessions that are in a snapshot are not in the log after it.
	r.must(r.e.Until(r.within(patience), func() bool {
		_, err := newestWith(m, lost, other)
		return err == nil
	}))
	r.must(m.Stop())
	name, err := newestWith(m, lost, other)
	r.must(err)
	b, err := os.ReadFile(name)
	r.must(err)
	seals := sealsOf(b)
	if len(seals) == 0 {
		r.t.Fatalf("%s has no checksum", name)
	}
	r.must(editSession(b, lost, func(at []byte) { binary.BigEndian.PutUint64(at, uint64(^lost)) }))
	r.must(editSession(b, other, func(at []byte) { binary.BigEndian.PutUint32(at[8:], binary.BigEndian.Uint32(at[8:])+1000) }))
	for _, at := range seals {
		binary.BigEndian.PutUint64(b[at:], uint64(adler32.Checksum(b[:at])))
	}
	r.must(os.WriteFile(name, b, 0o644))
	r.must(m.Start())
	_, err = r.e.WaitCaughtUp(r.within(patience), m)
	r.must(err)
}

// newestWith returns the newest snapshot of a member, which must have the sessions.
func newestWith(m *cluster.Member, ids ...zk.SessionID) (string, error) {
	all, err := filepath.Glob(filepath.Join(m.DataDir, "version-2", "snapshot.*"))
	if err != nil || len(all) == 0 {
		return "", errors.Join(err, errors.New("no snapshot"))
	}
	newest := slices.MaxFunc(all, func(a, b string) int { // hexadecimal, without leading zeros
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	b, err := os.ReadFile(newest)
	if err == nil && len(sealsOf(b)) == 0 {
		err = errors.New("it is being written")
	}
	for _, id := range ids {
		err = errors.Join(err, editSession(b, id, func([]byte) {}))
	}
	return newest, err
}

// The start of a snapshot: magic number, version and id of the database; then the number of
// sessions, and each with its id and timeout.
const sessionsAt, sessionSize = 16, 12

// editSession edits the entry of a session in a snapshot.
func editSession(b []byte, id zk.SessionID, edit func(at []byte)) error {
	if len(b) < sessionsAt+4 {
		return errors.New("too short")
	}
	at := sessionsAt + 4
	for range binary.BigEndian.Uint32(b[sessionsAt:]) {
		if len(b) < at+sessionSize {
			break
		}
		if zk.SessionID(binary.BigEndian.Uint64(b[at:])) == id {
			edit(b[at : at+sessionSize])
			return nil
		}
		at += sessionSize
	}
	return fmt.Errorf("session %v is not in the snapshot", id)
}

// sealsOf returns where the checksums of a snapshot are, in ascending order: after the tree,
// after its digest, and after the last zxid, as the release has it. Each is of all before it,
// and is followed by a string, "/".
func sealsOf(b []byte) (all []int) {
	const sealSize, tails = 8 + 4 + 1, 3*(8+4+1) + (8 + 4 + 8) + 8
	for at := max(0, len(b)-tails); at <= len(b)-sealSize; at++ {
		if string(b[at+8:at+sealSize]) == "\x00\x00\x00\x01/" && binary.BigEndian.Uint64(b[at:]) == uint64(adler32.Checksum(b[:at])) {
			all = append(all, at)
		}
	}
	return all
}
