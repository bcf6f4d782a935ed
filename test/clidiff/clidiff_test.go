package clidiff

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	pinfold = flag.String("pinfold", "", "`path` of the binary, from here or from the root of the repository")
	release = flag.String("release", "", "`release` of zkCli.sh, that scripts/apache-release has fetched; none is the installed one")
	kind    = flag.String("server", "apache", "the `kind` of server: apache, apache-3.9 or pinfold")
	seeds   = flag.Int("seeds", 3, "how many sessions")
	first   = flag.Uint64("first", 1, "the `seed` of the first of them")
	seed    = flag.Uint64("seed", 0, "this `seed` alone")
	steps   = flag.Int("steps", 150, "commands of a session")
	file    = flag.String("session", "", "`file` with the commands of a session, instead of random ones; in a chroot")
)

const root = "../.."

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// binary finds Pinfold; the test is skipped if it or zkCli.sh are not there.
func binary(t *testing.T) string {
	t.Helper()
	if *pinfold == "" {
		t.Skip("no command line to compare: -pinfold names the binary")
	}
	path := *pinfold
	if _, err := os.Stat(path); err != nil && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	path, err := filepath.Abs(path)
	must(t, err)
	_, missing := os.Stat("/usr/share/java/zookeeper.jar")
	_, noJava := exec.LookPath("java")
	if missing != nil || noJava != nil {
		t.Skip("SKIPPED: no zkCli.sh here: install the Debian packages zookeeper and default-jre-headless")
	}
	return path
}

// startServer starts a server, which is killed when the test ends, and returns its
// address.
func startServer(t *testing.T, binary string) string {
	t.Helper()
	properties := "-Dzookeeper.extendedTypesEnabled=true -Dzookeeper.DigestAuthenticationProvider.superDigest=" + superDigest +
		" -Djava.security.auth.login.config=" + writeLogin(t)
	t.Setenv("SERVER_JVMFLAGS", properties)
	specs, err := cluster.ParseSpecs(*kind)
	must(t, err)
	e, err := cluster.New(cluster.Options{
		Dir: t.TempDir(), Specs: specs,
		Lines: []string{"preAllocSize=1024", "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
		Programs: cluster.Programs{
			Pinfold: binary, Apache: filepath.Join(root, "scripts/apache-server"),
			JVMFlags: "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 " + properties,
		},
	})
	must(t, err)
	t.Cleanup(e.Close)
	m, err := e.Standalone(specs[0].Kind, e.Members[0])
	must(t, err)
	t.Cleanup(m.Kill)
	must(t, m.Start())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = m.WaitServing(ctx)
	must(t, err)
	return m.Client
}

// TestSessions runs random sessions with both programs.
func TestSessions(t *testing.T) {
	ours := pinfoldCLI(binary(t))
	server := startServer(t, ours.argv[0])
	admin := superuser(t.Context(), t, server)
	if *file != "" {
		text, err := os.ReadFile(*file)
		must(t, err)
		both(t, ours, server, "/c", admin, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
		return
	}
	list := []uint64{*seed}
	if *seed == 0 {
		list = nil
		for i := range *seeds {
			list = append(list, *first+uint64(i))
		}
	}
	for _, n := range list {
		t.Run(fmt.Sprintf("seed %d", n), func(t *testing.T) {
			chroot, top := "/c", ""
			if n%2 == 0 {
				chroot, top = "", "/t"
			}
			commands := newGenerator(n, top).session(*steps)
			if !both(t, ours, server, chroot, admin, commands) {
				t.Logf("again: go test ./test/clidiff -count 1 -pinfold %s -release '%s' -server %s -seed %d -steps %d",
					*pinfold, *release, *kind, n, *steps)
			}
		})
	}
}

// both runs a session with both programs and compares. A command behind which the
// trees may differ is left out when that is known, and both begin again.
func both(t *testing.T, ours program, server, chroot string, admin *client.Client, commands []string) (same bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		p := pair{t: t, server: server, chroot: chroot, admin: admin}
		want, theirTree := p.run(ctx, zkCLI(*release), commands, nil)
		ended := map[int]bool{}
		for i, x := range want {
			ended[i] = x.ended
		}
		got, ourTree := p.run(ctx, ours, commands, ended)
		differences, parted := compareAll(commands, want, got)
		if parted >= 0 {
			commands = slices.Delete(slices.Clone(commands), parted, parted+1)
			continue
		}
		if !slices.Equal(theirTree, ourTree) {
			differences = append(differences, "the trees differ:\n"+difference(theirTree, ourTree))
		}
		for _, d := range differences {
			t.Error(d)
		}
		if len(differences) > 0 && testing.Verbose() {
			t.Logf("the session:\n%s", show(commands))
		}
		return len(differences) == 0
	}
}

// A pair runs a session with one program and the other.
type pair struct {
	t              *testing.T
	server, chroot string
	admin          *client.Client
}

// run runs a session on an empty tree, and returns what the commands printed and
// what the tree was at the end, while the session was still there.
func (p pair) run(ctx context.Context, x program, commands []string, stop map[int]bool) (list []printed, tree []string) {
	p.t.Helper()
	must(p.t, wipe(ctx, p.admin, "/"))
	top := cmp.Or(p.chroot, "/t")
	_, err := p.admin.Create(ctx, top, nil, zk.Persistent, nil)
	must(p.t, err)
	list = runSession(ctx, p.t, x, p.server+p.chroot, commands, stop, func() {
		for _, path := range []string{top, "/zookeeper"} {
			lines, err := dump(ctx, p.admin, path)
			must(p.t, err)
			tree = append(tree, lines...)
		}
	})
	return list, tree
}

// difference are the lines that only one of the two has.
func difference(theirs, ours []string) string {
	var b strings.Builder
	for _, l := range theirs {
		if !slices.Contains(ours, l) {
			fmt.Fprintf(&b, "  zkCli.sh:    %s\n", l)
		}
	}
	for _, l := range ours {
		if !slices.Contains(theirs, l) {
			fmt.Fprintf(&b, "  pinfold cli: %s\n", l)
		}
	}
	return b.String()
}
