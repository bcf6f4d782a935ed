package admin

import (
	"strings"
	"testing"
	"time"
)

// One call in each interval is admitted.
func TestLimiter(t *testing.T) {
	l := limiter{interval: time.Minute}
	now := time.Unix(1000, 0)
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {59 * time.Second, false}, {time.Second, true}, {59 * time.Second, false}, {time.Hour, true}} {
		now = now.Add(tt.after)
		if got := l.allow(now); got != tt.want {
			t.Errorf("%v later: %v", tt.after, got)
		}
	}
	off := limiter{}
	for range 2 {
		if !off.allow(now) {
			t.Error("without an interval there is a limit")
		}
	}
}

// The body of shed_connections, and what is wrong with others.
func TestPercentage(t *testing.T) {
	for body, want := range map[string]string{
		`{"percentage": 0}`: "", `{"percentage": 100, "more": 1}`: "",
		``: "Request body is required", `{}`: "Missing required field: percentage", `{"percentage": null}`: "Missing required field: percentage",
		`{"percentage": 101}`: "Percentage must be between 0 and 100", `{"percentage": -1}`: "Percentage must be between 0 and 100",
		`{"percentage": "1"}`: "Invalid JSON or failed to read request body: ", `{`: "Invalid JSON or failed to read request body: ",
		`{"percentage": 1.5}`: "Invalid JSON or failed to read request body: ",
	} {
		_, refusal := readPercentage(strings.NewReader(body))
		if (refusal == "") != (want == "") || !strings.HasPrefix(refusal, want) {
			t.Errorf("%s: %q, want %q", body, refusal, want)
		}
	}
}

func TestJavaBoolean(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "TRUE": true, "tRuE": true, "yes": false, "": false, "truee": false, "T\x12ue": false} {
		if parseBoolean(text) != want {
			t.Errorf("%q", text)
		}
	}
}

// Every name is one command's, and every command has a help text.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		for _, name := range c.names {
			if seen[name] {
				t.Errorf("two commands are called %s", name)
			}
			seen[name] = true
		}
		if c.help == "" || c.run == nil {
			t.Errorf("%s is not complete", c.names[0])
		}
	}
	for _, name := range []string{"dump", "ruok", "stmk", "restore", "shed", "zabstate"} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
}
