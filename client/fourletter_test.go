package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// answering is a server that answers words; to others it says nothing.
func answering(t *testing.T, answers map[string]string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var word [4]byte
			if _, err := io.ReadFull(c, word[:]); err == nil {
				_, _ = io.WriteString(c, answers[string(word[:])]) // the client sees it
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestFourLetter(t *testing.T) {
	ctx := t.Context()
	follower := answering(t, map[string]string{
		"srvr": "Zookeeper version: 3.9.4-pinfold, built on x\nZxid: 0x100000002\nMode: follower\n", "ruok": "imok", "isro": "rw",
	})
	alone := answering(t, map[string]string{"srvr": "This ZooKeeper instance is not currently serving requests\n", "ruok": "imok"})
	silent := answering(t, nil)

	s, err := client.Srvr(ctx, follower)
	if want := (client.ServerStatus{Version: "3.9.4-pinfold", Mode: "follower", Zxid: 0x100000002}); s != want || err != nil {
		t.Errorf("srvr: %+v, %v", s, err)
	}
	if text, err := client.FourLetter(ctx, follower, "isro"); text != "rw" || err != nil {
		t.Errorf("isro: %q, %v", text, err)
	}
	if _, err := client.Srvr(ctx, alone); !errors.Is(err, client.ErrNotServing) {
		t.Errorf("srvr without a quorum: %v", err)
	}
	if err := client.Ruok(ctx, alone); err != nil {
		t.Errorf("ruok without a quorum: %v", err)
	}
	if err := client.Ruok(ctx, silent); err == nil || !strings.Contains(err.Error(), "whitelist") {
		t.Errorf("ruok of a silent server: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := client.Ruok(ended, follower); !errors.Is(err, context.Canceled) {
		t.Errorf("ruok with a context that has ended: %v", err)
	}
}

// The digest is the one that Apache's documentation has for the superuser super:test.
func TestACLs(t *testing.T) {
	for want, got := range map[string][]zk.ACL{
		"world:anyone:r": zk.WorldACL(zk.PermRead),
		"auth::cdrwa":    zk.AuthACL(zk.PermAll),
		"digest:super:D/InIHSb7yEEbrWz8b9l71RjZJU=:cdrwa": zk.DigestACL(zk.PermAll, "super", "test"),
	} {
		if len(got) != 1 || got[0].String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
