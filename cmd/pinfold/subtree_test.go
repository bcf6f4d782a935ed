package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/zk"
)

// A subtree of a backup comes back into the live server: conflicts end the command before
// anything is changed, --overwrite resolves them, and repeating it changes nothing.
func TestRestoreSubtree(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	dir, store := t.TempDir(), t.TempDir()
	s, err := pinfold.New(pinfold.Config{DataDir: dir})
	succeed(t, err)
	succeed(t, s.Start(ctx))
	defer s.Stop()
	c, err := client.Dial(ctx, s.Addr())
	succeed(t, err)
	defer c.Close()
	acl := []zk.ACL{{Perms: zk.PermAll &^ zk.PermAdmin, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	for path, mode := range map[string]zk.CreateMode{"/app": zk.Persistent, "/other": zk.Persistent} {
		_, err = c.Create(ctx, path, []byte("old"), mode, nil)
		succeed(t, err)
	}
	_, err = c.Create(ctx, "/app/deleted", []byte{0, 255}, zk.Persistent, acl)
	succeed(t, err)
	_, err = c.Create(ctx, "/app/container", nil, zk.Container, nil)
	succeed(t, err)
	_, err = c.Create(ctx, "/app/ephemeral", nil, zk.Ephemeral, nil)
	succeed(t, err)
	execute(t, 0, "backup", dir, store)
	succeed(t, c.Delete(ctx, "/app/deleted", -1))
	for _, path := range []string{"/app", "/other"} {
		_, err = c.Set(ctx, path, []byte("new"), -1)
		succeed(t, err)
	}
	succeed(t, c.Delete(ctx, "/app/ephemeral", -1))

	restore := []string{"restore", "--server", s.Addr(), "--subtree", "/app", store}
	if out := execute(t, 1, restore...); !strings.Contains(out, "/app: is there already, and differs") || strings.Contains(out, "1 created") {
		t.Errorf("with a conflict it says %s", out)
	}
	if _, exists, err := c.Exists(ctx, "/app/deleted"); exists || err != nil {
		t.Errorf("a refused restore has created a znode: %v", err)
	}
	restore = append(restore, "--overwrite")
	if out := execute(t, 0, append(restore, "--dry-run")...); !strings.Contains(out, "replace /app\n") || !strings.Contains(out, "create /app/deleted\n") {
		t.Errorf("a dry run says %s", out)
	}
	for _, want := range []string{"1 created, 1 replaced, 1 unchanged, 0 failed; 1 ephemeral left out", "0 created, 0 replaced, 3 unchanged, 0 failed"} {
		if out := execute(t, 0, restore...); !strings.Contains(out, want) {
			t.Errorf("want %q, got %s", want, out)
		}
	}
	data, _, err := c.Get(ctx, "/app/deleted")
	got, _, aclErr := c.GetACL(ctx, "/app/deleted")
	if err != nil || aclErr != nil || !bytes.Equal(data, []byte{0, 255}) || len(got) != 1 || got[0] != acl[0] {
		t.Errorf("restored is %q %v, %v %v", data, got, err, aclErr)
	}
	if data, _, err := c.Get(ctx, "/other"); err != nil || string(data) != "new" {
		t.Errorf("a znode elsewhere is %q, %v", data, err)
	}
	execute(t, 0, "restore", "--server", s.Addr(), "--subtree", "/app", "--to-path", "/then/app", store)
	if data, _, err := c.Get(ctx, "/then/app"); err != nil || string(data) != "old" {
		t.Errorf("restored beside is %q, %v", data, err)
	}
	execute(t, 1, "restore", "--server", s.Addr(), "--subtree", "/absent", store)
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// execute runs `pinfold backup` or `pinfold restore`, and returns what it prints. status is
// that of the process.
func execute(t *testing.T, status int, words ...string) string {
	t.Helper()
	var out bytes.Buffer
	c := map[string]func() *cobra.Command{"backup": backupCommand, "restore": restoreCommand}[words[0]]()
	c.SetArgs(words[1:])
	c.SetOut(&out)
	c.SetErr(&out)
	err := c.ExecuteContext(t.Context())
	if cli.ExitStatus(err) != status {
		t.Fatalf("%q: %v, %s", words, err, &out)
	}
	return out.String()
}
