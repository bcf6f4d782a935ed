package ensemble

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestReconfigByZkCli types `config` and `reconfig` into zkCli.sh of 3.8.0 and of 3.9.3, right and wrong, without the right
// and with it, at a follower and at the leader. On each kind of ensemble, whose last member is in nobody's list at first,
// each command must print what it prints on an ensemble of Apache 3.8.0.
func TestReconfigByZkCli(t *testing.T) {
	const oracle = "apache,apache,apache,apache"
	want := map[string][]typed{} // by the release of zkCli.sh
	for _, members := range append([]string{oracle}, mixtures(t, "apache-3.9,apache-3.9,apache-3.9,apache-3.9", "pinfold,pinfold,pinfold,pinfold")...) {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: reconfigLines(), before: func(e *cluster.Ensemble) {
				if err := errors.Join(unlist(e, 1), listClients(e), lastListedLeads(t, e)); err != nil {
					t.Fatal(err)
				}
			}})
			m := &membership{rig: r}
			m.reconfigure(r.e.Member(3), "", "77")
			for _, at := range []struct {
				release string
				member  int
			}{{"", 1}, {"3.9", 3}} {
				got := r.typeChanges(at.release, r.e.Member(at.member))
				if members == oracle {
					want[at.release] = got
				}
				r.compareTyped(at.release, want[at.release], got)
			}
		})
	}
}

// lastListedLeads starts member 3, and the first one, which elect it.
func lastListedLeads(t *testing.T, e *cluster.Ensemble) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := errors.Join(e.Member(3).Start(), e.Member(1).Start()); err != nil {
		return err
	}
	_, err := e.WaitLeader(ctx, func(m *cluster.Member) bool { return m.ID == 3 })
	return err
}

// A typed is a command, and what zkCli.sh printed, without what differs between two ensembles.
type typed struct{ command, printed string }

// typeChanges types the commands into zkCli.sh at a member.
func (r *rig) typeChanges(release string, at *cluster.Member) []typed {
	r.t.Helper()
	z := startZkCli(r, release, at.Client)
	m := &membership{rig: r}
	line := func(id int) string { return m.line(id, participant) }
	listed := []string{line(1), line(2), line(3)}
	file := func(name string, lines ...string) string {
		name = filepath.Join(at.Dir, name)
		r.must(os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return name
	}
	four, asObserver := line(4), m.line(4, observer)
	z.types("config", "config -c", "config -s", "config -w", "config -x", "config /", "reconfig", "reconfig -s",
		"reconfig -remove 2", "reconfig -add "+four, "reconfig -add asdf", "reconfig -v 77 -remove 2", "reconfig -add "+threeAbsent,
		"reconfig -members "+strings.Join(listed, ","),
		"addauth digest super:test",
		"reconfig -add "+asObserver, "config", "config -c", "config -s",
		"reconfig -v 77 -remove 4", "reconfig -v zz -remove 4", "reconfig -v -1 -remove 77")
	z.types("reconfig -v "+z.version()+" -add "+four, "config", "reconfig -s -remove 4", "reconfig -remove 4",
		"reconfig -add "+threeAbsent, "reconfig -add asdf", "reconfig -add "+four+"=x", "reconfig -add server.x=127.0.0.1:1:2;3",
		"reconfig -add server.4=127.0.0.1:27401:27402:observer", "reconfig -add server.4=127.0.0.1:27401;27403", "reconfig -add",
		"reconfig -remove x", "reconfig -remove 1,2", "reconfig -remove 1,2,3", "reconfig -remove",
		"reconfig -file "+file("members-3.txt", listed...), "reconfig -file "+file("members-4.txt", append(listed, four)...),
		"config", "reconfig -s -file "+file("members-3.txt", listed...),
		"reconfig -file "+filepath.Join(at.Dir, "members-none.txt"), "reconfig -file "+file("members-bad.txt", "asdf"),
		"reconfig -file "+file("members-key.txt", append(listed, "tickTime=2000")...), "reconfig -file "+file("members-1.txt", line(1)),
		"reconfig -members "+strings.Join(append(listed, asObserver), ","), "reconfig -members asdf",
		"reconfig -members "+line(1))
	z.types("reconfig -v "+z.version()+" -members "+strings.Join(listed, ","), "reconfig -v 77 -file "+file("members-3.txt", listed...),
		"reconfig -members "+line(1)+" -add "+four, "reconfig -file "+file("members-3.txt", listed...)+" -remove 4",
		"reconfig -file "+file("members-3.txt", listed...)+" -members "+line(1),
		"reconfig -add "+four+" -remove 2", "reconfig -add "+line(2)+" -add "+asObserver, "config",
		"reconfig -remove 4 -remove 77", "config -c", "config")
	return z.end()
}

// typedChanges is how many of the commands change the configuration.
const typedChanges = 13

// compareTyped compares what was printed.
func (r *rig) compareTyped(release string, want, got []typed) {
	r.t.Helper()
	changes := 0
	for i, g := range got {
		if g != want[i] {
			r.t.Errorf("zkCli.sh %s: %s\n%swant, as on 3.8.0, %s\n%s", release, g.command, g.printed, want[i].command, want[i].printed)
		}
		if strings.Contains(g.printed, "Committed new configuration:") {
			changes++
		}
	}
	if changes != typedChanges {
		r.t.Errorf("zkCli.sh %s has changed the configuration %d times, want %d; it printed\n%v", release, changes, typedChanges, got)
	}
	r.t.Logf("zkCli.sh %s: %d commands, %d changes", release, len(got)-1, changes)
}

// A zkCli is a zkCli.sh behind a pipe.
type zkCli struct {
	*rig
	in     io.WriteCloser
	lines  chan string
	closed func() error

	all    []typed
	events []string
	seen   string // the last version that was printed
}

// startZkCli starts one that is connected to a server.
func startZkCli(r *rig, release, server string) *zkCli {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts/apache-server"), "-server", server, "-waitforconnection")
	cmd.Env = append(os.Environ(), "CLASS=org.apache.zookeeper.ZooKeeperMain", "RELEASE="+release, "LC_ALL=C.UTF-8",
		"JVMFLAGS=-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC -Dorg.slf4j.simpleLogger.defaultLogLevel=off")
	in, err := cmd.StdinPipe()
	r.must(err)
	out, err := cmd.StdoutPipe()
	r.must(err)
	cmd.Stderr = cmd.Stdout // both in the order in which they were printed
	r.must(cmd.Start())
	z := &zkCli{rig: r, in: in, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(z.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			z.lines <- s.Text()
		}
	}()
	z.closed = func() error {
		_ = in.Close() // it may have ended
		for range z.lines {
		}
		<-done
		return cmd.Wait()
	}
	r.t.Cleanup(func() {
		cancel()
		_ = z.closed() // it was killed, or has been waited for
	})
	_ = z.answer("connect") // says that it is welcome
	return z
}

// types types commands, and keeps what they print.
func (z *zkCli) types(commands ...string) {
	z.t.Helper()
	for _, c := range commands {
		_, err := fmt.Fprintln(z.in, c)
		z.must(err)
		printed := z.answer(c)
		if v := regexp.MustCompile(`(?m)^version=([0-9a-f]+)$`).FindStringSubmatch(printed); v != nil {
			z.seen = v[1]
		}
		z.all = append(z.all, typed{c, printed})
	}
}

// version is that of the configuration which was printed last.
func (z *zkCli) version() string { return z.seen }

// answer reads what a command prints, up to the answer of another one. Events come at any time.
func (z *zkCli) answer(command string) string {
	z.t.Helper()
	const mark = "printwatches is on"
	_, err := fmt.Fprintln(z.in, "printwatches")
	z.must(err)
	var b strings.Builder
	late := time.After(patience)
	for {
		select {
		case line, ok := <-z.lines:
			switch {
			case !ok:
				z.t.Fatalf("zkCli.sh ends with %q\n%s", command, b.String())
			case line == mark:
				return b.String()
			case strings.HasPrefix(line, "WatchedEvent "):
				z.events = append(z.events, line)
			case line != "" && line != "WATCHER::":
				b.WriteString(line + "\n")
			}
		case <-late:
			z.t.Fatalf("zkCli.sh does not answer %q\n%s", command, b.String())
		}
	}
}

// end ends zkCli.sh and returns what was printed with names in place of what differs between ensembles: ports,
// directories, times, and zxids, which are counted in the order in which they are seen.
func (z *zkCli) end() []typed {
	z.t.Helper()
	if err := z.closed(); err != nil {
		z.t.Errorf("zkCli.sh: %v", err)
	}
	var changes []string
	for _, e := range z.events {
		if strings.Contains(e, "/zookeeper/config") {
			changes = append(changes, regexp.MustCompile(` zxid: .*`).ReplaceAllString(e, ""))
		}
	}
	names := []string{}
	for _, m := range z.e.Members {
		names = append(names, m.Dir, fmt.Sprintf("DIR%d", m.ID))
		for what, address := range map[string]string{"QUORUM": m.Quorum, "ELECTION": m.Election, "CLIENT": m.Client} {
			_, port, _ := strings.Cut(address, ":")
			names = append(names, port, fmt.Sprintf("%s%d", what, m.ID))
		}
	}
	named, zxids := strings.NewReplacer(names...), []string{}
	number := func(zxid string) string {
		if !slices.Contains(zxids, zxid) {
			zxids = append(zxids, zxid)
		}
		return fmt.Sprintf("ZXID%d", slices.Index(zxids, zxid))
	}
	z.all = append(z.all, typed{"the events of config -w", strings.Join(changes, "\n") + "\n"})
	for i := range z.all {
		for _, text := range []*string{&z.all[i].command, &z.all[i].printed} {
			*text = named.Replace(*text)
			*text = regexp.MustCompile(`(?m)^([cm]time = ).*`).ReplaceAllString(*text, "${1}TIME")
			*text = regexp.MustCompile(`\b10000[0-9a-f]{4}\b`).ReplaceAllStringFunc(*text, number) // of the first epoch
		}
	}
	return z.all
}
