package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/backup"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	program = flag.String("versitygw", "", "the program versitygw")
	binary  = flag.String("pinfold", "", "a binary of pinfold")
)

const (
	user     = "backup"
	password = "a secret of some length"
	patience = time.Minute
)

// TestBackup backs up a server that runs, twice, and restores it.
func TestBackup(t *testing.T) {
	g := newGateway(t)
	dir := t.TempDir()
	s, c := serve(t, dir)
	create(t, c, 0, 3)
	g.must(t, "generation 1 begins", "backup", dir, "s3://backups/zk")
	create(t, c, 3, 5)
	g.must(t, "copied 2 transactions; generation 1", "backup", dir, "s3://backups/zk")
	g.must(t, "generation 1: ", "restore", "--list", "s3://backups/zk")
	end(t, s, c)
	restored := t.TempDir()
	g.must(t, "verified", "restore", "s3://backups/zk", restored)
	s, c = serve(t, restored)
	for i := range 5 {
		if data, _, err := c.Get(t.Context(), path(i)); err != nil || len(data) != valueBytes {
			t.Errorf("%s: %d bytes, %v", path(i), len(data), err)
		}
	}
	end(t, s, c)
}

// TestRefused checks that a service that does not know the credentials refuses both commands, that they
// say why, and that nothing is left behind.
func TestRefused(t *testing.T) {
	g := newGateway(t)
	dir := t.TempDir()
	s, c := serve(t, dir)
	create(t, c, 0, 1)
	end(t, s, c)
	for _, try := range []struct{ user, password, want string }{
		{user, "another secret, which is wrong", "signature"},
		{"nobody", password, "access key"},
		{"", "", "Access Denied"},
	} {
		wrong := *g
		wrong.user, wrong.password = try.user, try.password
		restored := t.TempDir()
		for _, words := range [][]string{{"backup", dir, "s3://backups/zk"}, {"restore", "s3://backups/zk", restored}, {"restore", "--list", "s3://backups/zk"}} {
			out, err := wrong.run(words...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out, try.want) {
				t.Errorf("%q as %q: %v, %s", words[0], try.user, err, out)
			}
		}
		if left, err := os.ReadDir(restored); err != nil || len(left) > 0 {
			t.Errorf("restore as %q leaves %v, %v", try.user, left, err)
		}
	}
	if files := g.objects(t); len(files) > 0 {
		t.Errorf("the bucket has %q", files)
	}
	out, err := g.run("backup", dir, "s3://nothing/zk")
	if err == nil || !strings.Contains(out, "bucket does not exist") {
		t.Errorf("a bucket that is not there: %v, %s", err, out)
	}
}

// TestInterrupted ends a backup within the upload of the log. The part of the object is not seen; the next
// backup makes it whole.
func TestInterrupted(t *testing.T) {
	g := newGateway(t)
	dir := t.TempDir()
	s, c := serve(t, dir)
	create(t, c, 0, 4)
	through := newStall(t, g.address, 2*valueBytes)
	slow := *g
	slow.address = through.address
	cmd := slow.command(t.Context(), "backup", "--rate", "0", dir, "s3://backups/zk")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-through.reached:
	case <-time.After(patience):
		t.Error("the upload does not reach the place where it stalls")
	}
	err := errors.Join(cmd.Process.Kill(), cmd.Wait())
	t.Logf("killed: %v", err)
	through.close()
	for _, f := range g.objects(t) {
		if strings.Contains(f, "log.") {
			t.Errorf("the log is seen before it is whole: %s", f)
		}
	}
	g.must(t, "copied 5 transactions", "backup", dir, "s3://backups/zk")
	end(t, s, c)
	restored := t.TempDir()
	g.must(t, "verified", "restore", "s3://backups/zk", restored)
	s, c = serve(t, restored)
	if _, _, err := c.Get(t.Context(), path(3)); err != nil {
		t.Error(err)
	}
	end(t, s, c)
}

// TestManyObjects lists more objects than the service names in one answer, 1,000.
func TestManyObjects(t *testing.T) {
	g := newGateway(t)
	t.Setenv("AWS_ACCESS_KEY_ID", user)
	t.Setenv("AWS_SECRET_ACCESS_KEY", password)
	store, err := backup.OpenS3("s3://backups/many", backup.S3Options{Endpoint: "http://" + g.address})
	if err != nil {
		t.Fatal(err)
	}
	const many = 1100
	for i := range many {
		if err := store.Put(t.Context(), fmt.Sprintf("%06d/file", i), strings.NewReader("x"), 1); err != nil {
			t.Fatal(err)
		}
	}
	files, err := store.List(t.Context())
	names := map[string]bool{}
	for _, f := range files {
		names[f.Name] = true
	}
	if err != nil || len(files) != many || len(names) != many {
		t.Errorf("%d files, %d of them different, %v; want %d", len(files), len(names), err, many)
	}
}

// A gateway is a running versitygw with the bucket backups, and the credentials that a command uses there.
type gateway struct {
	address        string
	root           string // has a directory for each bucket
	home           string // of the commands: there are no other credentials
	user, password string
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	if *program == "" || *binary == "" {
		t.Skip("it needs -versitygw and -pinfold")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{address: l.Addr().String(), root: t.TempDir(), home: t.TempDir(), user: user, password: password}
	if err := errors.Join(l.Close(), os.Mkdir(filepath.Join(g.root, "backups"), 0o755)); err != nil {
		t.Fatal(err)
	}
	// The side car has what the file system may have no room for: extended attributes.
	cmd := exec.Command(*program, "--quiet", "--port", g.address, "posix", "--sidecar", t.TempDir(), g.root)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+user, "ROOT_SECRET_KEY="+password)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { t.Logf("versitygw: %v: %s", errors.Join(cmd.Process.Kill(), cmd.Wait()), out.Bytes()) })
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if a, err := http.Get("http://" + g.address); err == nil {
			a.Body.Close()
			return g
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("versitygw does not answer")
		}
	}
}

// command is a command of pinfold that uses the service.
func (g *gateway) command(ctx context.Context, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, *binary, append([]string{words[0], "--s3-endpoint", "http://" + g.address}, words[1:]...)...)
	cmd.Env = []string{"HOME=" + g.home, "TMPDIR=" + os.TempDir()}
	if g.user != "" {
		cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID="+g.user, "AWS_SECRET_ACCESS_KEY="+g.password)
	}
	return cmd
}

func (g *gateway) run(words ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := g.command(ctx, words...).CombinedOutput()
	return string(b), err
}

// must runs a command that succeeds and prints want.
func (g *gateway) must(t *testing.T, want string, words ...string) {
	t.Helper()
	if out, err := g.run(words...); err != nil || !strings.Contains(out, want) {
		t.Fatalf("%q: %v, %s\nwant %q", words, err, out, want)
	}
}

// objects lists the bucket as the service shows it.
func (g *gateway) objects(t *testing.T) (names []string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", user)
	t.Setenv("AWS_SECRET_ACCESS_KEY", password)
	store, err := backup.OpenS3("s3://backups", backup.S3Options{Endpoint: "http://" + g.address})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name)
	}
	return names
}

// valueBytes is the length of each znode's data, which does not compress.
const valueBytes = 256 << 10

func path(i int) string { return fmt.Sprintf("/znode-%d", i) }

// serve runs a standalone server in this process.
func serve(t *testing.T, dir string) (*pinfold.Server, *client.Client) {
	t.Helper()
	s, err := pinfold.New(pinfold.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), s.Addr())
	if err != nil {
		t.Fatal(errors.Join(err, s.Stop()))
	}
	return s, c
}

// create writes the znodes from one number up to another.
func create(t *testing.T, c *client.Client, from, to int) {
	t.Helper()
	data := make([]byte, valueBytes)
	for i := from; i < to; i++ {
		if _, err := rand.Read(data); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(t.Context(), path(i), data, zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func end(t *testing.T, s *pinfold.Server, c *client.Client) {
	t.Helper()
	if err := errors.Join(c.Close(), s.Stop()); err != nil {
		t.Fatal(err)
	}
}

// A stall is a proxy whose connections pass on so many bytes to the service, all together, and then nothing.
type stall struct {
	address string
	reached chan struct{} // closed when nothing more is passed on
	l       net.Listener
	conns   sync.WaitGroup
	closing chan struct{}
}

// newStall starts a proxy of address that passes on limit bytes.
func newStall(t *testing.T, address string, limit int64) *stall {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stall{address: l.Addr().String(), reached: make(chan struct{}), l: l, closing: make(chan struct{})}
	s.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				_ = c.Close() // the command fails
				continue
			}
			s.conns.Go(func() { s.pass(c, to, limit) })
		}
	})
	return s
}

// pass passes on what one connection brings, up to limit, and everything that comes back.
func (s *stall) pass(from, to net.Conn, limit int64) {
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(from, to) }) // it ends with either connection
	if n, _ := io.CopyN(to, from, limit); n == limit {
		close(s.reached) // one request alone is that long
		<-s.closing
	}
	_, _ = from.Close(), to.Close() // nothing is written any more
	back.Wait()
}

// close ends the proxy.
func (s *stall) close() {
	close(s.closing)
	_ = s.l.Close() // nobody is connected
	s.conns.Wait()
}
