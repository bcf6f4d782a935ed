package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// An error of a command whose output is JSON is a line of JSON on the error stream, with the status
// that the program ends with; without that it is text.
func TestErrorsAreJSON(t *testing.T) {
	for _, tt := range []struct {
		line   string
		status int
	}{
		{"data log -o json /nothing", 1},
		{"data snapshot --output=json /nothing", 1},
		{"data log -o json --from x /nothing", 1},
		{"member list -o json --server 127.0.0.1:1 --timeout 1s", 3},
		{"migrate plan -o json /nothing", 1},
	} {
		var errs bytes.Buffer
		if status := run(strings.Fields(tt.line), &errs); status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.line, status, tt.status)
		}
		var e struct {
			Error  string
			Status int
		}
		if err := json.Unmarshal(errs.Bytes(), &e); err != nil || e.Error == "" || e.Status != tt.status || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: %v: %q", tt.line, err, &errs)
		}
		errs.Reset()
		plain := strings.NewReplacer("-o json ", "", "--output=json ", "").Replace(tt.line)
		if run(strings.Fields(plain), &errs); !strings.HasPrefix(errs.String(), "pinfold: ") {
			t.Errorf("%s: %q", plain, &errs)
		}
	}
}
