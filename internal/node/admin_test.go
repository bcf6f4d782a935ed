package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// The administration server answers before the member has begun to look for a leader.
func TestAdminBeforeTheElection(t *testing.T) {
	id := int64(1)
	source := config.Source{ID: &id, Settings: map[string]string{
		"dataDir": "/data", "preAllocSize": "64", "clientPort": "0", "clientPortAddress": "127.0.0.1", "initLimit": "5", "syncLimit": "2",
		"server.1": "127.0.0.1:1:2", "server.2": "127.0.0.1:3:4", "admin.enableServer": "true",
		"admin.serverAddress": "127.0.0.1", "admin.serverPort": "0",
	}}
	cfg, _, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	n, err := Open(Options{Config: cfg, FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	wait := n.serveAdmin()
	for page, want := range map[string]string{
		"/commands/zabstate": `"zabstate" : "election"`, "/readyz": "the server is starting", "/commands/leader": "not currently serving",
	} {
		answer, err := http.Get("http://" + n.AdminAddr().String() + page)
		if err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if answer.Body.Close(); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v", page, body, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	wait()
}
