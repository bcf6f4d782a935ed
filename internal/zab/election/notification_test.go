package election

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Protocol page, section 12.2: field order, widths, version and configuration.
func TestPayloadBytes(t *testing.T) {
	n := Notification{
		State: Leading, Leader: 3, Zxid: zk.MakeZxid(7, 0x2a), ElectionEpoch: 9, PeerEpoch: 8,
		Config: []byte("version=0"),
	}
	want := unhex(t, `00000002 0000000000000003 000000070000002a 0000000000000009
		0000000000000008 00000002 00000009 76657273696f6e3d30`)
	if got := n.Append([]byte{0xff}); !bytes.Equal(got[1:], want) || got[0] != 0xff {
		t.Errorf("Append:\n got %x\nwant ff%x", got, want)
	}
	got, err := Parse(5, want)
	n.From, n.Version = 5, 2
	if diff := cmp.Diff(n, got); diff != "" || err != nil {
		t.Errorf("Parse: %v\n%s", err, diff)
	}
}

// Two notifications of a live Apache 3.8.0: a leader's to an observer that asked,
// and a looking server's.
func TestPayloadsOfApache(t *testing.T) {
	const text = "server.1=127.0.0.1:31101:31201:participant\n" +
		"server.2=127.0.0.1:31102:31202:participant\n" +
		"server.3=127.0.0.1:31103:31203:participant\nversion=0"
	for head, want := range map[string]Notification{
		"000000020000000000000003000000000000000000000000000000010000000000000001000000020000008a": {
			From: 3, State: Leading, Leader: 3, ElectionEpoch: 1, PeerEpoch: 1,
		},
		"000000000000000000000003000000050000006300000000000000030000000000000005000000020000008a": {
			From: 3, State: Looking, Leader: 3, Zxid: 0x5_00000063, ElectionEpoch: 3, PeerEpoch: 5,
		},
	} {
		recorded := append(unhex(t, head), text...)
		want.Version, want.Config = CurrentVersion, []byte(text)
		got, err := Parse(3, recorded)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Parse: %v\n%s", err, diff)
		}
		if again := got.Append(nil); !bytes.Equal(again, recorded) {
			t.Errorf("Append:\n got %x\nwant %x", again, recorded)
		}
	}
}

func TestParseForms(t *testing.T) {
	long := unhex(t, "00000001 0000000000000003 000000070000002a 0000000000000009 0000000000000008")
	with := func(fields string) []byte { return append(bytes.Clone(long), unhex(t, fields)...) }
	base := Notification{From: 1, State: Following, Leader: 3, Zxid: zk.MakeZxid(7, 0x2a), ElectionEpoch: 9, PeerEpoch: 8}
	negative := bytes.Clone(long[:28])
	negative[12] = 0xff

	for _, c := range []struct {
		name string
		in   []byte
		want func(n *Notification)
	}{
		{"28 bytes: the epoch of the zxid", long[:28], func(n *Notification) { n.PeerEpoch = 7 }},
		{"28 bytes: a negative zxid keeps its sign", negative, func(n *Notification) {
			z := uint64(0xff000007_0000002a)
			n.Zxid, n.PeerEpoch = zk.Zxid(z), -0xfffff9
		}},
		{"40 bytes: version 0, though it says 1", with("00000001"), func(*Notification) {}},
		{"version 1 has no configuration", with("00000001 7fffffff"), func(n *Notification) { n.Version = 1 }},
		{"version 2, no text", with("00000002 00000000"), func(n *Notification) { n.Version, n.Config = 2, []byte{} }},
		{"version 2", with("00000002 00000002 6162"), func(n *Notification) { n.Version, n.Config = 2, []byte("ab") }},
		{"the next configuration's version", with("00000002 00000001 61 0000000700000001"), func(n *Notification) {
			n.Version, n.Config, n.Seen = 2, []byte("a"), zk.MakeZxid(7, 1)
		}},
		{"and its text", with("00000002 00000001 61 0000000700000001 00000002 6263"), func(n *Notification) {
			n.Version, n.Config, n.Seen, n.SeenText = 2, []byte("a"), zk.MakeZxid(7, 1), []byte("bc")
		}},
		{"a text that is cut short is ignored", with("00000002 00000001 61 0000000700000001 00000003 6263"), func(n *Notification) {
			n.Version, n.Config = 2, []byte("a")
		}},
		{"and so is one with more behind", with("00000002 00000001 61 0000000700000001 00000001 6263"), func(n *Notification) {
			n.Version, n.Config = 2, []byte("a")
		}},
		{"a version to come, and more behind", with("00000003 00000001 61 6263"), func(n *Notification) { n.Version, n.Config = 3, []byte("a") }},
	} {
		want := base
		c.want(&want)
		got, err := Parse(1, c.in)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
		if again, err := Parse(1, got.Append(nil)); got.SeenText != nil && (err != nil || !cmp.Equal(got, again)) {
			t.Errorf("%s: %v\n%s", c.name, err, cmp.Diff(got, again))
		}
	}
}

// ZOOKEEPER-3769, ZOOKEEPER-4787: no length is believed.
func TestParseRefuses(t *testing.T) {
	long := "00000001 0000000000000003 000000070000002a 0000000000000009 0000000000000008"
	for name, c := range map[string]struct {
		in  []byte
		why error
	}{
		"nothing":                  {nil, jute.ErrShort},
		"27 bytes":                 {unhex(t, long)[:27], jute.ErrShort},
		"29 bytes":                 {append(unhex(t, long)[:28], 0), jute.ErrShort},
		"36 bytes":                 {unhex(t, long), jute.ErrShort},
		"39 bytes":                 {append(unhex(t, long), 0, 0, 0), jute.ErrShort},
		"no length":                {unhex(t, long+"00000002 0000"), jute.ErrShort},
		"length too large by one":  {unhex(t, long+"00000002 00000002 61"), jute.ErrLength},
		"giant length":             {unhex(t, long+"00000002 7fffffff 61"), jute.ErrLength},
		"negative length":          {unhex(t, long+"00000002 80000000"), jute.ErrLength},
		"length -1, which is null": {unhex(t, long+"00000002 ffffffff"), jute.ErrLength},
		"state 4":                  {unhex(t, "00000004"+long[8:]+"00000001"), ErrPayload},
		"state -1":                 {unhex(t, "ffffffff"+long[8:]+"00000001"), ErrPayload},
		"too long":                 {make([]byte, MaxPayloadBytes+1), ErrPayload},
	} {
		n, err := Parse(1, c.in)
		if !errors.Is(err, ErrPayload) || !errors.Is(err, c.why) {
			t.Errorf("%s: %v, want %v", name, err, c.why)
		}
		if diff := cmp.Diff(Notification{}, n); diff != "" {
			t.Errorf("%s: something came with the error:\n%s", name, diff)
		}
	}
	if _, err := Parse(1, make([]byte, MaxPayloadBytes)); err != nil {
		t.Errorf("the longest payload: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	n := Notification{State: Leading, Leader: 3, Zxid: -1, ElectionEpoch: 9, PeerEpoch: math.MaxInt64, Config: []byte("x")}
	whole := n.Append(nil)
	f.Add(whole)
	f.Add(whole[:28])
	f.Add(whole[:40])
	f.Add(whole[:44])
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Parse(7, b)
		if err != nil {
			if !errors.Is(err, ErrPayload) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := Parse(7, n.Append(nil))
		if err != nil {
			t.Fatalf("what was written is refused: %v", err)
		}
		n.Version = CurrentVersion
		if n.Config == nil {
			n.Config = []byte{}
		}
		if diff := cmp.Diff(n, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestNames(t *testing.T) {
	for s, want := range map[State]string{
		Looking: "LOOKING", Following: "FOLLOWING", Leading: "LEADING", Observing: "OBSERVING", 4: "state 4",
	} {
		if got := s.String(); got != want {
			t.Errorf("State(%d) is %q, want %q", int32(s), got, want)
		}
	}
	e := New(Config{ID: 1, Electorate: Electorate{System: three, Observer: true}})
	e.Look(0, 5, 1)
	if got, want := e.String(), "LOOKING nobody (election 1), election 1"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	e.Settle(Observing, 3, 2)
	if got, want := e.Vote().String(), "3 (epoch 2, zxid 0x8000000000000000, election 1)"; got != want {
		t.Errorf("Vote() = %q, want %q", got, want)
	}
}
