package products

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// house is a server of ClickHouse.
type house struct {
	url     string
	process *cluster.ClientProcess
}

// query returns the answer to a query.
func (h *house) query(text string) (string, error) {
	res, err := http.Post(h.url, "text/plain", strings.NewReader(text))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}

// startHouse starts a server that keeps the state of its replicated tables in the ensemble.
func (s *site) startHouse(replica int) *house {
	s.t.Helper()
	var nodes strings.Builder
	for _, addr := range s.Clients() {
		host, port, _ := strings.Cut(addr, ":")
		fmt.Fprintf(&nodes, "<node><host>%s</host><port>%s</port></node>", host, port)
	}
	name, ports := fmt.Sprintf("house%d", replica), s.ports(3)
	dir := filepath.Join(s.dir, name)
	s.file(name+"/users.xml", `<yandex>
<profiles><default/></profiles><quotas><default/></quotas>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>`)
	config := s.file(name+"/config.xml", fmt.Sprintf(`<yandex>
<http_port>%d</http_port><tcp_port>%d</tcp_port><interserver_http_port>%d</interserver_http_port>
<interserver_http_host>127.0.0.1</interserver_http_host><listen_host>127.0.0.1</listen_host>
<path>%[4]s/data/</path><tmp_path>%[4]s/tmp/</tmp_path><format_schema_path>%[4]s/format/</format_schema_path>
<users_config>users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>5000000</mark_cache_size>
<logger><level>warning</level><log>%[4]s/log</log><errorlog>%[4]s/errors</errorlog></logger>
<zookeeper>%[5]s<session_timeout_ms>10000</session_timeout_ms></zookeeper>
<macros><replica>%[6]d</replica></macros>
</yandex>`, ports[0], ports[1], ports[2], dir, nodes.String(), replica))
	for _, sub := range []string{"data", "tmp", "format"} {
		must(s.t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	cmd := exec.Command("clickhouse-server", "--config-file="+config)
	cmd.Dir = dir
	process, err := cluster.StartClient(cmd, filepath.Join(dir, "out"))
	must(s.t, err)
	s.t.Cleanup(process.Kill)
	s.logOnFailure(filepath.Join(dir, "errors"))
	h := &house{fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), process}
	s.until("ClickHouse starts", func() error { _, err := h.query("SELECT 1"); return err })
	return h
}

// Two replicas of a table have every block once while leaders of the ensemble are killed, and
// a third one that is made later catches up. An insertion whose answer is lost is repeated, as
// the documents of ClickHouse say: the znode of its block tells that it is there.
func TestClickHouse(t *testing.T) {
	s := start(t)
	replicas := []*house{s.startHouse(1), s.startHouse(2)}
	const table = "CREATE TABLE t (d Date, k UInt64) ENGINE = ReplicatedMergeTree('/clickhouse/tables/t', '{replica}', d, k, 8192)"
	for _, h := range replicas {
		s.until("create the table", func() error { _, err := h.query(table); return err })
	}
	blocks := 0
	insert := func(n int) {
		t.Helper()
		for range n {
			block := fmt.Sprintf("INSERT INTO t SELECT toDate('2026-01-01'), number + %d FROM system.numbers LIMIT 1000", 1000*blocks)
			h := replicas[blocks%2]
			s.until("insert", func() error { _, err := h.query(block); return err })
			blocks++
		}
	}
	insert(10)
	for range 2 {
		failed := make(chan error, 1)
		go func() { failed <- s.fail() }()
		insert(10)
		must(t, <-failed)
		insert(5)
	}
	late := s.startHouse(3)
	s.until("create the third replica", func() error { _, err := late.query(table); return err })
	rows := 1000 * blocks
	want := fmt.Sprintf("%d\t%d\t%d", rows, rows, rows*(rows-1)/2)
	for i, h := range append(replicas, late) {
		s.until(fmt.Sprintf("replica %d has all rows", i+1), func() error {
			got, err := h.query("SELECT count(), uniqExact(k), sum(k) FROM t")
			if err == nil && got != want {
				err = fmt.Errorf("rows, different rows, sum: %s, want %s", got, want)
			}
			return err
		})
	}
}
