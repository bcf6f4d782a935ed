package kerberos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/kdc"
)

// section returns the blocks of a section of docs/ops/security.md: those of commands, and
// the others, in their order.
func section(t *testing.T, heading string) (commands, files []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/ops/security.md")
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		t.Fatalf("the guide has no %s", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n#")
	for _, m := range regexp.MustCompile("(?s)\n```(sh)?\n(.*?)```\n").FindAllStringSubmatch(rest, -1) {
		if m[1] == "sh" {
			commands = append(commands, m[2])
		} else {
			files = append(files, m[2])
		}
	}
	return commands, files
}

// guide runs the commands of docs/ops/security.md in a realm: the host, the port and the
// directory are the test's, kadmin asks no server, the files' owner stays, and kinit has a key
// instead of a password.
type guide struct {
	*kdc.KDC
	t    *testing.T
	dir  string
	port string
}

// here puts the test's names into a text of the guide.
func (g *guide) here(text string) string {
	return strings.NewReplacer("zk1.example.com:2181", "localhost:"+g.port, "zk1.example.com", "localhost", "/etc/zookeeper", g.dir).Replace(text)
}

func (g *guide) file(name string) string { return filepath.Join(g.dir, name) }

// write writes an executable script.
func (g *guide) write(name, text string) {
	g.t.Helper()
	must(g.t, os.WriteFile(g.file(name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
}

func newGuide(t *testing.T) *guide {
	t.Helper()
	if *pinfold == "" {
		t.Skip("no -pinfold")
	}
	g := &guide{t: t, dir: t.TempDir()}
	e, err := cluster.New(cluster.Options{Dir: t.TempDir(), Specs: []cluster.Spec{{Kind: cluster.Pinfold}}})
	must(t, err)
	t.Cleanup(e.Close)
	_, g.port, err = net.SplitHostPort(e.Members[0].Client)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g.KDC, err = kdc.Start(ctx, g.dir, e.FreePort)
	must(t, err)
	t.Cleanup(g.Close)
	users, err := g.Keytab("users.keytab", bob)
	must(t, err)
	binary, err := filepath.Abs(*pinfoldPath())
	must(t, err)
	g.write("kadmin", `exec /usr/sbin/kadmin.local "$@"`)
	g.write("chown", "exit 0")
	g.write("kinit", "exec /usr/bin/kinit -k -t "+users+` "$@"`)
	g.write("pinfold", "exec "+binary+` "$@"`)
	return g
}

// command is a program of the guide's.
func (g *guide) command(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euc", g.here(script))
	cmd.Dir = g.dir
	cmd.Env = append(g.Env(), "PATH="+g.dir+":"+os.Getenv("PATH"), "KRB5CCNAME=FILE:"+g.file("krb5cc"))
	return cmd
}

// run runs a script and returns its output.
func (g *guide) run(script string) string {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	out, err := g.command(ctx, script).CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// TestGuide goes from nothing to a login with the commands and files of
// docs/ops/security.md, and then makes new keys while the server runs.
func TestGuide(t *testing.T) {
	g := newGuide(t)
	commands, files := section(t, "## Kerberos")
	newKeys, _ := section(t, "### New keys")
	if len(commands) != 3 || len(files) != 1 || len(newKeys) != 2 {
		t.Fatalf("the guide has %q and %q, and for new keys %q", commands, files, newKeys)
	}
	g.run(commands[0])
	must(t, os.WriteFile(g.file("jaas.conf"), []byte(g.here(files[0])), 0o600))
	cfg := fmt.Sprintf("dataDir=%s/data\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"+
		"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n", g.dir, g.port)
	must(t, os.WriteFile(g.file("zoo.cfg"), []byte(cfg), 0o600))

	settings, start, found := strings.Cut(commands[1], "\npinfold server --check")
	if !found {
		t.Fatalf("the guide starts a server by %q", commands[1])
	}
	g.run(settings + "\npinfold server --check " + g.file("zoo.cfg"))
	_, start, _ = strings.Cut(start, "\n")
	server := g.command(t.Context(), settings+"\nexec "+start)
	p, err := cluster.StartClient(server, g.file("server.out"))
	must(t, err)
	t.Cleanup(p.Kill)

	client := strings.ReplaceAll(commands[2], "--kerberos", "--kerberos --waitforconnection")
	client, create, _ := strings.Cut(client, "\npinfold cli --server zk1.example.com:2181 --kerberos --waitforconnection create")
	if out := g.run(client); !strings.Contains(out, "sasl: "+bob+"\n") {
		t.Errorf("whoami: %s", out)
	}
	const cli = "\npinfold cli --server zk1.example.com:2181 --kerberos "
	if out := g.run(cli + "create" + create + cli + "get /bob"); !strings.Contains(out, "hello") {
		t.Errorf("bob's znode: %s", out)
	}

	read := cli + "get /bob"
	for _, command := range newKeys {
		g.run(command)
		if out := g.run(read + "\nkinit bob" + read); strings.Count(out, "hello") != 2 {
			t.Errorf("after %swith the old ticket and a new one: %s", command, out)
		}
	}
	if out, err := os.ReadFile(g.file("server.out")); err != nil || len(lines(string(out), "keytab_changed")) != 2 {
		t.Errorf("the server's log: %s, %v", out, err)
	}
}
