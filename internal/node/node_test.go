package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// standalone is the configuration of a server on a free port of 127.0.0.1.
func standalone(t *testing.T) *config.Config {
	t.Helper()
	source := config.Source{Settings: map[string]string{
		"dataDir": "/data", "preAllocSize": "64", "clientPort": "0", "clientPortAddress": "127.0.0.1",
	}}
	cfg, _, err := source.Load()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// run opens a node and runs it. stop ends it, and returns what Run has returned.
func run(t *testing.T, o Options) (n *Node, stop func() error) {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	return n, func() error {
		cancel()
		return <-done
	}
}

// runImpatient opens a node and runs it until the test ends. It reads its files again each millisecond.
func runImpatient(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	n.period = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return n
}

func dial(t *testing.T, n *Node) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A node whose disk fails ends, and says why; the node beside it goes on.
func TestFailureIsReturned(t *testing.T) {
	fault := faultfs.New(vfs.NewMem(), 0, faultfs.None, nil)
	var log bytes.Buffer
	failing, err := Open(Options{Config: standalone(t), FS: fault, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	healthy, stop := run(t, Options{Config: standalone(t), FS: vfs.NewMem()})
	done := make(chan error, 1)
	go func() { done <- failing.Run(t.Context()) }()

	c := dial(t, failing)
	fault.Arm(1, faultfs.IO)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.Create(ctx, "/a", nil, zk.Persistent, nil) // it fails, or is never answered
	if err := <-done; !errors.Is(err, syscall.EIO) {
		t.Errorf("Run: %v, want %v", err, syscall.EIO)
	}
	if !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log says nothing: %s", log.String())
	}
	if _, err := net.Dial("tcp", failing.Addr().String()); err == nil {
		t.Error("the port is still open")
	}

	if _, err := dial(t, healthy).Create(ctx, "/b", nil, zk.Persistent, nil); err != nil {
		t.Errorf("the other node: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A node that cannot be opened leaves nothing open, wherever it fails.
func TestOpenFails(t *testing.T) {
	disk := vfs.NewMem()
	_, stop := run(t, Options{Config: standalone(t), FS: disk})
	if _, err := Open(Options{Config: standalone(t), FS: disk}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("two nodes with one directory: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for at := 1; ; at++ {
		fault := faultfs.New(vfs.NewMem(), at, faultfs.IO, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		n, err := Open(Options{Config: standalone(t), FS: fault, Listener: l})
		if err == nil {
			_ = n.Close() // the fault may be met while it is closed
			if !fault.Met() {
				return
			}
			continue
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("operation %d failed: the port is open: %v", at, err)
		}
		if again, err := Open(Options{Config: standalone(t), FS: fault}); err != nil {
			t.Fatalf("operation %d failed, and the second time: %v", at, err)
		} else if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
