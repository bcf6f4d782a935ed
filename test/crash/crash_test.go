package crash

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	kills   = flag.Int("kills", 15, "how often the server is killed")
	seed    = flag.Uint64("seed", 0, "what to write and when to kill; 0 is any")
	program = flag.String("pinfold", "", "`path` of the binary; none builds it")
	longest = flag.Duration("longest", 150*time.Millisecond, "time until a kill at most")
	dataDir = flag.String("data", "", "data `directory`; none is a temporary one")
)

const workers = 4

// TestKill kills the server with SIGKILL under load, and once in a while stops it
// with SIGTERM, over one and the same data directory. Sessions live on.
func TestKill(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	t.Logf("again: go test ./test/crash -run TestKill -seed %d -kills %d", *seed, *kills)
	s := newServer(t)
	rng := rand.New(rand.NewPCG(*seed, 0))
	var ws []*worker
	s.start()
	for i := range workers {
		w := &worker{
			root: fmt.Sprintf("/w%d", i), rng: rand.New(rand.NewPCG(*seed, uint64(i+1))), done: map[string]string{},
		}
		if err := w.connect(s.addr); err != nil {
			t.Fatal(err)
		}
		if _, err := w.call(wire.OpCreate, frames.Create(w.root, nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, w)
	}
	acked, extra := 0, 0
	for round := range *kills {
		var wg sync.WaitGroup
		for _, w := range ws {
			wg.Go(func() {
				if err := w.load(); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		<-time.After(time.Duration(rng.Int64N(int64(*longest))))
		if rng.IntN(20) == 0 {
			s.stop(syscall.SIGTERM)
		} else {
			s.stop(syscall.SIGKILL)
		}
		wg.Wait()
		s.start()
		for _, w := range ws {
			acked += w.acks
			if err := w.connect(s.addr); err != nil {
				t.Fatalf("round %d: %s: %v", round, w.root, err)
			}
			n, err := w.verify()
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			extra += n
		}
		if t.Failed() {
			return
		}
	}
	s.stop(syscall.SIGTERM)
	t.Logf("%d kills: %d writes were acknowledged, all of them are there; so are %d that were not", *kills, acked, extra)
	if acked < *kills {
		t.Error("that is no load")
	}
}

// server is the process.
type server struct {
	t      *testing.T
	binary string
	cfg    string
	addr   string
	cmd    *exec.Cmd
	errs   *bytes.Buffer
}

func newServer(t *testing.T) *server {
	dir := *dataDir
	if dir == "" {
		dir = t.TempDir()
	}
	s := &server{t: t, binary: *program, cfg: filepath.Join(t.TempDir(), "zoo.cfg")}
	if s.binary == "" {
		s.binary = filepath.Join(t.TempDir(), "pinfold")
		build := exec.Command("go", "build", "-o", s.binary, "github.com/pinfold-zk/pinfold/cmd/pinfold")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	s.addr = freeAddr(t)
	_, port, _ := net.SplitHostPort(s.addr)
	// Small files and frequent snapshots: every kind of disk write is met by kills.
	text := fmt.Sprintf("clientPortAddress=127.0.0.1\nclientPort=%s\ndataDir=%s\ntickTime=2000\nsnapCount=3000\n"+
		"preAllocSize=256\ntxnLogSizeLimitInKb=2048\nmaxClientCnxns=0\nadmin.enableServer=false\n"+
		"autopurge.snapRetainCount=3\nautopurge.purgeInterval=1\n", port, dir)
	if err := os.WriteFile(s.cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.stop(syscall.SIGKILL)
		}
	})
	return s
}

// freeAddr finds an address on the loopback interface that nobody has.
func freeAddr(t *testing.T) string {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 31000+rand.IntN(1000))
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	t.Fatal("no free port from 31000 to 31999")
	return ""
}

// start starts the process and waits until it says that it is ready.
func (s *server) start() {
	s.t.Helper()
	s.errs = new(bytes.Buffer)
	s.cmd = exec.Command(s.binary, "server", s.cfg)
	s.cmd.Stderr = s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if lines.Text() == "ready" {
			return
		}
	}
	err = s.cmd.Wait()
	s.cmd = nil
	s.t.Fatalf("the server does not start: %v\n%s\n%s", err, strings.Join(said, "\n"), s.errs)
}

// stop ends the process by a signal and waits for it.
func (s *server) stop(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("%v: the server has ended already: %v\n%s", sig, err, s.errs)
	}
	err := s.cmd.Wait()
	s.cmd = nil
	if sig == syscall.SIGTERM && err != nil {
		s.t.Errorf("%v: %v\n%s", sig, err, s.errs)
	}
	if text := s.errs.String(); strings.Contains(text, "level=ERROR") || strings.Contains(text, "panic") {
		s.t.Errorf("%v: the server has said\n%s", sig, text)
	}
}
