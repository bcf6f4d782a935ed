package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Digests of super:secret and super:newsecret.
const (
	oldSuper = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
	newSuper = "super:gS9uQeBEVy9Qvl3de87Vh5IXHy8="
)

// A server that runs uses the new content of its login file and of the file of the superuser's
// digest, for logins that come then. What is wrong is not used, and the log says why, without a
// password.
func TestPasswordsAreReadAgain(t *testing.T) {
	const digest = "org.apache.zookeeper.server.auth.DigestLoginModule"
	section := func(users string) string { return "Server { " + digest + " required " + users + "; };" }
	dir := t.TempDir()
	jaas, super := filepath.Join(dir, "jaas.conf"), filepath.Join(dir, "super")
	replace := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	replace(jaas, section(`user_bob="b-secret"`))
	replace(super, oldSuper)
	cfg := standalone(t)
	cfg.Auth.SASL.LoginFile, cfg.Auth.SASL.Section, cfg.Auth.SuperFile = jaas, "Server", super
	log := newLines()
	n := runImpatient(t, Options{Config: cfg, FS: vfs.NewMem(), Logger: slog.New(slog.NewTextHandler(log, nil))})
	may := func(want bool, o client.Option, who string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := client.Dial(ctx, n.Addr().String(), o)
		if err == nil {
			defer c.Close()
			var ids []zk.ID
			if ids, err = c.WhoAmI(ctx); err == nil && !slices.ContainsFunc(ids, func(id zk.ID) bool { return id.Scheme == "sasl" || id.Scheme == "super" }) {
				err = zk.ErrAuthFailed
			}
		}
		if (err == nil) != want {
			t.Errorf("%s: %v, want success: %v", who, err, want)
		}
	}
	old, next := client.SASL(client.DigestMD5("bob", "b-secret")), client.SASL(client.DigestMD5("bob", "new-secret"))
	oldSecret, newSecret := client.Auth("digest", []byte("super:secret")), client.Auth("digest", []byte("super:newsecret"))
	logged := func(parts ...string) {
		t.Helper()
		log.await(t, parts...)
		if text := log.String(); strings.Contains(text, "secret") {
			t.Fatalf("a password is in the log:\n%s", text)
		}
		log.Reset()
	}

	may(true, old, "bob")
	may(true, oldSecret, "super")
	replace(jaas, section(`user_bob="new-secret"`))
	logged("INFO", "have changed", jaas)
	may(true, next, "bob with the new password")
	may(false, old, "bob with the old password")
	replace(super, newSuper+"\n")
	logged("INFO", "have changed", super)
	may(true, newSecret, "super with the new password")
	may(false, oldSecret, "super with the old password")

	for _, wrong := range []struct{ name, text, why string }{
		{jaas, section(`user_bob="b-secret"`)[:40], "line 1"},
		{jaas, "", "restart the server"},
		{jaas, section(`user_bob="${nowhere}"`), "no property"},
		{super, "secret", "not of the form user:base64"},
	} {
		before, err := os.ReadFile(wrong.name)
		if err != nil {
			t.Fatal(err)
		}
		replace(wrong.name, wrong.text)
		logged("ERROR", "the new passwords are not used", wrong.why)
		may(true, next, "bob beside a wrong file")
		may(true, newSecret, "super beside a wrong file")
		replace(wrong.name, string(before))
		logged("INFO", "have changed")
	}
	if err := os.Remove(jaas); err != nil {
		t.Fatal(err)
	}
	logged("ERROR", "no such file")
	may(true, next, "bob without a file")
}
