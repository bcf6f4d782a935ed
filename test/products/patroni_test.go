package products

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// postgres is a PostgreSQL that Patroni controls.
type postgres struct {
	s         *site
	name      string
	config    string // of Patroni
	data, out string
	rest, sql int // ports
	process   *cluster.ClientProcess
}

// newPostgres writes the configuration of a member of the cluster "demo".
func (s *site) newPostgres(name string) *postgres {
	s.t.Helper()
	bin, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(bin) == 0 {
		s.t.Fatalf("PostgreSQL is not installed (%v)", err)
	}
	dir, ports := filepath.Join(s.dir, name), s.ports(2)
	must(s.t, os.MkdirAll(dir, 0o755))
	if root() {
		must(s.t, chown(dir, "postgres"))
	}
	p := &postgres{s: s, name: name, data: filepath.Join(dir, "data"), out: filepath.Join(s.dir, name+".log"), rest: ports[0], sql: ports[1]}
	p.config = s.file(name+".yml", fmt.Sprintf(`scope: demo
namespace: /service/
name: %[1]s
restapi: {listen: "127.0.0.1:%[2]d", connect_address: "127.0.0.1:%[2]d"}
zookeeper: {hosts: ["%[3]s"]}
bootstrap:
  dcs: {ttl: 30, loop_wait: 2, retry_timeout: 10, synchronous_mode: true}
  initdb: [{encoding: UTF8}, {auth: trust}, data-checksums]
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
postgresql:
  listen: 127.0.0.1:%[4]d
  connect_address: 127.0.0.1:%[4]d
  data_dir: %[5]s/data
  bin_dir: %[6]s
  remove_data_directory_on_diverged_timelines: true
  basebackup: [{checkpoint: fast}]
  pgpass: %[5]s/pgpass
  authentication: {replication: {username: replicator, password: unused}, superuser: {username: postgres, password: unused}}
  parameters: {unix_socket_directories: ""}
`, name, p.rest, strings.Join(s.Clients(), `", "`), p.sql, dir, filepath.Dir(bin[0])))
	s.logOnFailure(p.out)
	return p
}

// start starts Patroni, which starts PostgreSQL.
func (p *postgres) start() {
	p.s.t.Helper()
	cmd := exec.Command("patroni", p.config)
	if root() { // PostgreSQL refuses to run as root
		cmd = exec.Command("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL", "patroni", p.config)
	}
	var err error
	p.process, err = cluster.StartClient(cmd, p.out)
	must(p.s.t, err)
	p.s.t.Cleanup(p.kill)
}

// kill ends Patroni and PostgreSQL at once, as the loss of their machine would.
func (p *postgres) kill() {
	p.process.Kill()
	content, err := os.ReadFile(filepath.Join(p.data, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, errPID := strconv.Atoi(line)
	if err := errors.Join(err, errPID); err != nil {
		p.s.t.Errorf("the PostgreSQL of %s is not ended: %v", p.name, err)
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL) // an error means that it has ended
	_ = os.Remove(filepath.Join(p.data, "postmaster.pid"))
}

// roles returns what Patroni says of each member of the cluster.
func (p *postgres) roles() (map[string]string, error) {
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/cluster", p.rest))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Members []struct{ Name, Role, State string }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return nil, err
	}
	roles := map[string]string{}
	for _, m := range answer.Members {
		if m.State == "running" || m.State == "streaming" {
			roles[m.Name] = m.Role
		}
	}
	return roles, nil
}

// query runs a statement by psql.
func (p *postgres) query(text string) (string, error) {
	out, err := exec.Command("psql", "-h", "127.0.0.1", "-p", strconv.Itoa(p.sql), "-U", "postgres", "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", text).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("psql: %w: %s", err, out)
	}
	return strings.TrimSpace(string(out)), err
}

// await waits until the cluster has these roles, according to p.
func (s *site) await(p *postgres, want map[string]string) {
	s.t.Helper()
	s.until(fmt.Sprintf("the roles %v", want), func() error {
		got, err := p.roles()
		if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
			err = fmt.Errorf("the roles are %v", got)
		}
		return err
	})
}

// A primary stays the primary while the ensemble loses its leader; when the primary is lost,
// its synchronous standby takes over with every row, and the old primary comes back as its
// standby, copied anew.
func TestPatroni(t *testing.T) {
	s := start(t)
	a, b := s.newPostgres("a"), s.newPostgres("b")
	a.start()
	s.await(a, map[string]string{"a": "leader"})
	b.start()
	s.await(a, map[string]string{"a": "leader", "b": "sync_standby"})

	rows := 0
	insert := func(p *postgres, n int) {
		t.Helper()
		for range n {
			_, err := p.query(fmt.Sprintf("INSERT INTO t VALUES (%d)", rows))
			must(t, err)
			rows++
		}
	}
	_, err := a.query("CREATE TABLE t (n int PRIMARY KEY)")
	must(t, err)
	insert(a, 10)
	must(t, s.fail())
	insert(a, 10)
	s.await(a, map[string]string{"a": "leader", "b": "sync_standby"})

	a.kill()
	s.await(b, map[string]string{"b": "leader"})
	s.until("the new primary accepts rows", func() error {
		_, err := b.query(fmt.Sprintf("INSERT INTO t VALUES (%d)", rows))
		return err
	})
	rows++
	a.start()
	s.await(b, map[string]string{"b": "leader", "a": "sync_standby"})
	insert(b, 10)
	for _, p := range []*postgres{a, b} {
		s.until("all rows", func() error {
			got, err := p.query("SELECT count(*) || ' ' || sum(n) FROM t")
			if want := fmt.Sprintf("%d %d", rows, rows*(rows-1)/2); err == nil && got != want {
				err = fmt.Errorf("rows and sum: %s, want %s", got, want)
			}
			return err
		})
	}

	c, err := client.Dial(s.ctx, strings.Join(s.Clients(), ","))
	must(t, err)
	defer c.Close()
	data, st, err := c.Get(s.ctx, "/service/demo/leader")
	must(t, err)
	if string(data) != "b" || st.EphemeralOwner == 0 {
		t.Errorf("the lock has %q, owner %v", data, st.EphemeralOwner)
	}
}

func root() bool { return os.Geteuid() == 0 }

// chown gives a directory to a user.
func chown(dir, name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, errUID := strconv.Atoi(u.Uid)
	gid, errGID := strconv.Atoi(u.Gid)
	return errors.Join(errUID, errGID, os.Chown(dir, uid, gid))
}
