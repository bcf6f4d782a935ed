package httpconn

import (
	"net"
	"net/http"
	"testing"
)

// There are at most so many connections; idle ones give way, in their order.
func TestLimit(t *testing.T) {
	const most = 64
	table := Limit{Most: most}
	open := func() net.Conn {
		a, b := net.Pipe()
		t.Cleanup(func() { a.Close(); b.Close() })
		return a
	}
	all := make([]net.Conn, most)
	for i := range all {
		all[i] = open()
		if victim := table.change(all[i], http.StateNew); victim != nil {
			t.Fatalf("connection %d is one too many", i)
		}
		table.change(all[i], http.StateActive)
	}
	late := open()
	if victim := table.change(late, http.StateNew); victim != late {
		t.Error("a connection with a request was closed")
	}
	table.change(late, http.StateClosed)
	table.change(all[7], http.StateIdle)
	table.change(all[3], http.StateIdle)
	for _, i := range []int{7, 3} {
		if victim := table.change(open(), http.StateNew); victim != all[i] {
			t.Errorf("it is not connection %d that was closed", i)
		}
		table.change(all[i], http.StateActive) // it does not come back
		table.change(all[i], http.StateClosed)
	}
	if n := len(table.open); n != most {
		t.Errorf("%d connections", n)
	}
}
