package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMember(t *testing.T) {
	one := []MemberAddress{{"h", 2888, 3888}}
	two := []MemberAddress{{"h", 2888, 3888}, {"i", 2889, 3889}}
	tests := []struct {
		line string
		want Member
	}{
		{"h:2888:3888", Member{ID: 1, Addresses: one}},
		{"h:2888:3888:participant", Member{ID: 1, Addresses: one}},
		{"h:2888:3888:OBSERVER", Member{ID: 1, Addresses: one, Observer: true}},
		{"h:2888:3888;2181", Member{ID: 1, Addresses: one, HasClient: true, ClientHost: "0.0.0.0", ClientPort: 2181}},
		{"h:2888:3888;", Member{ID: 1, Addresses: one}},
		{"h:2888:3888:observer;c:2181", Member{ID: 1, Addresses: one, Observer: true, HasClient: true, ClientHost: "c", ClientPort: 2181}},
		{"h:2888:3888;2181;s:2281", Member{ID: 1, Addresses: one, HasClient: true, ClientHost: "0.0.0.0", ClientPort: 2181,
			HasSecure: true, SecureHost: "s", SecurePort: 2281}},
		{"h:2888:3888;;2281", Member{ID: 1, Addresses: one, HasSecure: true, SecureHost: "0.0.0.0", SecurePort: 2281}},
		{"[::1]:2888:3888;[::]:2181", Member{ID: 1, Addresses: []MemberAddress{{"::1", 2888, 3888}},
			HasClient: true, ClientHost: "::", ClientPort: 2181}},
		{"[2001:DB8:0::A]:2888:3888", Member{ID: 1, Addresses: []MemberAddress{{"2001:db8::a", 2888, 3888}}}},
		{"[::ffff:1.2.3.4]:2888:3888", Member{ID: 1, Addresses: []MemberAddress{{"1.2.3.4", 2888, 3888}}}},
		{"Zoo-1.my_net:2888:3888", Member{ID: 1, Addresses: []MemberAddress{{"Zoo-1.my_net", 2888, 3888}}}},
		{"h:2888:3888|i:2889:3889", Member{ID: 1, Addresses: two}},
		{"h:2888:3888|i:2889:3889:observer", Member{ID: 1, Addresses: two, Observer: true}}, // as Apache writes it
		{"h:2888:3888:observer|i:2889:3889", Member{ID: 1, Addresses: two, Observer: true}},
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
		{"h:2888:3888;:2181", form},
		{"[h]:2888:3888", `"h" is not an IPv6 address`},
		{"[1.2.3.4]:2888:3888", `"1.2.3.4" is not an IPv6 address`},
		{"zoo 1:2888:3888", `"zoo 1" is not a host name`},
		{"zo\u00f6:2888:3888", `"zo` + "\u00f6" + `" is not a host name`},
		{"127.1:2888:3888", `"127.1" is neither a host name nor an IP address`},
		{"010.0.0.1:2888:3888", `"010.0.0.1" is neither a host name nor an IP address`},
		{strings.Repeat("h", 254) + ":2888:3888", "a host name of more than 253 bytes"},
		{"h:x:3888", `"x" is not a port number`},
		{"h:2888:65536", `"65536" is not a port number`},
		{"h:2888:-1", `"-1" is not a port number`},
		{"h:2888:3888;x", `"x" is not a port number`},
		{"h:2888:0", "port 0 is not allowed: no peer could reach it"},
		{"h:2888:2888", "quorum port and election port are both 2888"},
		{"h:2888:3888:leader", "is not participant or observer"},
		{"h:2888:3888:participant|i:2889:3889:observer", "the addresses of one server have different roles"},
		{"h:1:2" + strings.Repeat("|h:1:2", 16), "more than 16 addresses"},
	}
	for _, tt := range tests {
		if got, err := parseMember(1, tt.line); err == nil || err.Error() != tt.want {
			t.Errorf("parseMember(%q) = %+v, %v; want error %q", tt.line, got, err, tt.want)
		}
	}
}

// membersOf adds lines one by one.
func membersOf(t *testing.T, all ...string) *Members {
	t.Helper()
	m := new(Members)
	for _, line := range all {
		key, value, _ := strings.Cut(line, "=")
		if err := m.add(key, value, true); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return m
}

func TestMembers(t *testing.T) {
	m := membersOf(t, "server.3=c:1:2", "server.1=a:1:2", "server.2=b:1:2:observer", "server.10=d:3:4", "group.7=1:3", "group.8=10", "weight.3=0")
	want := &Members{
		Servers: []Member{
			{ID: 1, Addresses: []MemberAddress{{"a", 1, 2}}},
			{ID: 2, Addresses: []MemberAddress{{"b", 1, 2}}, Observer: true},
			{ID: 3, Addresses: []MemberAddress{{"c", 1, 2}}},
			{ID: 10, Addresses: []MemberAddress{{"d", 3, 4}}},
		},
		Groups:  map[int64]int64{1: 7, 3: 7, 10: 8},
		Weights: map[int64]int64{3: 0},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 3, 10}, m.Voters()); diff != "" {
		t.Errorf("Voters() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{2}, m.Observers()); diff != "" {
		t.Errorf("Observers() (-want +got):\n%s", diff)
	}
	if s := m.Find(10); s == nil || s.ID != 10 || s.ElectionAddr() != "d:4" {
		t.Errorf("Find(10) = %+v", s)
	}
	if s := m.Find(4); s != nil {
		t.Errorf("Find(4) = %v, want nil", s)
	}
	weights, groups := m.WeightsAndGroups()
	if !maps.Equal(weights, map[int64]int64{1: 1, 3: 0, 10: 1}) || !maps.Equal(groups, map[int64]int64{1: 7, 3: 7, 10: 8}) {
		t.Errorf("weights %v, groups %v", weights, groups)
	}
	weights[1], groups[1] = 9, 9
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("the maps are not the caller's own (-want +got):\n%s", diff)
	}
}

func TestMajority(t *testing.T) {
	m := membersOf(t, "server.1=a:1:2", "server.2=[::1]:1:2")
	weights, groups := m.WeightsAndGroups()
	if m.Hierarchical() || weights != nil || groups != nil {
		t.Errorf("hierarchical %v, weights %v, groups %v", m.Hierarchical(), weights, groups)
	}
	if got := m.Find(2).ElectionAddr(); got != "[::1]:2" {
		t.Errorf("ElectionAddr() = %q", got)
	}
}

// A server that is no participant counts in the weight of its group if it has a
// weight, as in Apache.
func TestWeightOfAnObserver(t *testing.T) {
	m := membersOf(t, "server.1=a:1:2", "server.2=b:1:2", "server.4=d:1:2:observer", "group.1=1:2:4", "weight.4=2")
	if err := m.checkGroups(); err != nil {
		t.Fatal(err)
	}
	weights, _ := m.WeightsAndGroups()
	if !maps.Equal(weights, map[int64]int64{1: 1, 2: 1, 4: 2}) {
		t.Errorf("weights %v", weights)
	}
}

func TestMembersRefuse(t *testing.T) {
	const one = "server.1=a:1:2"
	many := func(format string) (all []string) {
		for i := range maxMembers {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	tests := []struct {
		name  string
		lines []string
		want  string
	}{
		{"twice", []string{one, "server.01=b:1:2"}, "server 1 has another line"},
		{"too many", append(many("server.%d=a:1:2"), "server.9999=a:1:2"), "more than 1024 servers"},
		{"too many weights", append(many("weight.%d=1"), "weight.9999=1"), "more than 1024 weights"},
		{"too many in groups", append(many("group.%[1]d=%[1]d"), "group.9999=9999"), "more than 1024 servers in groups"},
		{"weight twice", []string{"weight.1=1", "weight.01=1"}, "the weight of server 1 has another line"},
		{"negative weight", []string{"weight.1=-1"}, "a weight is a whole number from 0 to 2147483647"},
		{"huge weight", []string{"weight.1=2147483648"}, "a weight is a whole number from 0 to 2147483647"},
		{"two groups", []string{"group.1=1:2", "group.2=2"}, "server 2 is in group 1 already"},
		{"empty group", []string{"group.1="}, `"" is not a server's number`},
		{"negative id", []string{"server.-1=a:1:2"}, `"-1" is not a server's or group's number`},
		{"other key", []string{"servers.1=a:1:2"}, "not of the form server.N, group.N or weight.N"},
		{"no group", []string{one, "group.1=2"}, "server.1 is in no group"},
		{"weights alone", []string{one, "weight.1=2"}, "server.1 is in no group"},
		{"unknown in a group", []string{one, "group.1=1:2"}, "group.1 has the server 2, which is not a participant and has no weight"},
		{"no weight at all", []string{one, "group.1=1", "weight.1=0"}, "all weights are 0; no set of servers would be a quorum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := new(Members)
			var err error
			for _, line := range tt.lines {
				key, value, _ := strings.Cut(line, "=")
				if err = m.add(key, value, false); err != nil {
					break
				}
			}
			if err == nil {
				err = m.checkGroups()
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
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
			if a.Host == "" || a.QuorumPort == a.ElectionPort || a.QuorumPort == 0 || a.ElectionPort == 0 {
				t.Fatalf("parseMember(%q) accepts %+v", line, a)
			}
		}
	})
}
