package config

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestText holds what /zookeeper/config has in Apache ZooKeeper 3.8.0 for the
// same lines.
func TestText(t *testing.T) {
	ids := func(numbers ...string) (all []string) {
		for _, n := range numbers {
			all = append(all, "server."+n+"=h"+n+":1:2")
		}
		return all
	}
	tests := []struct {
		name    string
		lines   []string
		version int64
		want    []string // between them a line end
	}{
		{name: "static", lines: []string{"server.3=zoo3:2888:3888", "server.1=127.0.0.1:2888:3888", "server.2=Zoo2:2888:3888:PARTICIPANT"},
			want: []string{"server.1=127.0.0.1:2888:3888:participant", "server.2=Zoo2:2888:3888:participant",
				"server.3=zoo3:2888:3888:participant", "version=0"}},
		{name: "client addresses", lines: []string{"server.1=h:2888:3888;2181", "server.2=i:2888:3888:observer;localhost:2182", "server.3=j:2888:3888;"},
			want: []string{"server.1=h:2888:3888:participant;0.0.0.0:2181", "server.2=i:2888:3888:observer;localhost:2182",
				"server.3=j:2888:3888:participant", "version=0"}},
		{name: "IPv6", lines: []string{"server.1=[::1]:2888:3888;[::]:2181", "server.3=[::ffff:1.2.3.4]:2888:3888;[2001:DB8::a]:2181"},
			want: []string{"server.1=[0:0:0:0:0:0:0:1]:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181",
				"server.3=1.2.3.4:2888:3888:participant;[2001:db8:0:0:0:0:0:a]:2181", "version=0"}},
		{name: "a zone", lines: []string{"server.1=[fe80::1%lo]:2888:3888"}, want: []string{"server.1=[fe80::1%lo]:2888:3888:participant", "version=0"}},
		{name: "version", lines: []string{"server.1=h:2888:3888"}, version: 0x10000000a,
			want: []string{"server.1=h:2888:3888:participant", "version=10000000a"}},
		{name: "groups and weights", lines: []string{"server.1=h:1:2", "server.2=i:1:2", "server.3=j:1:2", "server.4=k:1:2", "group.2=4", "group.1=3:2:1", "weight.4=0"},
			want: []string{"server.1=h:1:2:participant", "server.2=i:1:2:participant", "server.3=j:1:2:participant", "server.4=k:1:2:participant",
				"group.1=1:2:3", "group.2=4", "weight.1=1", "weight.2=1", "weight.3=1", "weight.4=0", "version=0"}},
		{name: "an observer has no weight unless it is given", lines: []string{"server.1=h:1:2", "server.2=i:1:2", "server.4=k:1:2:observer", "group.1=1:2"},
			want: []string{"server.1=h:1:2:participant", "server.2=i:1:2:participant", "server.4=k:1:2:observer",
				"group.1=1:2", "weight.1=1", "weight.2=1", "version=0"}},
		{name: "servers of no line", lines: []string{"server.1=h:1:2", "server.2=i:1:2", "group.1=1:2:9", "weight.9=1", "weight.8=7"},
			want: []string{"server.1=h:1:2:participant", "server.2=i:1:2:participant",
				"group.1=1:2:9", "weight.1=1", "weight.2=1", "weight.8=7", "weight.9=1", "version=0"}},
		{name: "groups of one hash", lines: append(ids("1", "2", "3"), "group.17=1", "group.2=2", "group.1=3"),
			want: []string{"server.1=h1:1:2:participant", "server.2=h2:1:2:participant", "server.3=h3:1:2:participant",
				"group.17=1", "group.1=3", "group.2=2", "weight.1=1", "weight.2=1", "weight.3=1", "version=0"}},
		{name: "several addresses", lines: []string{"server.1=h:1:2", "server.2=i:3:4|h:5:6:observer"},
			want: []string{"server.1=h:1:2:participant", "server.2=h:5:6|i:3:4:observer", "version=0"}},
		{name: "secure, as in 3.10", lines: []string{"server.1=h:1:2;2181;s:2281", "server.2=i:1:2;;2281"},
			want: []string{"server.1=h:1:2:participant;0.0.0.0:2181;s:2281", "server.2=i:1:2:participant;;0.0.0.0:2281", "version=0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := membersOf(t, tt.lines...)
			m.Version = tt.version
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), string(m.Text())); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			again, err := ParseMembers(m.Text())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.Text(), m.Text()) {
				t.Errorf("read back:\n%s", again.Text())
			}
		})
	}
}

// TestHashOrder holds the order in which Apache ZooKeeper 3.8.0 wrote servers of
// these ids.
func TestHashOrder(t *testing.T) {
	var upTo29 []int64
	for id := range int64(29) {
		upTo29 = append(upTo29, id+1)
	}
	tests := []struct{ ids, want []int64 }{
		{[]int64{10, 20, 30}, []int64{20, 10, 30}},
		{[]int64{2, 5, 16, 300}, []int64{16, 2, 5, 300}},
		{upTo29, upTo29},
		{[]int64{1, 51, 101, 151, 201, 251, 301, 351, 401, 451, 501, 551, 601, 651},
			[]int64{1, 451, 101, 551, 201, 651, 301, 401, 51, 501, 151, 601, 251, 351}},
		{[]int64{1, 65536, 131073, 1 << 32, 1<<63 - 1}, []int64{1<<63 - 1, 1, 65536, 1 << 32, 131073}},
	}
	for _, tt := range tests {
		if got := hashOrder(slices.Clone(tt.ids)); !slices.Equal(got, tt.want) {
			t.Errorf("hashOrder(%v) = %v, want %v", tt.ids, got, tt.want)
		}
	}
}

// What others write is read as well: comments, other separators, any order.
func TestParseMembers(t *testing.T) {
	got, err := ParseMembers([]byte("# a file\nversion : 1f\r\n server.2 zoo2\\:1\\:2:observer\nserver.1=zoo1:1:2|zoo3:1:2"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Members{Version: 0x1f, Servers: []Member{
		{ID: 1, Addresses: []MemberAddress{{"zoo1", 1, 2}, {"zoo3", 1, 2}}},
		{ID: 2, Addresses: []MemberAddress{{"zoo2", 1, 2}}, Observer: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestParseMembersRefuses(t *testing.T) {
	const one = "server.1=a:1:2\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "config: members: no participant"},
		{"only observers", "server.1=a:1:2:observer", "config: members: no participant"},
		{"huge", strings.Repeat("#", 128<<10+1), "config: members: larger than 131072 bytes"},
		{"not ASCII", one + "server.2=\xff:1:2", "config: members: not ASCII"},
		{"escape", one + `\u00x`, `config: members, line 2: malformed \uXXXX escape`},
		{"not ASCII by escape", one + `server.2=\u00ff:1:2`, `config: members, line 2: server.2=` + "\u00ff:1:2: \"\u00ff\" is not a host name"},
		{"other keys", one + "tickTime=5", "config: members, line 2: tickTime=5: not of the form server.N, group.N or weight.N"},
		{"bad version", one + "version=xyz", "config: members, line 2: version=xyz: not a zxid in hex"},
		{"negative version", one + "version=-1", "config: members, line 2: version=-1: not a zxid in hex"},
		{"version beyond a zxid", one + "version=8000000000000000", "config: members, line 2: version=8000000000000000: not a zxid in hex"},
		{"groups", one + "group.1=2", "config: members: server.1 is in no group"},
		{"control characters", one + "server.2=\x01:1:2", `config: members, line 2: "server.2=\x01:1:2": "\x01" is not a host name`},
		{"long line", one + "server.2=" + strings.Repeat("x", 500), "config: members, line 2: server.2=" + strings.Repeat("x", 111) + "...: a host name of more than 253 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := ParseMembers([]byte(tt.text)); err == nil || err.Error() != tt.want {
				t.Errorf("got %+v, error\n%v\nwant\n%s", m, err, tt.want)
			}
		})
	}
}

// ParseMembers does not panic, what it accepts Text writes so that it is read
// back the same, and it does not depend on the order of a map.
func FuzzParseMembers(f *testing.F) {
	f.Add([]byte("server.1=a:1:2:participant;0.0.0.0:2181\nserver.2=[0:0:0:0:0:0:0:1]:1:2:observer\nversion=0"))
	f.Add([]byte("server.1=a:1:2|b:1:2:observer\nserver.17=c:1:2\nserver.33=c:1:2\ngroup.1=17:1\ngroup.17=33\nweight.17=0\nversion=10000000a"))
	f.Add([]byte("server.1=h:1:2;;s:3"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseMembers(text)
		if err != nil {
			return
		}
		written := m.Text()
		if len(written) > maxMembersBytes {
			return // short IPv6 addresses become long
		}
		again, err := ParseMembers(written)
		if err != nil {
			t.Fatalf("%q becomes %q, which is refused: %v", text, written, err)
		}
		if !bytes.Equal(written, again.Text()) || !slices.Equal(m.Voters(), again.Voters()) || m.Version != again.Version {
			t.Errorf("%q becomes %q and then %q", text, written, again.Text())
		}
	})
}
