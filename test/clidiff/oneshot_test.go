package clidiff

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// writeLogin writes a file of logins, for servers and for clients.
func writeLogin(t *testing.T) string {
	t.Helper()
	const module = "org.apache.zookeeper.server.auth.DigestLoginModule required"
	file := filepath.Join(t.TempDir(), "jaas.conf")
	must(t, os.WriteFile(file, []byte("Server { "+module+" user_bob=\"secret\"; };\n"+
		"Client { "+module+" username=\"bob\" password=\"secret\"; };\n"), 0o600))
	return file
}

// once runs a program with a command as its arguments. The output is without what
// zkCli.sh says of the connection.
func (p program) once(ctx context.Context, t *testing.T, args ...string) (a answer, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := p.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	defer context.AfterFunc(ctx, func() { cmd.Process.Kill() })()
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", p.name, err)
	}
	a, _ = read(printed{out: out.String(), errs: errs.String()})
	return a, cmd.ProcessState.ExitCode()
}

// TestOneShot runs commands given as arguments, with options before them.
func TestOneShot(t *testing.T) {
	ours := pinfoldCLI(binary(t))
	server := startServer(t, ours.argv[0])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := superuser(ctx, t, server)
	_, err := admin.Create(ctx, "/c", []byte("two words"), zk.Persistent, nil)
	must(t, err)
	properties := filepath.Join(t.TempDir(), "client.properties")
	must(t, os.WriteFile(properties, []byte("zookeeper.request.timeout=20000\n"), 0o600))
	login := writeLogin(t)
	for _, c := range []struct {
		args           string
		theirs, status int // exit statuses
	}{
		{"-timeout 20000 -server SERVER -client-configuration PROPERTIES get -s /c", 0, 0},
		{"-server SERVER/c -waitforconnection -r ls /nope", 1, 1},
		{"-server SERVER -waitforconnection bogus", 127, 2},
		{"-server SERVER -waitforconnection delete -v 7 /c", 1, 1},
	} {
		args := strings.Fields(strings.NewReplacer("SERVER", server, "PROPERTIES", properties).Replace(c.args))
		want, theirs := zkCLI(*release).once(ctx, t, args...)
		got, status := ours.once(ctx, t, args...)
		if theirs != c.theirs || status != c.status || !want.same(got) {
			t.Errorf("%s\n  zkCli.sh:    status %d, %s\n  pinfold cli: status %d, %s", c.args, theirs, want, status, got)
		}
	}
	want, theirs := zkCLI(*release, "-Djava.security.auth.login.config="+login).once(ctx, t, "-server", server, "-waitforconnection", "whoami")
	got, status := ours.once(ctx, t, "-server", server, "--login", login, "whoami")
	for _, a := range []answer{want, got} {
		if theirs != 0 || status != 0 || !strings.Contains(a.out, "sasl: bob\n") {
			t.Errorf("by SASL\n  zkCli.sh:    status %d, %s\n  pinfold cli: status %d, %s", theirs, want, status, got)
		}
	}
}
