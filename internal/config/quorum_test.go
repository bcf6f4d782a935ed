package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMember(t *testing.T) {
	one := []MemberAddress{{"h", 2888, 3888}}
	tests := []struct {
		line string
		want Member
	}{
		{"h:2888:3888", Member{ID: 1, Addresses: one}},
		{"h:2888:3888:participant", Member{ID: 1, Addresses: one}},
		{"h:2888:3888:OBSERVER", Member{ID: 1, Addresses: one, Observer: true}},
		{"h:2888:3888;2181", Member{ID: 1, Addresses: one, HasClient: true, ClientHost: "0.0.0.0", ClientPort: 2181}},
		{"h:2888:3888:observer;c:2181", Member{ID: 1, Addresses: one, Observer: true, HasClient: true, ClientHost: "c", ClientPort: 2181}},
		{"h:2888:3888;2181;s:2281", Member{ID: 1, Addresses: one, HasClient: true, ClientHost: "0.0.0.0", ClientPort: 2181,
			HasSecure: true, SecureHost: "s", SecurePort: 2281}},
		{"h:2888:3888;;2281", Member{ID: 1, Addresses: one, HasSecure: true, SecureHost: "0.0.0.0", SecurePort: 2281}},
		{"[::1]:2888:3888;[::]:2181", Member{ID: 1, Addresses: []MemberAddress{{"::1", 2888, 3888}},
			HasClient: true, ClientHost: "::", ClientPort: 2181}},
		{"h:2888:3888|i:2889:3889", Member{ID: 1, Addresses: []MemberAddress{{"h", 2888, 3888}, {"i", 2889, 3889}}}},
	}
	for _, tt := range tests {
		got, err := parseMember(1, tt.line)
		if err != nil {
			t.Errorf("parseMember(%q): %v", tt.line, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("parseMember(%q) (-want +got):\n%s", tt.line, diff)
		}
	}
}

func TestParseMemberRefuses(t *testing.T) {
	form := errMemberForm.Error()
	tests := []struct{ line, want string }{
		{"", form},
		{"h", form},
		{"h:2888", form},
		{":2888:3888", form},
		{"h:2888:3888:participant:x", form},
		{"[::1:2888:3888", form},
		{"[]:2888:3888", form},
		{"h:2888:3888;1;2;3", form},
		{"h:2888:3888;c:1:2", form},
		{"h:x:3888", `"x" is not a port number`},
		{"h:2888:65536", `"65536" is not a port number`},
		{"h:2888:-1", `"-1" is not a port number`},
		{"h:2888:3888;x", `"x" is not a port number`},
		{"h:2888:2888", "quorum port and election port are both 2888"},
		{"h:2888:3888:leader", "not participant or observer"},
		{"h:2888:3888|i:2889:3889:observer", "the addresses of one server have different roles"},
	}
	for _, tt := range tests {
		if got, err := parseMember(1, tt.line); err == nil || err.Error() != tt.want {
			t.Errorf("parseMember(%q) = %+v, %v; want error %q", tt.line, got, err, tt.want)
		}
	}
}

func TestMembersKeepTheOrderOfIDs(t *testing.T) {
	var m Members
	for _, line := range [][2]string{
		{"server.3", "c:1:2"}, {"server.1", "a:1:2"}, {"server.2", "b:1:2:observer"}, {"server.3", "d:1:2"},
		{"group.7", "1:3"}, {"weight.3", "0"},
	} {
		if err := m.add(line[0], line[1], false); err != nil {
			t.Fatal(err)
		}
	}
	want := Members{
		Servers: []Member{
			{ID: 1, Addresses: []MemberAddress{{"a", 1, 2}}},
			{ID: 2, Addresses: []MemberAddress{{"b", 1, 2}}, Observer: true},
			{ID: 3, Addresses: []MemberAddress{{"d", 1, 2}}},
		},
		Groups:  map[int64]int64{1: 7, 3: 7},
		Weights: map[int64]int64{3: 0},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := m.Voters(); n != 2 {
		t.Errorf("Voters() = %d, want 2", n)
	}
	if s := m.Find(2); s == nil || s.ID != 2 {
		t.Errorf("Find(2) = %v", s)
	}
	if s := m.Find(4); s != nil {
		t.Errorf("Find(4) = %v, want nil", s)
	}
}

func FuzzParseMember(f *testing.F) {
	f.Add("h:2888:3888:observer;c:2181;s:2281")
	f.Add("[::1]:1:2|[::2]:3:4")
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseMember(1, line)
		if err != nil {
			return
		}
		if len(m.Addresses) == 0 || len(m.Addresses) > len(line) {
			t.Fatalf("parseMember(%q) has %d addresses", line, len(m.Addresses))
		}
		for _, a := range m.Addresses {
			if a.Host == "" || a.QuorumPort == a.ElectionPort {
				t.Fatalf("parseMember(%q) accepts %+v", line, a)
			}
		}
	})
}
