package fourletter

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Status{
		"Zookeeper version: 3.9.4-pinfold, built on 2026-11-20 13:11 UTC\nLatency min/avg/max: 0/0.0/0\n" +
			"Zxid: 0x100000002\nMode: follower\nNode count: 5\n": {"3.9.4-pinfold", "follower", 0x100000002},
		"Zookeeper version: 3.8.0\nZxid: 0x20000000a\nMode: leader\nProposal sizes last/min/max: -1/-1/-1\n": {"3.8.0", "leader", 0x20000000a},
		"Zxid: 0x100000000\r\nMode: read-only\r\n":                                                           {"", "read-only", 0x100000000},
	} {
		if got, err := Parse(text); got != want || err != nil {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "This ZooKeeper instance is not currently serving requests\n"} {
		if _, err := Parse(text); !errors.Is(err, ErrNotServing) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"srvr is not executed because it is not in the whitelist.\n", "Zxid: 0xg\nMode: leader\n"} {
		if _, err := Parse(text); err == nil || errors.Is(err, ErrNotServing) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A server that does not answer is waited for until the context ends, and no longer.
func TestAskIsBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		word := make([]byte, 4)
		io.ReadFull(c, word) // the test looks at what has come
		asked <- string(word)
		cancel()
		io.Copy(io.Discard, c) // ends with the connection
	}()
	if _, err := Ask(ctx, l.Addr().String(), "ruok"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if word := <-asked; word != "ruok" {
		t.Errorf("asked %q", word)
	}
}
