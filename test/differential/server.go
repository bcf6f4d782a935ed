package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
)

// startPatience is how long a server may take to serve.
const startPatience = 60 * time.Second

// keepContainers has containers and TTL nodes not vanish at a moment of the
// server's choosing.
const keepContainers = "-Dznode.container.checkIntervalMs=86400000"

// A configuration is the lines of zoo.cfg that a run varies.
type configuration struct {
	name  string
	lines []string
}

// configurations are those that a run without -config goes through in turn.
func configurations() []configuration {
	return []configuration{
		{"extended", []string{"extendedTypesEnabled=true"}},
		{"plain", nil},
		{"quota", []string{"extendedTypesEnabled=true", "enforceQuota=true"}},
	}
}

// A server is a process that this program started.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd
	out  string // its standard output and error
	done chan error
}

// zooCfg writes the configuration file that both kinds of server read.
func zooCfg(dir string, port int, c configuration) (string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		return "", err
	}
	lines := append([]string{
		"tickTime=500", "dataDir=" + filepath.Join(dir, "data"), fmt.Sprintf("clientPort=%d", port), "clientPortAddress=127.0.0.1",
		"minSessionTimeout=1000", fmt.Sprintf("maxSessionTimeout=%d", longTimeout), "maxClientCnxns=0", "admin.enableServer=false",
		"4lw.commands.whitelist=*", "forceSync=no", "preAllocSize=64",
		"DigestAuthenticationProvider.superDigest=" + digestID(superPassword),
	}, c.lines...)
	path := filepath.Join(dir, "zoo.cfg")
	return path, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// Releases of Apache ZooKeeper that can be the oracle.
const (
	release38 = "3.8" // 3.8.0, as Debian packages it: the installed one
	release39 = "3.9" // 3.9.3, as scripts/apache-release fetches it
)

// apacheServer runs a release of Apache's in the foreground.
const apacheServer = "scripts/apache-server"

// startApache starts a release of Apache ZooKeeper in dir.
func startApache(release, dir string, port int, c configuration) (*server, error) {
	cfg, err := zooCfg(dir, port, c)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(apacheServer); err != nil {
		return nil, fmt.Errorf("run it at the root of the repository: %w", err)
	}
	cmd := exec.Command(apacheServer, cfg)
	cmd.Env = append(os.Environ(), "JVMFLAGS=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "+keepContainers, "RELEASE=")
	if release != release38 {
		cmd.Env = append(cmd.Env, "RELEASE="+release)
	}
	return start("apache "+release, dir, port, cmd)
}

// startPinfold starts the binary at path.
func startPinfold(path, dir string, port int, c configuration) (*server, error) {
	cfg, err := zooCfg(dir, port, c)
	if err != nil {
		return nil, err
	}
	return start("pinfold", dir, port, exec.Command(path, "server", cfg, keepContainers))
}

// start runs cmd and returns when it serves.
func start(name, dir string, port int, cmd *exec.Cmd) (*server, error) {
	s := &server{name: name, addr: fmt.Sprintf("127.0.0.1:%d", port), cmd: cmd, out: filepath.Join(dir, "out"), done: make(chan error, 1)}
	// A server left on the port by another run would answer in ours' place.
	l, err := net.Listen("tcp", s.addr)
	if err != nil {
		return nil, fmt.Errorf("port of %s: %w", name, err)
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(s.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { s.done <- cmd.Wait() }()
	for end := time.Now().Add(startPatience); ; {
		select {
		case err := <-s.done:
			s.done <- err
			return nil, fmt.Errorf("%s ended: %v; its output:\n%s", name, err, s.tail())
		default:
		}
		if serves(s.addr) {
			return s, nil
		}
		if time.Now().After(end) {
			s.kill()
			return nil, fmt.Errorf("%s does not serve after %v; its output:\n%s", name, startPatience, s.tail())
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// serves asks for a session that does not exist: a server that refuses it
// serves, and no zxid is used.
func serves(addr string) bool {
	c, err := dial(addr)
	if err != nil {
		return false
	}
	defer c.close()
	r := wire.ConnectRequest{TimeoutMillis: shortTimeout, SessionID: 1, Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	c.send(frames.Append(nil, r.Append(nil)))
	_, err = c.frame(time.Second)
	return err == nil
}

// kill ends the process at once and waits until it is gone.
func (s *server) kill() {
	if s == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // an error means that it has ended
	<-s.done
	s.done <- nil
}

// tail is the end of the server's output.
func (s *server) tail() string {
	b, err := os.ReadFile(s.out)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return string(b)
}
