package backup

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// startThree starts an ensemble on the directories 1, 2 and 3 of dir.
func startThree(t *testing.T, dir string) []*pinfold.Server {
	t.Helper()
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{DataDir: dir, Settings: map[string]string{"preAllocSize": "64"}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan error)
	for _, s := range servers {
		go func() { started <- s.Start(within(t)) }()
	}
	for range servers {
		if err := <-started; err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

func stopThree(t *testing.T, servers []*pinfold.Server) {
	t.Helper()
	for _, s := range servers {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// clientOf connects to one member, and waits until it has what the leader has.
func clientOf(t *testing.T, s *pinfold.Server) *client.Client {
	t.Helper()
	c, err := client.Dial(within(t), s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Sync(within(t), "/"); err != nil {
		t.Fatal(err)
	}
	return c
}

// everywhere checks that all members have the znodes up to a number, and not the next.
func everywhere(t *testing.T, servers []*pinfold.Server, format string, upto int) {
	t.Helper()
	for _, s := range servers {
		c := clientOf(t, s)
		has(t, c, format, upto)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func member(dir string, id int) string { return filepath.Join(dir, strconv.Itoa(id)) }

// wipe removes the history of a member.
func wipe(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, versionDir)); err != nil {
		t.Fatal(err)
	}
}

// historyOfThree makes an ensemble that has four znodes, a backup of its first member, and four more
// znodes.
func historyOfThree(t *testing.T) (dir string, store Local, at zk.Zxid) {
	t.Helper()
	dir, store = t.TempDir(), Local(t.TempDir())
	servers := startThree(t, dir)
	c := clientOf(t, servers[0])
	at = create(t, c, "/a-%d", 0, 4)
	for run(t, Backup{Store: store, DataDir: member(dir, 1)}).Zxid < at {
		// The others have synced it, and that is enough for the client.
	}
	create(t, c, "/a-%d", 4, 8)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	everywhere(t, servers, "/a-%d", 8)
	stopThree(t, servers)
	return dir, store, at
}

func restoreTo(t *testing.T, store Store, dir string, z zk.Zxid) {
	t.Helper()
	r := Restore{Store: store, DataDir: dir, Zxid: z}
	if err := r.Run(within(t)); err != nil {
		t.Fatal(err)
	}
}

// Disaster: a backup that is restored to all members is what they serve, and they write on.
func TestRestoreToAllMembers(t *testing.T) {
	dir, store, at := historyOfThree(t)
	for id := 1; id <= 3; id++ {
		wipe(t, member(dir, id))
		restoreTo(t, store, member(dir, id), at)
	}
	servers := startThree(t, dir)
	defer stopThree(t, servers)
	everywhere(t, servers, "/a-%d", 4)
	c := clientOf(t, servers[1])
	defer c.Close()
	create(t, c, "/b-%d", 0, 3)
	everywhere(t, servers, "/b-%d", 3)
}

// A backup on one member, a wiped one, and a hot copy of another member's files: the others
// give the member what it lacks.
func TestOneMemberGetsTheRest(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir string, store Local, at zk.Zxid){
		"a backup": func(t *testing.T, dir string, store Local, at zk.Zxid) {
			restoreTo(t, store, member(dir, 3), at)
		},
		"nothing": func(*testing.T, string, Local, zk.Zxid) {},
		"another member's files": func(t *testing.T, dir string, _ Local, _ zk.Zxid) {
			if err := os.CopyFS(filepath.Join(member(dir, 3), versionDir), os.DirFS(filepath.Join(member(dir, 1), versionDir))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, store, at := historyOfThree(t)
			wipe(t, member(dir, 3))
			prepare(t, dir, store, at)
			servers := startThree(t, dir)
			defer stopThree(t, servers)
			everywhere(t, servers, "/a-%d", 8)
		})
	}
}
