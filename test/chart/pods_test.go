package chart

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

var binary = flag.String("pinfold", "", "a static binary of pinfold, for the tests that run pods")

// patience is how long pods may take for anything.
const patience = 60 * time.Second

// TestPods runs the pods of the chart with its defaults, and ends them as a kubelet does: a leader hands
// over. What every pod of a cluster without policies reaches is closed to it.
func TestPods(t *testing.T) {
	r, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	n := newPods(t, r)
	c := n.dial(t, nil)
	if _, err := c.Create(t.Context(), "/kept", []byte("x"), zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range n.all {
		for _, command := range []string{"restore", "hand_over", "shed_connections", "snapshot"} {
			method := http.MethodPost
			if command == "snapshot" {
				method = http.MethodGet
			}
			if status, body := p.ask(t, method, "/commands/"+command); status != http.StatusForbidden {
				t.Errorf("%s of a stranger: %d %s", command, status, body)
			}
		}
	}
	leader := n.leader(t)
	grace := time.Duration(*r.set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if err := leader.end(syscall.SIGTERM, grace); err != nil {
		t.Fatalf("SIGTERM to the leader: %v\n%s", err, leader.printed(t))
	}
	if out := leader.printed(t); !strings.Contains(out, handsOver) {
		t.Errorf("the leader did not hand over:\n%s", out)
	}
	next := n.leader(t)
	if _, _, err := c.Get(t.Context(), "/kept"); err != nil || next == leader {
		t.Errorf("%s leads, and /kept: %v", next.name, err)
	}
	leader.start(t)
	n.ready(t)
}

// handsOver is in the line of a leader that leaves its role because it hands over.
const handsOver = "it hands over to the others"

// TestReadOnlyConfiguration changes the membership of pods whose zoo.cfg they cannot write: it is a
// config map's. After a restart they go on by the file members of their data directories (ADR 28).
func TestReadOnlyConfiguration(t *testing.T) {
	r, err := render(t, `
config: {reconfigEnabled: true}
properties: ["-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU="]
`)
	if err != nil {
		t.Fatal(err)
	}
	n := newPods(t, r)
	leader := n.leader(t)
	c := n.dial(t, leader) // a member that loses its vote closes its connections
	if err := c.AddAuth(t.Context(), "digest", []byte("super:test")); err != nil {
		t.Fatal(err)
	}
	follower := n.all[0]
	if follower == leader {
		follower = n.all[1]
	}
	line := fmt.Sprintf("server.%d=%s:2888:3888:observer;0.0.0.0:2181", follower.id, follower.host)
	changed, _, err := c.Reconfig(t.Context(), client.Reconfig{Joining: line, From: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range n.all {
		if err := p.end(syscall.SIGTERM, patience); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, p.printed(t))
		}
	}
	for _, p := range n.all {
		dir := filepath.Join(p.root, "etc/pinfold")
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Fatalf("%s has %v, %v", dir, files, err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "zoo.cfg")); err != nil || string(text) != r.config.Data["zoo.cfg"] {
			t.Errorf("zoo.cfg of %s has changed: %v\n%s", p.name, err, text)
		}
		p.start(t)
	}
	n.ready(t)
	for _, p := range n.all {
		after, _, err := n.dial(t, p).Config(t.Context())
		if err != nil || string(after) != string(changed) || !strings.Contains(string(after), line) {
			t.Errorf("%s has the configuration %q, %v; want %q", p.name, after, err, changed)
		}
		if _, body := p.ask(t, http.MethodGet, "/commands/server_stats"); strings.Contains(body, `"server_state" : "observer"`) != (p == follower) {
			t.Errorf("the role of %s:\n%s", p.name, body)
		}
	}
}

// pods are the members as a kubelet runs them: each has a root directory with nothing but the binary,
// its configuration and its data, a network and a host's name of its own, and the user of the pod.
type pods struct {
	r      *rendered
	prefix string
	all    []*pod
}

// A pod is one of them.
type pod struct {
	id               int
	name, host, root string
	address          string
	namespace        string
	args             []string
	user             uint32
	process          *os.Process
	ended            chan error
	out              string // the file that has what it prints
}

// newPods starts the pods and waits until they are ready. It skips the test where it cannot.
func newPods(t *testing.T, r *rendered) *pods {
	t.Helper()
	if *binary == "" {
		t.Skip("SKIPPED: pods need -pinfold")
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: pods need root, for networks of their own")
	}
	n := &pods{r: r, prefix: fmt.Sprintf("pc%d", os.Getpid())}
	n.network(t)
	var hosts strings.Builder
	for i := range int(*r.set.Spec.Replicas) {
		p := n.add(t, i)
		fmt.Fprintf(&hosts, "%s %s\n", p.address, p.host)
	}
	for _, p := range n.all {
		write(t, filepath.Join(p.root, "etc/hosts"), hosts.String())
		p.start(t)
	}
	n.ready(t)
	return n
}

// run runs a command that must succeed.
func run(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (n *pods) subnet() string { return fmt.Sprintf("198.18.%d.", os.Getpid()%250) }

// network makes a bridge in a namespace of its own, and the way from the test to it.
func (n *pods) network(t *testing.T) {
	t.Helper()
	bridge, device := n.prefix+"-br", n.prefix+"r"
	if out, err := exec.Command("ip", "netns", "add", bridge).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: pods need network namespaces: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", device).Run() // it may not have been made
		run(t, "ip", "netns", "del", bridge)
	})
	run(t, "ip", "-n", bridge, "link", "add", "br0", "up", "type", "bridge")
	run(t, "ip", "link", "add", device, "type", "veth", "peer", "name", "test", "netns", bridge)
	run(t, "ip", "-n", bridge, "link", "set", "test", "up", "master", "br0")
	run(t, "ip", "addr", "add", n.subnet()+"254/24", "dev", device)
	run(t, "ip", "link", "set", device, "up")
}

// add makes the pod with this number, and does not start it.
func (n *pods) add(t *testing.T, number int) *pod {
	t.Helper()
	set := n.r.set
	container := set.Spec.Template.Spec.Containers[0]
	if len(container.Command) > 0 {
		t.Fatalf("the pod has the command %q, not that of the image", container.Command)
	}
	name := fmt.Sprintf("%s-%d", set.Name, number)
	p := &pod{
		id: number + 1, name: name, host: fmt.Sprintf("%s.%s.%s.svc.cluster.local", name, set.Spec.ServiceName, namespace),
		root: t.TempDir(), address: fmt.Sprintf("%s%d", n.subnet(), number+1), namespace: fmt.Sprintf("%s-%d", n.prefix, number),
		args: container.Args, user: uint32(*set.Spec.Template.Spec.SecurityContext.RunAsUser),
	}
	p.out = filepath.Join(t.TempDir(), "out")
	n.all = append(n.all, p)
	program, err := os.ReadFile(*binary)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(p.root, "pinfold"), program, 0o755),
		os.Mkdir(filepath.Join(p.root, "data"), 0o770), os.Chown(filepath.Join(p.root, "data"), int(p.user), int(p.user)))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.root, "etc/pinfold/zoo.cfg"), n.r.config.Data["zoo.cfg"])

	device := fmt.Sprintf("m%d", p.id)
	run(t, "ip", "netns", "add", p.namespace)
	t.Cleanup(func() { run(t, "ip", "netns", "del", p.namespace) })
	run(t, "ip", "-n", n.prefix+"-br", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", p.namespace)
	run(t, "ip", "-n", n.prefix+"-br", "link", "set", device, "up", "master", "br0")
	run(t, "ip", "-n", p.namespace, "link", "set", "lo", "up")
	run(t, "ip", "-n", p.namespace, "addr", "add", p.address+"/24", "dev", "eth0")
	run(t, "ip", "-n", p.namespace, "link", "set", "eth0", "up")
	t.Cleanup(func() {
		if p.process != nil {
			_ = p.end(syscall.SIGKILL, patience)
		}
	})
	return p
}

// start starts the process of the pod.
func (p *pod) start(t *testing.T) {
	t.Helper()
	started := make(chan error, 1)
	p.ended = make(chan error, 1)
	go p.live(started)
	if err := <-started; err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// live is the life of the process. The thread has the namespaces of the pod, and ends with the process: the
// system ends the process with the thread, if the test is killed.
func (p *pod) live(started chan<- error) {
	runtime.LockOSThread()
	cmd := exec.Command("/pinfold", p.args...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: p.root, Credential: &syscall.Credential{Uid: p.user, Gid: p.user}, Pdeathsig: syscall.SIGKILL,
	}
	err := p.enter()
	if err == nil {
		cmd.Dir = "/"
		err = p.run(cmd)
	}
	started <- err
	if err == nil {
		p.ended <- cmd.Wait()
	}
}

// enter gives the thread the network of the pod, and the pod's name as that of the host.
func (p *pod) enter() error {
	f, err := os.Open(filepath.Join("/run/netns", p.namespace))
	if err != nil {
		return err
	}
	defer f.Close() // read only
	return errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), unix.Unshare(unix.CLONE_NEWUTS), unix.Sethostname([]byte(p.name)))
}

// run starts cmd with its output in the file of the pod.
func (p *pod) run(cmd *exec.Cmd) error {
	out, err := os.OpenFile(p.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	p.process = cmd.Process
	return err
}

// end ends the process by a signal. The error is that of a process that ends with another status than 0.
func (p *pod) end(by syscall.Signal, within time.Duration) error {
	if err := p.process.Signal(by); err != nil {
		return err
	}
	select {
	case err := <-p.ended:
		p.process = nil
		return err
	case <-time.After(within):
		return fmt.Errorf("%s does not end within %v", p.name, within)
	}
}

// printed is what the pod has printed.
func (p *pod) printed(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ask asks the administration server as any pod can: with the identity of its address.
func (p *pod) ask(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, "http://"+p.address+":8080"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "ip")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer a.Body.Close() // read only
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, err.Error()
	}
	return a.StatusCode, string(text)
}

// await asks until the answer is as wanted.
func (n *pods) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-late:
			for _, p := range n.all {
				t.Logf("%s:\n%s", p.name, p.printed(t))
			}
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// ready waits until all pods that run are ready, by their readiness probe.
func (n *pods) ready(t *testing.T) {
	t.Helper()
	path := n.r.set.Spec.Template.Spec.Containers[0].ReadinessProbe.HTTPGet.Path
	for _, p := range n.all {
		n.await(t, p.name+" is ready", func() bool {
			status, _ := p.ask(t, http.MethodGet, path)
			return status == http.StatusOK
		})
	}
}

// leader waits for a pod that leads, and returns it.
func (n *pods) leader(t *testing.T) (leads *pod) {
	t.Helper()
	n.await(t, "a pod leads", func() bool {
		for _, p := range n.all {
			if p.process == nil {
				continue
			}
			if _, body := p.ask(t, http.MethodGet, "/commands/server_stats"); strings.Contains(body, `"server_state" : "leader"`) {
				leads = p
			}
		}
		return leads != nil
	})
	return leads
}

// dial connects a client to one pod, or to all.
func (n *pods) dial(t *testing.T, to *pod) *client.Client {
	t.Helper()
	var servers []string
	for _, p := range n.all {
		if to == nil || p == to {
			servers = append(servers, p.address+":2181")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := client.Dial(ctx, strings.Join(servers, ","))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // its server may have gone
	return c
}
