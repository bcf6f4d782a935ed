package node

import (
	"io"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// The file has the start of the server, what its clients change, and the stop.
func TestAuditFile(t *testing.T) {
	cfg, fs := standalone(t), vfs.NewMem()
	cfg.Audit.Enabled, cfg.Audit.File = true, "/logs/audit.log"
	n, stop := run(t, Options{Config: cfg, FS: fs})
	c := dial(t, n)
	if _, err := c.Create(t.Context(), "/a", nil, zk.Ephemeral, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	f, err := fs.Open(cfg.Audit.File)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`operation=\w+|result=\w+`).FindAllString(string(lines), -1)
	want := []string{
		"operation=serverStart", "result=success", "operation=create", "result=success",
		"operation=ephemeralZNodeDeletionOnSessionCloseOrExpire", "result=success", "operation=serverStop", "result=invoked",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, lines)
	}
}
