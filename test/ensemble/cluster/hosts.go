package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Hosts are the machines of an ensemble's members, as Kubernetes has them: each is a network
// namespace with an address that may change and a resolver, a dnsmasq that knows only what it is
// told (Publish). The members know each other by names. Clients use an address that does not
// change. All namespaces are connected by a bridge, in a namespace of its own.
type Hosts struct {
	dir    string
	prefix string // of the names of namespaces and devices
	subnet int    // the third byte of all addresses
	hosts  []*host
}

// host is one member's machine.
type host struct {
	id      int
	moves   int              // how often its address has changed
	names   map[int][]string // by the member's id: what its resolver answers
	dnsmasq *process
}

// domain is that of the names.
const domain = "pinfold.test"

// Name is the host name of a member, in the server lines of all.
func Name(id int) string { return fmt.Sprintf("zk%d.%s", id, domain) }

// ErrNoNamespaces says that this machine does not let the test have network namespaces, or has no
// dnsmasq.
var ErrNoNamespaces = errors.New("cluster: network namespaces need root, the command ip and dnsmasq")

// CheckHosts reports whether Options.Hosts can work here, with an ErrNoNamespaces if not.
func CheckHosts() error {
	for _, command := range []string{"ip", "dnsmasq"} {
		if _, err := exec.LookPath(command); err != nil {
			return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
		}
	}
	name := fmt.Sprintf("pf%d", os.Getpid())
	if err := ip("netns", "add", name); err != nil {
		return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	return ip("netns", "del", name)
}

// ip runs the command ip.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// within has a command run in a network namespace, with the files of /etc/netns in place.
func within(cmd *exec.Cmd, namespace string) {
	args := append([]string{"ip", "netns", "exec", namespace, cmd.Path}, cmd.Args[1:]...)
	in := exec.Command(args[0], args[1:]...)
	cmd.Path, cmd.Args, cmd.Err = in.Path, in.Args, in.Err
}

// RunAt has a command that is not started yet run on the host of a member, with its resolver.
func (h *Hosts) RunAt(id int, cmd *exec.Cmd) { within(cmd, h.namespace(id)) }

// newHosts makes the network and n hosts, whose resolvers know no name.
func newHosts(dir string, n int) (*Hosts, error) {
	h := &Hosts{dir: dir, prefix: fmt.Sprintf("pf%d", os.Getpid()), subnet: os.Getpid() % 250}
	for id := range n {
		h.hosts = append(h.hosts, &host{id: id + 1, names: map[int][]string{}})
	}
	if err := h.connect(); err != nil {
		h.close()
		return nil, err
	}
	for _, o := range h.hosts {
		if err := h.add(o); err != nil {
			h.close()
			return nil, err
		}
	}
	return h, nil
}

// connect makes the bridge, and the way from the test to it.
func (h *Hosts) connect() error {
	bridge, device := h.bridge(), h.prefix+"r"
	return run1(
		[]string{"netns", "add", bridge},
		[]string{"-n", bridge, "link", "add", "br0", "up", "type", "bridge"},
		[]string{"link", "add", device, "type", "veth", "peer", "name", "test", "netns", bridge},
		[]string{"-n", bridge, "link", "set", "test", "up", "master", "br0"},
		[]string{"addr", "add", fmt.Sprintf("198.19.%d.254/24", h.subnet), "dev", device},
		[]string{"link", "set", device, "up"},
	)
}

// add makes a host and starts its resolver.
func (h *Hosts) add(o *host) error {
	name, device := h.namespace(o.id), fmt.Sprintf("m%d", o.id)
	err := run1(
		[]string{"netns", "add", name},
		[]string{"-n", h.bridge(), "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", name},
		[]string{"-n", h.bridge(), "link", "set", device, "up", "master", "br0"},
		[]string{"-n", name, "link", "set", "lo", "up"},
		[]string{"-n", name, "addr", "add", h.Address(o.id) + "/24", "dev", "eth0"},
		[]string{"-n", name, "addr", "add", h.clientAddress(o.id) + "/24", "dev", "eth0"},
		[]string{"-n", name, "link", "set", "eth0", "up"},
	)
	if err != nil {
		return err
	}
	etc := filepath.Join("/etc/netns", name)
	if err := os.MkdirAll(etc, 0o755); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := os.WriteFile(filepath.Join(etc, "resolv.conf"), []byte("nameserver 127.0.0.1\noptions timeout:1\n"), 0o644); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if err := h.writeNames(o); err != nil {
		return err
	}
	cmd := exec.Command("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--listen-address=127.0.0.1",
		"--bind-interfaces", "--no-resolv", "--no-hosts", "--addn-hosts="+h.namesFile(o), "--local=/"+domain+"/", "--local-ttl=0",
		"--pid-file="+h.namesFile(o)+".pid")
	within(cmd, name)
	if o.dnsmasq, err = run(cmd, h.namesFile(o)+".out"); err != nil {
		return err
	}
	// A signal would end it before it has begun.
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	return poll(ctx, func() error {
		_, err := os.Stat(h.namesFile(o) + ".pid")
		return err
	})
}

// run1 runs ip with each list of arguments, until one fails.
func run1(all ...[]string) error {
	for _, args := range all {
		if err := ip(args...); err != nil {
			return err
		}
	}
	return nil
}

func (h *Hosts) bridge() string              { return h.prefix + "-br" }
func (h *Hosts) namespace(id int) string     { return fmt.Sprintf("%s-%d", h.prefix, id) }
func (h *Hosts) namesFile(o *host) string    { return filepath.Join(h.dir, fmt.Sprintf("names-%d", o.id)) }
func (h *Hosts) clientAddress(id int) string { return fmt.Sprintf("198.19.%d.%d", h.subnet, id) }

// Address returns the present address of a member's host.
func (h *Hosts) Address(id int) string { return h.addressAfter(id, h.hosts[id-1].moves) }

// addressAfter returns the address of a host after so many moves.
func (h *Hosts) addressAfter(id, moves int) string {
	return fmt.Sprintf("198.18.%d.%d", h.subnet, 1+(id-1)*24+moves%24)
}

// Nowhere returns an address at which no host is, but for the moves to come: that of a member
// after its next move.
func (h *Hosts) Nowhere(id int) string { return h.addressAfter(id, h.hosts[id-1].moves+1) }

// Move gives a member's host another address. Its member should not run.
func (h *Hosts) Move(id int) error {
	name, old := h.namespace(id), h.Address(id)
	h.hosts[id-1].moves++
	return run1(
		[]string{"-n", name, "addr", "del", old + "/24", "dev", "eth0"}, // first: Linux removes what came after it too
		[]string{"-n", name, "addr", "add", h.Address(id) + "/24", "dev", "eth0"},
	)
}

// CanLose reports whether Lose can work here, once Hosts does.
func CanLose() bool {
	_, err := exec.LookPath("iptables")
	return err == nil
}

// Lose has the host of one member get no packet of another's, until Heal. Clients do not notice.
func (h *Hosts) Lose(from, to int) error {
	return h.iptables(to, "--append", "INPUT", "--source", h.Address(from), "--jump", "DROP")
}

// Refuse has the host of a member refuse connections to a port, and reset those that there are, until Heal.
func (h *Hosts) Refuse(id, port int) error {
	return h.iptables(id, "--append", "INPUT", "--protocol", "tcp", "--dport", strconv.Itoa(port), "--jump", "REJECT", "--reject-with", "tcp-reset")
}

// Heal has all packets arrive again.
func (h *Hosts) Heal() error {
	for _, o := range h.hosts {
		if err := h.iptables(o.id, "--flush", "INPUT"); err != nil {
			return err
		}
	}
	return nil
}

// iptables changes what a host lets in.
func (h *Hosts) iptables(id int, args ...string) error {
	return ip(append([]string{"netns", "exec", h.namespace(id), "iptables", "--wait"}, args...)...)
}

// Publish has the resolvers of the hosts at answer with these addresses for the name of a member:
// from soon on, as dnsmasq reads its file on a signal. Without an address there is no such name.
func (h *Hosts) Publish(id int, at []int, addresses ...string) error {
	for _, on := range at {
		o := h.hosts[on-1]
		o.names[id] = slices.Clone(addresses)
		if err := h.writeNames(o); err != nil {
			return err
		}
		if err := o.dnsmasq.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			return fmt.Errorf("cluster: dnsmasq: %w", err)
		}
	}
	return nil
}

// WaitPublished waits until the resolver of the host at answers as Publish has said.
func (h *Hosts) WaitPublished(ctx context.Context, id, at int) error {
	want := slices.Sorted(slices.Values(h.hosts[at-1].names[id]))
	return poll(ctx, func() error {
		out, err := exec.CommandContext(ctx, "ip", "netns", "exec", h.namespace(at), "getent", "ahostsv4", Name(id)).Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return stop{err}
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) > 1 && f[1] == "STREAM" && net.ParseIP(f[0]) != nil {
				got = append(got, f[0])
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("cluster: host %d resolves %s to %v, not to %v", at, Name(id), got, want)
		}
		return nil
	})
}

// writeNames writes what a host's resolver answers.
func (h *Hosts) writeNames(o *host) error {
	var b strings.Builder
	for id, addresses := range o.names {
		for _, a := range addresses {
			fmt.Fprintf(&b, "%s %s\n", a, Name(id))
		}
	}
	if err := os.WriteFile(h.namesFile(o), []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nil
}

// close removes everything. No member may run.
func (h *Hosts) close() {
	for _, o := range h.hosts {
		if o.dnsmasq != nil {
			_ = o.dnsmasq.end(syscall.SIGKILL)
		}
		_ = ip("netns", "del", h.namespace(o.id)) // an error: it was not made
		_ = os.RemoveAll(filepath.Join("/etc/netns", h.namespace(o.id)))
	}
	_ = ip("link", "del", h.prefix+"r") // with its namespace it would go later, when the next test may need the name
	_ = ip("netns", "del", h.bridge())
}
