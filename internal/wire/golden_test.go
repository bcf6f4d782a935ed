package wire

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

var update = flag.Bool("update", false, "write testdata/apache-3.8.0.golden anew; then read the difference")

// A talker reads the frames of one connection in their order.
type talker struct {
	ops   map[int32]OpCode // of the requests that wait for their reply, by xid
	ready [2]bool          // the handshake was seen, to the server and from it
}

// frame reads one frame, and returns it in words and written again.
func (t *talker) frame(toServer bool, b []byte) (words string, again []byte, err error) {
	d := jute.NewDecoder(b)
	side := 0
	if toServer {
		side = 1
	}
	switch {
	case !t.ready[side] && toServer:
		var r ConnectRequest
		r.Decode(&d)
		words, again = fmt.Sprintf("connect %+v", r), r.Append(nil)
	case !t.ready[side]:
		var r ConnectResponse
		r.Decode(&d)
		words, again = fmt.Sprintf("connected %+v", r), r.Append(nil)
	case toServer:
		words, again = t.request(&d)
	default:
		words, again = t.reply(&d)
	}
	t.ready[side] = true
	if d.Err() != nil {
		return "", nil, d.Err()
	}
	if d.Len() > 0 {
		return "", nil, fmt.Errorf("%s: %d bytes are left", words, d.Len())
	}
	return words, again, nil
}

func (t *talker) request(d *jute.Decoder) (words string, again []byte) {
	var h RequestHeader
	h.Decode(d)
	t.ops[h.Xid] = h.Op
	body := requestOf(h.Op)
	body.decode(d)
	return fmt.Sprintf("%d %v(%d) %s", h.Xid, h.Op, int32(h.Op), describe(h.Op, body.value)), body.append(h.Append(nil))
}

func (t *talker) reply(d *jute.Decoder) (words string, again []byte) {
	var h ReplyHeader
	h.Decode(d)
	head := fmt.Sprintf("%d %v %d", h.Xid, h.Zxid, int32(h.Err))
	switch {
	case h.Xid == XidNotification:
		var e WatcherEvent
		e.Decode(d)
		return fmt.Sprintf("%s %v %d %q", head, e.Type, e.State, e.Path), e.Append(h.Append(nil))
	case h.Err != zk.OK:
		return head, h.Append(nil)
	}
	r := result{op: t.ops[h.Xid]}
	r.Decode(d)
	return head + r.describe(), r.Append(h.Append(nil))
}

// Frames of a real client and a real server, every request that the Java client
// 3.8.0 can send: each is read to its end, says what the golden file says, and
// is written again byte by byte.
func TestApacheTraffic(t *testing.T) {
	text, err := os.ReadFile("testdata/apache-3.8.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/apache-3.8.0.golden"
	talkers := make(map[string]*talker)
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		b, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		if talkers[f[0]] == nil {
			talkers[f[0]] = &talker{ops: make(map[int32]OpCode)}
		}
		words, again, err := talkers[f[0]].frame(f[1] == ">", b)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if strings.Contains(words, OpReconfig.String()) {
			again = nullTexts(again) // the client leaves two texts null, which read as ""
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%s %s\n read %x\nwrote %x", f[1], words, b, again)
		}
		fmt.Fprintf(&got, "%s %s %s\n", f[0], f[1], strings.TrimSpace(words))
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// nullTexts makes null of the two empty texts before a reconfig's last field.
func nullTexts(b []byte) []byte {
	jute.PutInt(b[len(b)-16:], -1)
	jute.PutInt(b[len(b)-12:], -1)
	return b
}
