// Package cluster starts ensembles of real servers on the loopback interface,
// Apache ZooKeeper and Pinfold in any mixture, and does to them what machines
// and networks do: it kills, pauses, restarts and replaces members, and cuts
// the links between them.
//
// It ends only processes that it has started. Ports are from 32000 to 32767.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options say what an ensemble is made of.
type Options struct {
	Dir      string // for everything that it writes; must exist
	Specs    []Spec // members 1 to len(Specs); one alone is a standalone server
	Programs Programs
	// Links has every member reach every other through a proxy, so that
	// partitions are possible. It costs processor time.
	Links bool
	Lines []string // of zoo.cfg, for every member
	// Spread gives each member an address of loopback of its own, 127.0.0.ID, for the other
	// members. It does not go with Links.
	Spread bool
	// Hosts gives each member a network namespace, a host name and a resolver of its own. It
	// does not go with Links or Spread, and needs root.
	Hosts bool
	// Metrics has every member export its metrics for Prometheus at Member.Metrics.
	Metrics bool
	// Admin has every member run an administration server, at Member.Admin.
	Admin bool
}

// An Ensemble is the members and the links between them.
type Ensemble struct {
	Members []*Member // in the order of their ids
	Links   *Links    // nil without Options.Links
	Hosts   *Hosts    // nil without Options.Hosts

	programs Programs
	ports    portPool
	dir      string
	lines    []string // Options.Lines
}

// New writes the members' directories and starts nothing but the proxies.
func New(o Options) (*Ensemble, error) {
	e := &Ensemble{programs: o.Programs, dir: o.Dir, lines: o.Lines}
	if o.Hosts {
		var err error
		if e.Hosts, err = newHosts(o.Dir, len(o.Specs)); err != nil {
			return nil, err
		}
	}
	var addrs []address
	for i, spec := range o.Specs {
		dir := filepath.Join(o.Dir, fmt.Sprint(i+1))
		m := &Member{
			ID: i + 1, Observer: spec.Observer, Dir: dir, DataDir: filepath.Join(dir, "data"),
			programs: o.Programs, cfg: filepath.Join(dir, "zoo.cfg"), kind: spec.Kind,
			alone: len(o.Specs) == 1,
		}
		var a address
		for _, p := range []*int{&a.client, &a.quorum, &a.election, &a.metrics, &a.admin} {
			var err error
			if *p, err = e.ports.take(); err != nil {
				e.Close()
				return nil, err
			}
		}
		a.host = "127.0.0.1"
		if o.Spread {
			a.host = fmt.Sprintf("127.0.0.%d", m.ID)
		}
		m.Client = loopback(a.client)
		if e.Hosts != nil {
			m.namespace, a.host = e.Hosts.namespace(m.ID), Name(m.ID)
			m.Client = fmt.Sprintf("%s:%d", e.Hosts.clientAddress(m.ID), a.client)
		}
		m.Quorum, m.Election = fmt.Sprintf("%s:%d", a.host, a.quorum), fmt.Sprintf("%s:%d", a.host, a.election)
		if o.Metrics {
			m.Metrics = loopback(a.metrics)
		}
		if o.Admin {
			m.Admin = loopback(a.admin)
			if e.Hosts != nil {
				m.Admin = fmt.Sprintf("%s:%d", e.Hosts.clientAddress(m.ID), a.admin)
			}
		}
		e.Members = append(e.Members, m)
		addrs = append(addrs, a)
	}
	if o.Links {
		var err error
		if e.Links, err = newLinks(addrs, &e.ports); err != nil {
			e.Close()
			return nil, err
		}
	}
	for i, m := range e.Members {
		if err := m.write(e.config(i, addrs, o.Lines)); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, nil
}

// An address is where one member is.
type address struct {
	host                                     string // for the other members
	client, quorum, election, metrics, admin int
}

// config is the zoo.cfg of the member at index i. With links it sees the others
// at the addresses of its proxies.
func (e *Ensemble) config(i int, addrs []address, more []string) string {
	listen, adminHost := "clientPortAddress=127.0.0.1", "127.0.0.1"
	if e.Hosts != nil {
		listen, adminHost = "quorumListenOnAllIPs=true", "0.0.0.0"
	}
	lines := []string{
		"tickTime=2000", "initLimit=10", "syncLimit=5", "dataDir=" + e.Members[i].DataDir,
		listen, fmt.Sprintf("clientPort=%d", addrs[i].client), "maxClientCnxns=0",
		"4lw.commands.whitelist=*", fmt.Sprintf("admin.enableServer=%v", e.Members[i].Admin != ""),
		"admin.serverAddress=" + adminHost, fmt.Sprintf("admin.serverPort=%d", addrs[i].admin),
	}
	lines = append(lines, more...)
	if e.Members[i].Observer {
		lines = append(lines, "peerType=observer")
	}
	if e.Members[i].Metrics != "" {
		lines = append(lines, "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
			"metricsProvider.httpHost=127.0.0.1", fmt.Sprintf("metricsProvider.httpPort=%d", addrs[i].metrics))
	}
	if e.Members[i].alone {
		addrs = nil
	}
	for j, a := range addrs {
		if e.Links != nil && i != j {
			a = e.Links.seenBy(i+1, j+1)
		}
		role := ""
		if e.Members[j].Observer {
			role = ":observer"
		}
		lines = append(lines, fmt.Sprintf("server.%d=%s:%d:%d%s", j+1, a.host, a.quorum, a.election, role))
	}
	return strings.Join(lines, "\n") + "\n"
}

// write makes the member's directory.
func (m *Member) write(cfg string) error {
	if err := os.MkdirAll(m.DataDir, 0o755); err != nil {
		return fmt.Errorf("cluster: member %d: %w", m.ID, err)
	}
	m.text = cfg
	if err := m.Configure(); err != nil {
		return err
	}
	myid := fmt.Sprintln(m.ID)
	if err := os.WriteFile(filepath.Join(m.DataDir, "myid"), []byte(myid), 0o644); err != nil {
		return fmt.Errorf("cluster: member %d: %w", m.ID, err)
	}
	return nil
}

// FreePort returns a port of this ensemble's that no member uses, for a program beside it.
func (e *Ensemble) FreePort() (int, error) { return e.ports.take() }

// Member returns the member with the id, from 1.
func (e *Ensemble) Member(id int) *Member { return e.Members[id-1] }

// Voters returns the members that are no observers.
func (e *Ensemble) Voters() []*Member {
	return slices.DeleteFunc(slices.Clone(e.Members), func(m *Member) bool { return m.Observer })
}

// Clients returns the addresses for clients of all members.
func (e *Ensemble) Clients() []string {
	var list []string
	for _, m := range e.Members {
		list = append(list, m.Client)
	}
	return list
}

// Start starts every member that does not run, and waits until all serve.
func (e *Ensemble) Start(ctx context.Context) error {
	for _, m := range e.Members {
		if m.Running() {
			continue
		}
		if err := m.Start(); err != nil {
			return err
		}
	}
	return e.WaitServing(ctx)
}

// WaitServing waits until every member serves.
func (e *Ensemble) WaitServing(ctx context.Context) error {
	for _, m := range e.Members {
		if _, err := m.WaitServing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoLeader says that no member says that it leads.
var ErrNoLeader = errors.New("cluster: no member leads")

// Leader returns the member that says that it leads; of two, of which one must
// be about to learn better, that of the newer epoch.
func (e *Ensemble) Leader() (*Member, error) {
	var leader *Member
	var best Status
	for _, m := range e.Voters() {
		s, err := m.Status()
		if err == nil && s.Mode == "leader" && (leader == nil || s.Zxid > best.Zxid) {
			leader, best = m, s
		}
	}
	if leader == nil {
		return nil, ErrNoLeader
	}
	return leader, nil
}

// WaitLeader waits until one of the members for which ok holds leads.
func (e *Ensemble) WaitLeader(ctx context.Context, ok func(*Member) bool) (*Member, error) {
	var leader *Member
	err := poll(ctx, func() error {
		m, err := e.Leader()
		if err == nil && !ok(m) {
			err = fmt.Errorf("cluster: member %v leads", m)
		}
		leader = m
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, e.tails())
	}
	return leader, nil
}

// WaitCaughtUp waits until member m serves and has applied what the leader had
// applied when it was asked just before. It returns how long that took.
func (e *Ensemble) WaitCaughtUp(ctx context.Context, m *Member) (time.Duration, error) {
	began := time.Now()
	err := poll(ctx, func() error {
		leader, err := e.Leader()
		if err != nil {
			return err
		}
		l, err := leader.Status()
		if err != nil {
			return err
		}
		s, err := m.Status()
		if err != nil {
			return err
		}
		// A new leader says its epoch and a counter of 0 until its first
		// transaction; who serves under it has all that was before.
		if l.Zxid.Counter() != 0 && s.Zxid < l.Zxid {
			return fmt.Errorf("cluster: member %v is at %v, the leader at %v", m, s.Zxid, l.Zxid)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("cluster: member %v does not catch up: %w\n%s", m, err, m.Tail())
	}
	return time.Since(began), nil
}

// tails are the ends of what all members have printed.
func (e *Ensemble) tails() string {
	var b strings.Builder
	for _, m := range e.Members {
		fmt.Fprintf(&b, "\n--- member %v printed\n%s", m, m.Tail())
	}
	return b.String()
}

// Elect has the voter m lead: while load goes on elsewhere, it kills voters
// that m does not need, lets m's log become newer than theirs, and then those
// that could win against it. progress must return when writes have been
// acknowledged since its call. In the end all members run and m leads.
//
// REQUIRES: an odd number of voters, at least three, all running.
func (e *Ensemble) Elect(ctx context.Context, m *Member, progress func(context.Context) error) error {
	if l, err := e.Leader(); err == nil && l == m {
		return nil
	}
	others := slices.DeleteFunc(e.Voters(), func(o *Member) bool { return o == m })
	behind, rest := others[:len(others)/2], others[len(others)/2:]
	for _, o := range behind {
		o.Kill()
	}
	if err := progress(ctx); err != nil {
		return fmt.Errorf("cluster: with %v killed: %w", behind, err)
	}
	for _, o := range rest {
		o.Kill()
	}
	for _, o := range behind {
		if err := o.Start(); err != nil {
			return err
		}
	}
	if _, err := e.WaitLeader(ctx, func(l *Member) bool { return l == m }); err != nil {
		return err
	}
	return e.Start(ctx)
}

// Complaints returns what the members have printed that no fault excuses.
func (e *Ensemble) Complaints() []string {
	var all []string
	for _, m := range e.Members {
		all = append(all, m.Complaints()...)
	}
	return all
}

// Close kills every member, ends the proxies and gives the ports back.
func (e *Ensemble) Close() {
	for _, m := range e.Members {
		m.Kill()
	}
	if e.Links != nil {
		e.Links.close()
	}
	if e.Hosts != nil {
		e.Hosts.close()
	}
	e.ports.release()
}

// Standalone makes a server on its own, of the kind, over a copy of the data
// directory of a member that does not run. Its zoo.cfg has Options.Lines too.
func (e *Ensemble) Standalone(kind Kind, of *Member) (*Member, error) {
	if of.Running() {
		return nil, fmt.Errorf("cluster: member %v runs: its directory changes", of)
	}
	port, err := e.ports.take()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.dir, fmt.Sprintf("%d-alone-%s-", of.ID, kind))
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	m := &Member{
		ID: of.ID, Client: loopback(port), Dir: dir, DataDir: filepath.Join(dir, "data"),
		programs: e.programs, cfg: filepath.Join(dir, "zoo.cfg"), kind: kind,
		alone: true,
	}
	if err := os.CopyFS(m.DataDir, os.DirFS(of.DataDir)); err != nil {
		return nil, fmt.Errorf("cluster: copy of the directory of member %d: %w", of.ID, err)
	}
	lines := []string{
		"tickTime=2000", "dataDir=" + m.DataDir, "clientPortAddress=127.0.0.1", fmt.Sprintf("clientPort=%d", port),
		"maxClientCnxns=0", "admin.enableServer=false", "4lw.commands.whitelist=*",
	}
	lines = append(lines, e.lines...)
	return m, m.write(strings.Join(lines, "\n") + "\n")
}

// WaitNoRole waits until a member neither leads nor follows, or has ended.
func (m *Member) WaitNoRole(ctx context.Context) error {
	return poll(ctx, func() error {
		if s, err := m.Status(); err == nil {
			return fmt.Errorf("cluster: member %v is still %s", m, s.Mode)
		}
		return nil
	})
}

// WaitNoLongerLeads waits until a member does not say that it leads.
func (m *Member) WaitNoLongerLeads(ctx context.Context) error {
	return poll(ctx, func() error {
		if s, err := m.Status(); err == nil && s.Mode == "leader" {
			return fmt.Errorf("cluster: member %v still leads", m)
		}
		return nil
	})
}

// Until waits until done returns true. The error is that of ctx.
func (e *Ensemble) Until(ctx context.Context, done func() bool) error {
	return poll(ctx, func() error {
		if done() {
			return nil
		}
		return errors.New("cluster: what was waited for has not come")
	})
}
