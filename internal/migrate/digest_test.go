package migrate

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
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
