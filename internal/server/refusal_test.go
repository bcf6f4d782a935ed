package server

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRefusalsOfClientsAreFew: connections that ask for an unknown scheme with a name
// of 1 MB make few and short lines.
func TestRefusalsOfClientsAreFew(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		var out bytes.Buffer
		s.srv.refused = refusal.New(slog.New(slog.NewTextHandler(&out, nil)))
		scheme := wire.AuthPacket{Scheme: strings.Repeat("x", 1<<20-100)}
		for range 2 * refusal.Burst {
			c := s.open()
			if r := c.call(wire.OpAuth, scheme.Append(nil)); r.Err != zk.ErrAuthFailed {
				t.Fatalf("code %v", r.Err)
			}
		}
		if n := strings.Count(out.String(), "\n"); n == 0 || n > refusal.Burst {
			t.Errorf("%d lines, want %d", n, refusal.Burst)
		}
		if n := out.Len(); n > refusal.Burst*400 {
			t.Errorf("%d bytes of log", n)
		}
	})
}

// What is longer than jute.maxbuffer is told: a list of children with its path, a request
// with its operation and its first path, each with the client.
func TestWhatExceedsMaxBufferIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := newRig(t, func(r *rigSetup) { r.cfg.Client.MaxFrameBytes = longReply + 1000 })
		s.srv.refused = refusal.New(slog.New(slog.NewTextHandler(&out, nil)))
		c := s.open()
		c.withNames("/long", slices.Repeat([]int{1000}, longReply/1000+10)...)
		if r := c.read(wire.OpGetChildren, "/long", false); r.Err != zk.OK {
			t.Fatalf("the list: %v", r.Err)
		}
		synctest.Wait()
		if line := out.String(); !strings.Contains(line, "longer than jute.maxbuffer") || !strings.Contains(line, `/long\"" bytes=`) || !strings.Contains(line, "client=") {
			t.Errorf("a long list is logged as %q", line)
		}
		out.Reset()
		watches := wire.SetWatches{Exist: slices.Repeat([]string{"/app/" + strings.Repeat("x", 100)}, longReply/100+10)}
		if err := c.write(encode(nil, wire.XidSetWatches, wire.OpSetWatches, watches.Append(nil, wire.OpSetWatches))); err != nil {
			t.Log(err) // the server may have closed the connection before all was written
		}
		synctest.Wait()
		if line := out.String(); !strings.Contains(line, `(SETW of \"/app/xxx`) || !strings.Contains(line, "jute.maxbuffer is") || !strings.Contains(line, "client=") {
			t.Errorf("a long setWatches is logged as %q", line)
		}
	})
}

// The path of a request that is too long is found in what has come of it, however little; text that
// may be a secret is not.
func TestTooLong(t *testing.T) {
	frame := func(op wire.OpCode, body []byte) []byte {
		return append(encode(nil, 7, op, nil), body...)
	}
	create := wire.CreateRequest{Path: "/app/large", Data: []byte("secret")}
	watches := wire.SetWatches{Child: []string{"/app"}}
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"create", frame(wire.OpCreate, create.Append(nil, wire.OpCreate)), ` (CREA of "/app/large")`},
		{"multi", frame(wire.OpMulti, create.Append(wire.MultiHeader{Type: wire.OpCreate}.Append(nil), wire.OpCreate)), ` (MULT of "/app/large")`},
		{"setWatches2", frame(wire.OpSetWatches2, watches.Append(nil, wire.OpSetWatches2)), ` (SETW of "/app")`},
		{"auth", frame(wire.OpAuth, create.Append(nil, wire.OpCreate)), " (AUTH)"},
		{"a path of negative length", frame(wire.OpDelete, []byte{255, 255, 255, 255, 0}), " (DELE)"},
	} {
		if got := tooLong(tt.frame); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		for n := range tt.frame { // nothing but a beginning of it, and no panic
			if got := tooLong(tt.frame[:n]); !strings.HasPrefix(tt.want, strings.TrimRight(got, `")`)) {
				t.Errorf("%s: %d bytes: %q", tt.name, n, got)
			}
		}
	}
}
