package fourletter

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// The answers are those of Apache ZooKeeper 3.8.0 and 3.9.3, shortened.
func TestParseSessions(t *testing.T) {
	const after = "ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x7:\n\t/e\nConnections dump:\n"
	for _, tt := range []struct {
		name, text string
		want       map[zk.SessionID]int32
	}{
		{
			"a learner", "SessionTracker dump:\nGlobal Sessions(2):\n0x1a21678ad8c0000\t30000ms\n0x200002009240000\t20000ms\n" + after,
			map[zk.SessionID]int32{0x1a21678ad8c0000: 30000, 0x200002009240000: 20000},
		},
		{
			"a leader", "SessionTracker dump:\nSession Sets (3)/(2):\n0 expire at Thu Nov 26 06:09:21 UTC 2026:\n" +
				"1 expire at Thu Nov 26 06:09:23 UTC 2026:\n\t0x3000020069e0000\n1 expire at Thu Nov 26 06:09:29 UTC 2026:\n\t0xf00002009240000\n" + after,
			map[zk.SessionID]int32{0x3000020069e0000: 0, 0xf00002009240000: 0},
		},
		{
			"a leader of 3.4", "SessionTracker dump:\nSession Sets (1):\n1 expire at Thu Nov 26 06:09:23 UTC 2026:\n\t0x3\n" + after,
			map[zk.SessionID]int32{3: 0},
		},
		{
			"local sessions", "SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at Thu Nov 26 06:09:23 UTC 2026:\n\t0x3\n" +
				"Global Sessions(1):\n0x4\t1ms\n" + after,
			map[zk.SessionID]int32{4: 1},
		},
		{
			"local sessions of a leader", "SessionTracker dump:\nLocal Session Sets (0)/(0):\nGlobal Session Sets (1)/(1):\n" +
				"1 expire at Thu Nov 26 06:09:23 UTC 2026:\n\t0x3\n" + after,
			map[zk.SessionID]int32{3: 0},
		},
		{
			"a learner where a session ends meanwhile", "SessionTracker dump:\nGlobal Sessions(2):\n0x1\tnullms\n0x2\t20000ms\n" + after,
			map[zk.SessionID]int32{2: 20000},
		},
		{"no sessions", "SessionTracker dump:\nGlobal Sessions(0):\n" + after, map[zk.SessionID]int32{}},
	} {
		got, err := ParseSessions(strings.NewReader(tt.text))
		if err != nil || !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	for text, want := range map[string]error{
		"": ErrNotServing,
		"This ZooKeeper instance is not currently serving requests\n":                                             ErrNotServing,
		"SessionTracker dump:\norg.apache.zookeeper.server.quorum.LearnerSessionTracker@1b2c\n" + after:           ErrNoSessions,
		"SessionTracker dump:\nGlobal Sessions(2):\n0x1a21678ad8c0000\t30000ms\n0x2000":                           io.ErrUnexpectedEOF,
		"SessionTracker dump:\nLocal Session Sets (1)/(1):\n1 expire at Thu Nov 26:\n\t0x3\n" + after:             ErrNoSessions,
		"SessionTracker dump:\nSession Sets (1)/(1):\n1 expire at Thu Nov 26 06:09:23 UTC 2026:\n\t0x3000020069e": io.ErrUnexpectedEOF,
	} {
		if _, err := ParseSessions(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"dump is not executed because it is not in the whitelist.\n":          "dump is not executed because it is not in the whitelist",
		"SessionTracker dump:\nGlobal Sessions(1):\n0xg\t1ms\n" + after:       `dump: session "0xg\t1ms": strconv.ParseUint: parsing "g": invalid syntax`,
		"SessionTracker dump:\nGlobal Sessions(1):\n0x1\tseldom\n" + after:    `dump: session "0x1\tseldom": strconv.ParseInt: parsing "seldom": invalid syntax`,
		"SessionTracker dump:\nGlobal Sessions(1):\n0x1\t9999999999ms" + "\n": `dump: session "0x1\t9999999999ms": strconv.ParseInt: parsing "9999999999": value out of range`,
	} {
		if _, err := ParseSessions(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// The list is returned when it has ended, though the answer has not.
func TestSessionsOn(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		word := make([]byte, 4)
		io.ReadFull(there, word) // the test looks at what is returned
		io.WriteString(there, "SessionTracker dump:\nGlobal Sessions(1):\n0x1\t4000ms\nephemeral nodes dump:\n")
	}()
	got, err := SessionsOn(t.Context(), here)
	if err != nil || !maps.Equal(got, map[zk.SessionID]int32{1: 4000}) {
		t.Errorf("%v, %v", got, err)
	}
	here, there = net.Pipe()
	defer there.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := SessionsOn(ctx, here); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
