package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// restore posts a snapshot, and returns the status and the text of the answer.
func restore(t *testing.T, address, snapshot string) (int, string) {
	t.Helper()
	a := ask(t, address, question{get: "POST /commands/restore", auth: "digest a:b", body: snapshot})
	if a.Type != "application/json" {
		t.Errorf("the answer is %+v", a)
	}
	return a.Status, a.Body
}

// dataOf returns a znode's data, "-" if it does not exist. It waits until the client is
// connected.
func dataOf(t *testing.T, c *client.Client, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		data, _, err := c.Get(ctx, path)
		switch {
		case err == nil:
			return string(data)
		case errors.Is(err, zk.ErrNoNode):
			return "-"
		case !errors.Is(err, zk.ErrConnectionLoss):
			t.Fatal(err)
		}
	}
}

// A server has the state that was posted; the session that made it goes on with its
// ephemeral, and a watch that it set is set again.
func TestRestore(t *testing.T) {
	t.Parallel()
	s := with(t, map[string]string{"admin.rateLimiterIntervalInMS": "0"})
	c := connect(t, s)
	ctx := t.Context()
	for path, mode := range map[string]zk.CreateMode{"/kept": zk.Persistent, "/mine": zk.Ephemeral} {
		_, err := c.Create(ctx, path, []byte("old"), mode, nil)
		must(t, err)
	}
	id := c.SessionID()
	snapshot := check(t, s.AdminAddr(), question{get: "/commands/snapshot", auth: "digest a:b"}, http.StatusOK, "ZKSN").Body
	_, err := c.Set(ctx, "/kept", []byte("new"), -1)
	must(t, err)
	must(t, c.Delete(ctx, "/mine", -1))
	_, err = c.Create(ctx, "/later", nil, zk.Persistent, nil)
	must(t, err)
	before := zxidOf(t, c)

	for what, body := range map[string]string{"nothing": "", "half": snapshot[:len(snapshot)/2], "no snapshot": strings.Repeat("x", 1000)} {
		if status, text := restore(t, s.AdminAddr(), body); status != http.StatusInternalServerError || !strings.Contains(text, `"error" : null`) {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	if got := dataOf(t, c, "/kept"); got != "new" || c.SessionID() != id {
		t.Errorf("a bad snapshot has changed /kept to %q, or cost the session", got)
	}

	status, text := restore(t, s.AdminAddr(), snapshot)
	if status != http.StatusOK || !strings.HasPrefix(text, "{\n  \"last_zxid\" : ") {
		t.Fatalf("%d %s", status, text)
	}
	if got := dataOf(t, c, "/kept") + dataOf(t, c, "/mine") + dataOf(t, c, "/later"); got != "oldold-" || c.SessionID() != id {
		t.Errorf("restored is %q, session %v, before it was %v", got, c.SessionID(), id)
	}
	if z := zxidOf(t, c); z <= before {
		t.Errorf("the zxid went back from %v to %v", before, z)
	}
	_, _, events, err := c.GetW(ctx, "/kept")
	must(t, err)
	_, err = c.Set(ctx, "/kept", []byte("changed"), -1)
	must(t, err)
	if e := <-events.Events(); e.Path != "/kept" {
		t.Errorf("event %v", e)
	}
	body := check(t, s.AdminAddr(), question{get: "/commands/monitor"}, http.StatusOK, `"restore_error_count" : 3,`).Body
	if !strings.Contains(body, `"cnt_restore_time" : 1,`) {
		t.Error("no restore is counted")
	}
}

// zxidOf writes, and returns the transaction's zxid.
func zxidOf(t *testing.T, c *client.Client) zk.Zxid {
	t.Helper()
	stat, err := c.Set(t.Context(), "/kept", []byte(dataOf(t, c, "/kept")), -1)
	must(t, err)
	return stat.Mzxid
}

// The leader restores the state of all members; the others say that they do not lead.
func TestRestoreOfAnEnsemble(t *testing.T) {
	t.Parallel()
	own := map[string]string{"admin.rateLimiterIntervalInMS": "0"}
	for key, v := range settings {
		if own[key] == "" {
			own[key] = v
		}
	}
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{DataDir: t.TempDir(), Settings: own})
	must(t, err)
	start(t, servers...)
	c := connect(t, servers[0])
	ctx := t.Context()
	for i := range 20 {
		_, err := c.Create(ctx, fmt.Sprintf("/%02d", i), []byte("old"), zk.Persistent, nil)
		must(t, err)
	}
	_, err = c.Create(ctx, "/kept", []byte("old"), zk.Persistent, nil)
	must(t, err)
	lead := leader(t, servers)
	must(t, sync(t, connect(t, lead)))
	snapshot := check(t, lead.AdminAddr(), question{get: "/commands/snapshot", auth: "digest a:b"}, http.StatusOK, "ZKSN").Body
	_, err = c.Set(ctx, "/kept", []byte("new"), -1)
	must(t, err)
	for _, s := range servers {
		if s == lead {
			continue
		}
		if status, text := restore(t, s.AdminAddr(), snapshot); status != http.StatusConflict || !strings.Contains(text, "does not lead") {
			t.Errorf("a follower answers %d %s", status, text)
		}
	}
	// On a machine that stands still the others may elect another leader; then nothing is restored.
	for {
		status, text := restore(t, lead.AdminAddr(), snapshot)
		if status == http.StatusOK {
			break
		}
		if status != http.StatusConflict && !strings.Contains(text, "currently serving") {
			t.Fatalf("%d %s", status, text)
		}
		if got := dataOf(t, c, "/kept"); got != "new" {
			t.Fatalf("refused, and /kept is %q", got)
		}
		lead = leader(t, servers)
	}
	for _, s := range servers {
		direct := connect(t, s)
		must(t, sync(t, direct))
		if got := dataOf(t, direct, "/kept"); got != "old" {
			t.Errorf("server %s has %q", s.Addr(), got)
		}
	}
}

// leader waits until one of the servers leads, and returns it.
func leader(t *testing.T, servers []*pinfold.Server) *pinfold.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		for _, s := range servers {
			must(t, s.Ready(ctx))
			if s.Role() == "leader" {
				return s
			}
		}
	}
}

// sync waits until a client's server has everything that the leader has committed.
func sync(t *testing.T, c *client.Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	for {
		err := c.Sync(ctx, "/")
		if !errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
	}
}
