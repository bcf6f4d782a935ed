package main

import (
	"errors"
	"strings"
	"testing"
)

func TestServerID(t *testing.T) {
	for _, c := range []struct {
		value, host string
		want        int64
		err         string
	}{
		{"3", "", 3, ""},
		{"0", "", 0, ""},
		{"hostname", "zk-pinfold-0", 1, ""},
		{"hostname", "zk-pinfold-12.zk-pinfold-members.x.svc.cluster.local", 13, ""},
		{"hostname", "zk-pinfold-0.node-7", 1, ""},
		{"hostname", "zk", 0, `the name "zk" does not end with a hyphen and a number`},
		{"hostname", "12", 0, "does not end with"},
		{"hostname", "zk-", 0, "does not end with"},
		{"hostname", "zk-+1", 0, "does not end with"},
		{"hostname", "zk-99999999999", 0, "does not end with"},
		{"hostname", "", 0, "no name"},
		{"-1", "", 0, "neither a server's number nor hostname"},
		{"host", "", 0, "neither a server's number nor hostname"},
	} {
		got, err := serverID(c.value, func() (string, error) {
			if c.host == "" {
				return "", errors.New("no name")
			}
			return c.host, nil
		})
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("--id %s on %q: %d, %v; want %d, %q", c.value, c.host, got, err, c.want, c.err)
		}
	}
}
