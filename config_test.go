package pinfold_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/zk"
)

// What is refused, and what cannot be had, is an error of New or Start.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		config pinfold.Config
		want   string
	}{
		{pinfold.Config{Settings: map[string]string{"tickTime": "soon"}}, "pinfold: settings: tickTime=soon: "},
		{pinfold.Config{Addr: "nowhere"}, "pinfold: Addr: "},
		{pinfold.Config{File: filepath.Join(t.TempDir(), "zoo.cfg")}, "no such file"},
		{pinfold.Config{ID: 4, Settings: map[string]string{"server.1": "a:1:2", "server.2": "b:1:2", "initLimit": "5", "syncLimit": "2"}},
			"there is no server line with this number"},
	} {
		if _, err := pinfold.New(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.config, err, tt.want)
		}
	}
	for _, n := range []int{0, -1} {
		if _, err := pinfold.NewEnsemble(n, pinfold.Config{}); err == nil {
			t.Errorf("an ensemble of %d", n)
		}
	}
	dir := t.TempDir()
	first := start(t, pinfold.Config{DataDir: dir})
	for name, c := range map[string]pinfold.Config{"port": {Addr: first.Addr()}, "directory": {DataDir: dir}} {
		s, err := pinfold.New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err == nil || name == "port" && !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("two servers with one %s: %v", name, err)
		}
		if s.Role() != "stopped" || s.Stop() != nil {
			t.Errorf("after a failed start it is %s", s.Role())
		}
	}
}

// A server says where it is in its life.
func TestLife(t *testing.T) {
	s, err := pinfold.New(pinfold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := func(when string) {
		t.Helper()
		select {
		case <-s.Done():
		default:
			t.Errorf("%s: Done is open", when)
		}
		if s.Role() != "stopped" || s.Err() != nil || !errors.Is(s.Ready(t.Context()), pinfold.ErrStopped) {
			t.Errorf("%s: %s, %v", when, s.Role(), s.Err())
		}
	}
	stopped("before the start")
	if s.Addr() != "" {
		t.Errorf("before the start it is at %q", s.Addr())
	}
	for range 2 { // the second time with the state of the first
		if err := s.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(within(t)); !errors.Is(err, pinfold.ErrRunning) {
			t.Errorf("started twice: %v", err)
		}
		if err := s.Ready(within(t)); err != nil || s.Role() != "standalone" {
			t.Errorf("%s, %v", s.Role(), err)
		}
		c := dial(t, s.Addr())
		create(t, c, "/kept")
		if data, _, err := c.Get(within(t), "/kept"); err != nil || string(data) != "/kept" {
			t.Errorf("%q, %v", data, err)
		}
		c.Close()
		if err := errors.Join(s.Stop(), s.Stop()); err != nil {
			t.Error(err)
		}
		stopped("after Stop")
	}
}

// A zoo.cfg is read as the server command reads it; Config goes before it.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	text := "dataDir=" + dir + "/data\nclientPort=1\nclientPortAddress=127.0.0.1\ntickTime=1000\nmaxSessionTimeout=5000\nnoSuchKey=1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := pinfold.New(pinfold.Config{
		File: file, Addr: "127.0.0.1:0", Settings: map[string]string{"maxSessionTimeout": "7000"},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "noSuchKey") {
		t.Errorf("the log does not warn: %s", log.String())
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c := dial(t, s.Addr())
	if c.SessionTimeout().Milliseconds() != 7000 {
		t.Errorf("session timeout %v", c.SessionTimeout())
	}
	if _, err := c.Create(within(t), "/a", nil, zk.Persistent, nil); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "version-2")); err != nil {
		t.Error(err)
	}
}

// Run ends with its context.
func TestRun(t *testing.T) {
	s, err := pinfold.New(pinfold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for s.Ready(ctx) != nil { // it may not have begun
	}
	cancel()
	if err := <-done; err != nil || s.Role() != "stopped" {
		t.Errorf("%s, %v", s.Role(), err)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("with a context that has ended: %v", err)
	}
}
