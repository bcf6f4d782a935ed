package systemd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// listen is systemd's end. It returns a function that receives one message.
func listen(t *testing.T) (receive func() string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return func() string {
		var b [256]byte
		n, err := c.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestNotify(t *testing.T) {
	receive := listen(t)
	if err := Notify("READY=1\nSTATUS=ready"); err != nil {
		t.Fatal(err)
	}
	if got := receive(); got != "READY=1\nSTATUS=ready" {
		t.Errorf("systemd was told %q", got)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "missing"))
	if err := Notify("READY=1"); err == nil {
		t.Error("a missing socket is no error")
	}
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify("READY=1"); err != nil {
		t.Errorf("without systemd: %v", err)
	}
}

// Systemd hears of the process as long as alive returns.
func TestWatchdog(t *testing.T) {
	receive := listen(t)
	t.Setenv("WATCHDOG_USEC", "2000")
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan bool)
	done := make(chan error)
	go func() {
		done <- Watchdog(ctx, func() { <-calls })
	}()
	for range 3 {
		calls <- true
		if got := receive(); got != "WATCHDOG=1" {
			t.Errorf("systemd was told %q", got)
		}
	}
	cancel()
	close(calls)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A systemd that does not read keeps no process from ending.
func TestNotifyIsBounded(t *testing.T) {
	listen(t)
	old := patience
	t.Cleanup(func() { patience = old })
	patience = time.Millisecond
	var err error
	for err == nil {
		err = Notify("STATUS=one more")
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	t.Setenv("WATCHDOG_USEC", "2000")
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err = Watchdog(ctx, func() {
		if calls++; calls >= 3 {
			cancel()
		}
	})
	if err != nil || calls < 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestWatchdogPeriod(t *testing.T) {
	for _, tt := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"30000000", "", 30 * time.Second}, {"30000000", "1", 0}, {"-1", "", 0}, {"soon", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", tt.usec)
		t.Setenv("WATCHDOG_PID", tt.pid)
		if got := watchdog(); got != tt.want {
			t.Errorf("WATCHDOG_USEC=%s WATCHDOG_PID=%s: %v, want %v", tt.usec, tt.pid, got, tt.want)
		}
	}
}
