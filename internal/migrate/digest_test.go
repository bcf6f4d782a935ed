package migrate

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// Digests of the same zxid and version are compared.
func TestDigests(t *testing.T) {
	c := configOf(t, "clientPort=1\nserver.1=127.0.0.1:1:2\nserver.2=127.0.0.1:3:4\nserver.3=127.0.0.1:5:6\nserver.4=127.0.0.1:7:8\n")
	ports := map[int64]int{}
	for id, list := range map[int64]string{
		1: `{"zxid":128,"digest":5,"digest_version":2},{"zxid":256,"digest":6,"digest_version":2}`,
		2: `{"zxid":256,"digest":6,"digest_version":2},{"zxid":384,"digest":-7,"digest_version":2},{"zxid":128,"digest":9,"digest_version":1}`,
		3: `{"zxid":384,"digest":8,"digest_version":2}`,
		4: ``,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/commands/hash" || list == "" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, `{"command":"hash","error":null,"digests":[%s]}`, list)
		}))
		t.Cleanup(s.Close)
		_, port, err := net.SplitHostPort(s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if ports[id], err = strconv.Atoi(port); err != nil {
			t.Fatal(err)
		}
	}
	d := compareDigests(t.Context(), c, func(id int64) int { return ports[id] })
	want := []string{"zxid 0x180: server 2 has -7, server 3 has 8"}
	if d.Common != 2 || !slices.Equal(d.Differ, want) || !slices.Equal(d.Asked, []int64{1, 2, 3}) || d.Errors["4"] == "" {
		t.Errorf("%+v", d)
	}
	if d := compareDigests(t.Context(), c, func(int64) int { return 0 }); len(d.Asked) > 0 || len(d.Errors) > 0 {
		t.Errorf("without ports: %+v", d)
	}
}

// Digests that differ before two members first agree were recorded while one of them took the
// other's tree; those that differ later, or to the end, are of trees that differ.
func TestDigestsThatPassed(t *testing.T) {
	list := func(digests ...int64) map[digestKey]int64 {
		m := map[digestKey]int64{}
		for i, one := range digests {
			m[digestKey{zk.Zxid(128 * (i + 1)), 2}] = one
		}
		return m
	}
	for _, one := range []struct {
		name           string
		a, b           map[digestKey]int64
		passed, differ int
	}{
		{"equal", list(1, 2, 3), list(1, 2, 3), 0, 0},
		{"the first", list(1, 2, 3), list(9, 2, 3), 1, 0},
		{"two of the first", list(1, 2, 3), list(9, 8, 3), 2, 0},
		{"all", list(1, 2, 3), list(9, 8, 7), 0, 3},
		{"the last", list(1, 2, 3), list(1, 2, 7), 0, 1},
		{"in between", list(1, 2, 3), list(1, 8, 3), 0, 1},
		{"the first and the last", list(1, 2, 3), list(9, 2, 7), 1, 1},
		{"the only one", list(1), list(9, 2, 3), 0, 1},
	} {
		var d Digests
		d.pair(1, one.a, 2, one.b)
		if len(d.Passed) != one.passed || len(d.Differ) != one.differ {
			t.Errorf("%s: %+v", one.name, d)
		}
	}
}
