package server

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// unreadBytes is what a client sends behind its last request: more than the server
// reads at once, so that it ends the connection with unread input.
const unreadBytes = 1 << 20

// lastReplies are requests whose reply is the connection's last.
var lastReplies = []struct {
	name    string
	session bool // the request needs a session
	request []byte
	check   func(t *testing.T, reply []byte)
}{
	{"addauth with an unknown scheme", true,
		encode(nil, wire.XidAuth, wire.OpAuth, (&wire.AuthPacket{Scheme: "none", Auth: []byte("x")}).Append(nil)), codeIs(zk.ErrAuthFailed)},
	{"closeSession", true, encode(nil, 7, wire.OpCloseSession, nil), codeIs(zk.OK)},
	{"an unknown operation", true, encode(nil, 7, 99, nil), codeIs(zk.ErrUnimplemented)},
	{"a session with a wrong password", false,
		frame((&wire.ConnectRequest{TimeoutMillis: 10000, SessionID: 7, Password: []byte("wrong")}).Append(nil)),
		func(t *testing.T, reply []byte) {
			if len(reply) < 16 || !bytes.Equal(reply[8:16], make([]byte, 8)) {
				t.Errorf("the session is not refused: %x", reply)
			}
		}},
	{"a four-letter word", false, []byte("srvr"), func(t *testing.T, reply []byte) {
		if !strings.HasSuffix(string(reply), "\n") || !strings.Contains(string(reply), "Node count: ") {
			t.Errorf("answer %q", reply)
		}
	}},
}

// codeIs checks the error code of a reply.
func codeIs(want zk.Code) func(t *testing.T, reply []byte) {
	return func(t *testing.T, reply []byte) {
		if len(reply) < 4+wire.ReplyHeaderLen || zk.Code(int32(binary.BigEndian.Uint32(reply[16:]))) != want {
			t.Errorf("reply %x, want %v", reply, want)
		}
	}
}

// The last reply reaches a client that has sent more than the server reads, and
// the connection then ends in order. TCP resets a connection that is closed with
// unread input.
func TestLastReplyArrives(t *testing.T) {
	s := newTestServer(t, nil)
	addr := s.listen()
	for _, tt := range lastReplies {
		t.Run(tt.name, func(t *testing.T) {
			for range 20 {
				nc := dial(t, addr)
				if tt.session {
					connect(t, nc, 10000)
				}
				wrote := make(chan error, 1)
				go func() {
					_, err := nc.Write(append(tt.request[:len(tt.request):len(tt.request)], make([]byte, unreadBytes)...))
					wrote <- err
				}()
				if err := <-wrote; err != nil {
					t.Fatalf("sending: %v", err)
				}
				reply, err := io.ReadAll(nc)
				if err != nil {
					t.Fatalf("after %d bytes: %v", len(reply), err)
				}
				tt.check(t, reply)
				nc.Close()
			}
		})
	}
}

// What the server reads of a connection that it ends is bounded in bytes, and the
// connection leaves the server's tables before.
func TestEndedConnectionIsNotReadForEver(t *testing.T) {
	s := newTestServer(t, nil)
	nc := dial(t, s.listen())
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, "ruok"); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(nc, answer); err != nil || string(answer) != "imok" {
		t.Fatal(string(answer), err)
	}
	sent, piece := 0, make([]byte, 64<<10)
	for {
		n, err := nc.Write(piece)
		sent += n
		if ne, ok := err.(net.Error); ok && ne.Timeout() || sent > 1<<30 {
			t.Fatalf("the server reads on: %d bytes, %v", sent, err)
		}
		if err != nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.open != 0 {
		t.Errorf("%d connections are in the table", s.mu.open)
	}
}

// The connection of a client that has ended its session, and sends nothing more, is closed at once: it does not
// take the place of one that lingers while the client keeps its side open.
func TestEndOfASessionDoesNotLinger(t *testing.T) {
	s := newTestServer(t, nil)
	addr := s.listen()
	for range 20 {
		nc := dial(t, addr)
		connect(t, nc, 10000)
		if _, err := nc.Write(encode(nil, 7, wire.OpCloseSession, nil)); err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(nc)
		if err != nil {
			t.Fatal(err)
		}
		codeIs(zk.OK)(t, reply)
		if n := s.lingering.Len(); n != 0 {
			t.Fatalf("%d connections linger", n)
		}
	}
}
