package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lines joins the lines of a file.
func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }

// inDir makes the files in a directory of their own and goes there.
func inDir(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// report prints what Load has to say, one warning or error a line.
func report(warnings []Warning, err error) string {
	var b strings.Builder
	for _, w := range warnings {
		b.WriteString("warning " + w.String() + "\n")
	}
	if err != nil {
		b.WriteString("error " + strings.ReplaceAll(err.Error(), "\n", "\nerror ") + "\n")
	}
	return b.String()
}

func TestDefault(t *testing.T) {
	c := Default()
	got := []any{c.Client.Addr(), c.Data.Dir, c.Data.LogDir, c.Session, c.Log.ForceSync, c.Log.PreAllocBytes,
		c.Snapshot.Count, c.Client.MaxFrameBytes, c.Client.ExtraBytes, c.Commands.Allowed, c.Requests.MaxOutstanding}
	want := []any{"127.0.0.1:2181", "./pinfold-data", "./pinfold-data",
		Session{Tick: 3 * time.Second, MinTimeout: 6 * time.Second, MaxTimeout: 60 * time.Second, Bytes: 256 << 20}, true, int64(64 << 20),
		100000, 1048575, 1048575, []string{"srvr"}, 1000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLoadValues(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": lines(
		"# an operator's file", "tickTime=2000", "dataDir = /var/lib/zk ", "dataLogDir:/log/zk", "clientPort 2182",
		"clientPortAddress=::1", "maxClientCnxns=-1", "minSessionTimeout=1000", "maxSessionTimeout=9000",
		"autopurge.snapRetainCount=7", "autopurge.purgeInterval=12", "purgeMaxAge=36", "purgeMaxBytes=5000000000",
		"preAllocSize=1024", "snapCount=0x10", "snapSizeLimitInKb=-1", "txnLogSizeLimitInKb=2048", "fsync.warningthresholdms=20",
		"flushDelay=30", "observerMaster.sizeLimit=4096", "maxBatchSize=0", "snapshot.compression.method=snappy", "digest.enabled=FALSE",
		"extendedTypesEnabled=true", "enforceQuota=True", "globalOutstandingLimit=77", "maxCnxns=9",
		"connection_throttle_tokens=100", "connection_throttle_drop_increase=0.5", "largeRequestThreshold=4096",
		"4lw.commands.whitelist=ruok, stat,,conf", "ensembleAuthName=a, b", "authProvider.9="+ensembleProvider, "reconfigEnabled=true",
		"DigestAuthenticationProvider.superDigest=super:xQJmxLMiHGwaqBvst5y6rkB6HQs=",
		"DigestAuthenticationProvider.digestAlg=SHA-256", "nio.sessionlessCnxnTimeout=500", "netty.anything=1")})
	c, warnings, err := Load("zoo.cfg", []string{"-Xmx1g", "-Djute.maxbuffer=0xfffff", "-Dreadonlymode.enabled=true",
		"-Dznode.container.checkIntervalMs=10", "-Dznode.container.maxPerMinute=5", "-Dznode.container.maxNeverUsedIntervalMs=6",
		"-Djava.net.preferIPv4Stack=true"}, `-Dzookeeper.skipACL="no" -Dzookeeper.throttled_op_wait_time=4`)
	if got := report(warnings, err); got != "" {
		t.Fatal(got)
	}
	want := Default()
	want.File, want.Text = "zoo.cfg", c.Text
	want.Client.Host, want.Client.Port, want.Client.MaxPerIP, want.Client.MaxTotal = "::1", 2182, 0, 9
	want.Client.SessionlessTimeout = 500 * time.Millisecond
	want.Data.Dir, want.Data.LogDir = "/var/lib/zk", "/log/zk"
	want.Session = Session{Tick: 2 * time.Second, MinTimeout: time.Second, MaxTimeout: 9 * time.Second, Bytes: 256 << 20}
	want.Purge = Purge{7, 12 * time.Hour, 36 * time.Hour, 5_000_000_000}
	want.Log.PreAllocBytes, want.Log.MaxBytes, want.Log.FsyncWarnAfter = 1<<20, 2<<20, 20*time.Millisecond
	want.Log.DigestEnabled = false
	want.Snapshot.Count, want.Snapshot.SizeBytes, want.Snapshot.Compression = 16, -1024, "snappy"
	want.Tree.ExtendedTypes, want.Tree.EnforceQuota = true, true
	want.Requests.MaxOutstanding, want.Requests.LargeBytes = 77, 4096
	want.Requests.ThrottledOpWait = 4 * time.Millisecond
	want.Throttle.Tokens, want.Throttle.DropIncrease = 100, 0.5
	want.Commands.Allowed = []string{"ruok", "stat", "conf", "srvr", "isro"}
	want.Auth.Ensemble, want.Auth.EnsembleNames = true, []string{"a", "b"}
	want.Auth.SuperDigest, want.Auth.DigestHash = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=", "SHA-256"
	want.Quorum.ReconfigEnabled, want.Quorum.ReadOnlyMode = true, true
	want.Quorum.WindowBytes = 4096
	want.Reaper = Reaper{10 * time.Millisecond, 5, 6 * time.Millisecond}
	want.Properties, want.places = c.Properties, c.places // TestProperties
	if diff := cmp.Diff(want, c, cmp.AllowUnexported(Config{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Apache 3.8.0 was seen to do the same: a file's key sets the property anew.
func TestPrecedence(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": lines("dataDir=d", "clientPort=1", "snapCount=10")})
	c, warnings, err := Load("zoo.cfg",
		[]string{"-Dzookeeper.snapCount=20", "-Dzookeeper.maxCnxns=21", "-Dzookeeper.maxCnxns=22"},
		"-Dzookeeper.snapCount=10 -Dzookeeper.maxCnxns=31 -Dzookeeper.commitLogCount=532")
	if err != nil {
		t.Fatal(err)
	}
	if c.Snapshot.Count != 10 || c.Client.MaxTotal != 22 || c.Log.CommitLogCount != 532 {
		t.Errorf("snapCount %d, maxCnxns %d, commitLogCount %d; want 10, 22, 532", c.Snapshot.Count, c.Client.MaxTotal, c.Log.CommitLogCount)
	}
	want := "warning command line: zookeeper.snapCount: is overridden by zoo.cfg:3\n"
	if got := report(warnings, nil); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestProperties(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": lines("dataDir=d", "clientPort=1", "snapCount=10", "my.own=x")})
	c, _, err := Load("zoo.cfg", []string{"-Dzookeeper.maxCnxns=1", "-Duser.language=en", "-Xss1m"}, "-Djute.maxbuffer=5000")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"zookeeper.snapCount": "10", "zookeeper.my.own": "x", "zookeeper.maxCnxns": "1",
		"user.language": "en", "jute.maxbuffer": "5000"}
	if diff := cmp.Diff(want, c.Properties); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFlagsWithoutFile(t *testing.T) {
	c, warnings, err := Load("", []string{"-Dzookeeper.maxCnxns=3"}, "")
	if got := report(warnings, err); got != "" {
		t.Fatal(got)
	}
	if c.Client.Addr() != "127.0.0.1:2181" || c.Client.MaxTotal != 3 {
		t.Errorf("%s with %d connections, want 127.0.0.1:2181 with 3", c.Client.Addr(), c.Client.MaxTotal)
	}
}

func TestLoadNoFile(t *testing.T) {
	inDir(t, nil)
	_, _, err := Load("zoo.cfg", nil, "")
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != "config: open zoo.cfg: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestErrorFields(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": lines("dataDir=d", "clientPort=1", "tickTime=abc")})
	_, _, err := Load("zoo.cfg", nil, "")
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %T %v", err, err)
	}
	if want := (Error{"zoo.cfg:3", "tickTime", "abc", "not a whole number of milliseconds"}); *e != want {
		t.Errorf("got %+v, want %+v", *e, want)
	}
}

func TestAllows(t *testing.T) {
	some, all := Commands{Allowed: []string{"srvr", "ruok"}}, Commands{Allowed: []string{"*"}}
	if !some.Allows("ruok") || some.Allows("stat") || !all.Allows("stat") {
		t.Errorf("ruok %v, stat %v, stat of * %v; want true, false, true", some.Allows("ruok"), some.Allows("stat"), all.Allows("stat"))
	}
}

func TestPrometheus(t *testing.T) {
	for class, want := range map[string]bool{defaultProvider: false, nullProvider: false, prometheusProvider: true} {
		if got := (&Metrics{Provider: class}).Prometheus(); got != want {
			t.Errorf("%s: %v, want %v", class, got, want)
		}
	}
}

func TestMetricsAddr(t *testing.T) {
	for host, want := range map[string]string{"0.0.0.0": ":7000", "127.0.0.1": "127.0.0.1:7000", "::1": "[::1]:7000"} {
		if got := (&Metrics{Host: host, Port: 7000}).Addr(); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("dataDir=/d\nclientPort=2181\nserver.1=a:1:2;3\ngroup.1=1\nweight.1=2\nsnapCount=0x5\n"), "-Djute.maxbuffer=1 -Dzookeeper.x=y")
	f.Add([]byte("dataDir=/d\nsecureClientPort=1\nautopurge.purgeInterval=9999999999d\nversion=zz"), `-Dzookeper.a="b`)
	f.Fuzz(func(t *testing.T, text []byte, environ string) {
		if strings.Contains(strings.ToLower(string(text)), "dir") || strings.Contains(string(text), "dynamic") ||
			strings.Contains(string(text), `\`) || len(text) > 4096 || len(environ) > 4096 {
			return // no files but the one
		}
		c, _, err := (&Source{File: "zoo.cfg", Environ: Environment{Server: environ}}).load(append([]byte("dataDir=/nowhere\n"), text...))
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err != nil {
			return
		}
		if c.Session.MinTimeout > c.Session.MaxTimeout || c.Session.Tick <= 0 || c.Client.MaxFrameBytes < 64 ||
			c.Snapshot.Count < 2 || c.Purge.Retain < 3 || c.Purge.Interval < 0 || c.Quorum.Distributed() {
			t.Errorf("%q %q: accepted %+v", text, environ, c)
		}
	})
}
