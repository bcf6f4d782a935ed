package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// asPinfold makes this test's program behave as pinfold.
const asPinfold = "PINFOLD_TEST_AS_PINFOLD"

func TestMain(m *testing.M) {
	if os.Getenv(asPinfold) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestServerFlags(t *testing.T) {
	t.Setenv("SERVER_JVMFLAGS", "")
	for _, tt := range []struct {
		args     string
		file     string
		props    []string
		settings map[string]string
		wrong    string
	}{
		{args: "", settings: map[string]string{"autopurge.purgeInterval": "1m"}},
		{args: "zoo.cfg -Xmx2g -XX:+UseG1GC -Da=b", file: "zoo.cfg", props: []string{"-Da=b"}, settings: map[string]string{}},
		{args: "--port 2281", settings: map[string]string{
			"autopurge.purgeInterval": "1m", "clientPort": "2281", "clientPortAddress": "127.0.0.1"}},
		{args: "--listen=0.0.0.0 --data /d", settings: map[string]string{
			"autopurge.purgeInterval": "1m", "clientPort": "2181", "clientPortAddress": "0.0.0.0", "dataDir": "/d"}},
		{args: "--port 2281 zoo.cfg -v", file: "zoo.cfg", settings: map[string]string{"clientPort": "2281"}},
		{args: "a.cfg b.cfg", wrong: "two configuration files"},
		{args: "--prot 1", wrong: "unknown flag: --prot"},
	} {
		var f serverFlags
		flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
		f.register(flags)
		_, err := f.parse(flags, strings.Fields(tt.args))
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v, want %q", tt.args, err, tt.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
		}
		s := f.source()
		if s.File != tt.file || !cmp.Equal(s.Flags, tt.props) || !cmp.Equal(s.Settings, tt.settings) {
			t.Errorf("%s: %q %q %v", tt.args, s.File, s.Flags, s.Settings)
		}
	}
}

// writeConfig writes the files of member 1 of an ensemble, and returns the name of its
// zoo.cfg and its data directory, which has nothing but myid.
func writeConfig(t *testing.T, text string) (file, data string) {
	t.Helper()
	dir := t.TempDir()
	data = filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "zoo.cfg")
	text = strings.ReplaceAll(text, "DIR", dir)
	static, dynamic, _ := strings.Cut(text, "---\n")
	for name, text := range map[string]string{file: static, filepath.Join(dir, "dynamic"): dynamic, filepath.Join(data, "myid"): "1\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, data
}

const (
	static  = "tickTime=2000\ninitLimit=5\nsyncLimit=2\ndataDir=DIR/data\ndynamicConfigFile=DIR/dynamic\n---\n"
	members = "server.1=127.0.0.1:34001:34002;127.0.0.1:34003\nserver.2=127.0.0.1:34004:34005;34006\nserver.3=127.0.0.1:34007:34008;34009\n"
	groups  = "group.1=1\ngroup.2=2\ngroup.3=3\nweight.1=1\nweight.2=1\nweight.3=1\n"
)

// A valid ensemble passes the check, also one with a dynamic file and groups; nothing is
// written and no port is opened.
func TestCheck(t *testing.T) {
	t.Setenv("SERVER_JVMFLAGS", "")
	for _, tt := range []struct{ name, text, want, wrong string }{
		{name: "dynamic file", text: static + members, want: "server 1 of an ensemble of 3"},
		{name: "groups", text: static + members + groups, want: "server 1 of an ensemble of 3"},
		{name: "safety", text: "dataDir=DIR/data\nclientPort=34003\n", want: "zoo.cfg:2: clientPort: clients connect to port 34003 on every address without TLS"},
		{name: "ports", text: "dataDir=DIR/data\nclientPort=34003\n", want: "  clients   :34003 without TLS\n"},
		{name: "standalone", text: "dataDir=DIR/data\nclientPort=34003\nclinetPort=1\n", want: "clinetPort: is unknown and has no effect; did you mean clientPort?"},
		{name: "TLS", text: "dataDir=DIR/data\nclientPort=34003\nssl.context.supplier.class=x\n", wrong: "zoo.cfg:3: ssl.context.supplier.class=x: "},
		{name: "certificates of clients", text: "dataDir=DIR/data\nsecureClientPort=34003\nssl.keyStore.location=DIR/client.pem\n",
			wrong: "TLS of the client port: key store: open "},
		{name: "certificates of servers", text: "sslQuorum=true\nssl.quorum.keyStore.location=DIR/server.pem\n" + static + members,
			wrong: "TLS between servers: key store: open "},
		{name: "login file", text: "dataDir=DIR/data\nclientPort=34003\nlimitsFile=DIR/missing\n", wrong: "missing: no such file"},
		{name: "directory", text: "dataDir=DIR/none\nclientPort=34003\ndatadir.autocreate=false\n", wrong: "does not exist, and datadir.autocreate is false"},
	} {
		file, data := writeConfig(t, tt.text)
		cmd := serverCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"--check", file})
		err := cmd.Execute()
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.wrong)
			}
			continue
		}
		if err != nil || !strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), data+" (new)") {
			t.Errorf("%s: %v\n%s", tt.name, err, out.String())
		}
		if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 {
			t.Errorf("%s: the check has left %v, %v", tt.name, entries, err)
		}
	}
}

// A process is pinfold in a process of its own.
type process struct {
	*exec.Cmd
	out, log *bufio.Reader
	systemd  *net.UnixConn
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPinfold+"=1", "SERVER_JVMFLAGS=", "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=20000")
	out, outErr := cmd.StdoutPipe()
	log, logErr := cmd.StderrPipe()
	if outErr != nil || logErr != nil {
		t.Fatal(outErr, logErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		systemd.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return &process{cmd, bufio.NewReader(out), bufio.NewReader(log), systemd}
}

// line reads lines until one has text, and returns it.
func line(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	for {
		l, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("no line with %q: %v", text, err)
		}
		if strings.Contains(l, text) {
			return l
		}
	}
}

// told waits until systemd has been told text.
func (p *process) told(t *testing.T, text string) {
	t.Helper()
	if err := p.systemd.SetReadDeadline(time.Now().Add(90 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var b [256]byte
	for {
		n, err := p.systemd.Read(b[:])
		if err != nil {
			t.Fatalf("systemd was not told %q: %v", text, err)
		}
		if strings.Contains(string(b[:n]), text) {
			return
		}
	}
}

// A server says that it is ready, to the user and to systemd, tells the watchdog that it
// is alive, and changes the level of its log, which is JSON, at SIGUSR2.
func TestServerProcess(t *testing.T) {
	p := startProcess(t, "server", "--port", "0", "--data", t.TempDir(), "--log-format", "json")
	line(t, p.out, "ready")
	p.told(t, "READY=1\nSTATUS=serving, standalone")
	p.told(t, "WATCHDOG=1")
	for _, level := range []string{"DEBUG", "INFO"} {
		if err := p.Process.Signal(syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		text := line(t, p.log, "log_level_changed")
		var fields struct{ Event, Level, Msg string }
		if err := json.Unmarshal([]byte(text), &fields); err != nil || !strings.Contains(text, `"level":"`+level+`"}`) {
			t.Errorf("%v: %s", err, text)
		}
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.told(t, "STOPPING=1")
	if _, err := io.Copy(io.Discard, p.log); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the server has ended: %v", err)
	}
}

// A member without the others is not ready, and systemd takes it for started.
func TestMemberWaits(t *testing.T) {
	var ports []string
	for i := range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		if i < 2 { // the member's own; if another program takes one, the member tries on
			l.Close()
			continue
		}
		defer l.Close()
	}
	// The ports of the others belong to this test, which answers nothing.
	file, _ := writeConfig(t, "tickTime=2000\ninitLimit=5\nsyncLimit=2\ndataDir=DIR/data\nclientPort=0\nelectionPortBindRetry=0\n"+
		"server.1=127.0.0.1:"+ports[0]+":"+ports[1]+"\nserver.2=127.0.0.1:"+ports[2]+":"+ports[3]+
		"\nserver.3=127.0.0.2:"+ports[2]+":"+ports[4]+"\n")
	p := startProcess(t, "server", file)
	if got := line(t, p.out, "waiting"); got != "waiting for a quorum\n" {
		t.Errorf("it says %q", got)
	}
	p.told(t, "READY=1\nSTATUS=waiting for a quorum")
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(p.out)
	if err != nil || bytes.Contains(rest, []byte("ready")) {
		t.Errorf("%v; it says %q", err, rest)
	}
}
