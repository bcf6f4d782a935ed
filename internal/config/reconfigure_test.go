package config

import (
	"errors"
	"strings"
	"testing"
)

// The codes in the comments are those of Apache 3.8.0 and 3.9.3 for the same change; test/ensemble
// compares them with the running servers.
func TestReconfigured(t *testing.T) {
	const three = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3\nserver.3=c:1:2:participant;0.0.0.0:3\n"
	whole := func(text string) *string { return &text }
	unreadable, bad, noQuorum := "unreadable", "bad", "no quorum" // MARSHALLINGERROR, BADARGUMENTS, NEWCONFIGNOQUORUM
	tests := []struct {
		name   string
		change Change
		groups string // lines of the present members
		alone  bool   // standaloneEnabled=false
		multi  bool   // multiAddress.enabled=true
		want   string // the new text without the version, or how it fails
	}{
		{name: "nothing", want: three},
		{name: "an observer", change: Change{Joining: "server.4=d:1:2:observer;3"}, want: three + "server.4=d:1:2:observer;0.0.0.0:3\n"},
		{name: "without the word server", change: Change{Joining: " 4=d:1:2;3 , "}, want: three + "server.4=d:1:2:participant;0.0.0.0:3\n"},
		{name: "one leaves, one comes", change: Change{Joining: "server.4=d:1:2;3", Leaving: "2"},
			want: "server.1=a:1:2:participant;0.0.0.0:3\nserver.3=c:1:2:participant;0.0.0.0:3\nserver.4=d:1:2:participant;0.0.0.0:3\n"},
		{name: "in the order of ids", change: Change{Joining: "server.0=d:1:2;3"}, want: "server.0=d:1:2:participant;0.0.0.0:3\n" + three},
		{name: "an unknown id leaves", change: Change{Leaving: "9"}, want: three},
		{name: "a new role", change: Change{Joining: "server.2=b:1:2:observer;3"}, want: strings.Replace(three, "b:1:2:participant", "b:1:2:observer", 1)},
		{name: "the place of one that leaves", change: Change{Joining: "server.4=c:1:2;3", Leaving: "3"}, want: strings.Replace(three, "server.3", "server.4", 1)},
		{name: "the wildcard is no address", change: Change{Joining: "server.4=0.0.0.0:1:2;0.0.0.0:3"}, want: three + "server.4=0.0.0.0:1:2:participant;0.0.0.0:3\n"},

		{name: "no =", change: Change{Joining: "x"}, want: bad},
		{name: "no value", change: Change{Joining: "server.4="}, want: bad},
		{name: "two =", change: Change{Joining: "server.4=d:1:2;3=4"}, want: bad},
		{name: "no number", change: Change{Joining: "server.x=d:1:2;3"}, want: unreadable},
		{name: "a negative number", change: Change{Joining: "server.-4=d:1:2;3"}, want: bad},
		{name: "leaving is no number", change: Change{Leaving: "1x"}, want: unreadable},
		{name: "no client port", change: Change{Joining: "server.4=d:1:2"}, want: bad},
		{name: "a large port", change: Change{Joining: "server.4=d:1:70000;3"}, want: unreadable},
		{name: "the address of another", change: Change{Joining: "server.4=b:4:1;3"}, want: bad},
		{name: "the address of another twice joining", change: Change{Joining: "server.4=d:1:2;3,server.5=d:1:2;3"}, want: bad},
		{name: "several addresses", change: Change{Joining: "server.4=d:1:2|e:1:2;3"}, want: bad},
		{name: "several addresses, allowed", multi: true, change: Change{Joining: "server.4=d:1:2|e:1:2;3"}, want: three + "server.4=d:1:2|e:1:2:participant;0.0.0.0:3\n"},
		{name: "an address for TLS", change: Change{Joining: "server.4=d:1:2;3;4"}, want: bad},
		{name: "one is left", change: Change{Leaving: "1,2"}, want: bad},
		{name: "one is left, allowed", alone: true, change: Change{Leaving: "1,2"}, want: "server.3=c:1:2:participant;0.0.0.0:3\n"},
		{name: "none is left", alone: true, change: Change{Leaving: "1,2,3"}, want: bad},
		{name: "groups", groups: "group.1=1:2:3\n", change: Change{Leaving: "3"}, want: bad},

		{name: "whole", change: Change{Members: whole("server.1=a:1:2\nserver.4=d:1:2;3\nversion=7"), Joining: "x"},
			want: "server.1=a:1:2:participant\nserver.4=d:1:2:participant;0.0.0.0:3\n"},
		{name: "whole, with commas", change: Change{Members: whole("server.1=a:1:2,server.4=d:1:2,weight.1=1,weight.4=2,group.1=1:4")},
			want: "server.1=a:1:2:participant\nserver.4=d:1:2:participant\ngroup.1=1:4\nweight.1=1\nweight.4=2\n"},
		{name: "whole, in place of groups", groups: "group.1=1:2:3\n", change: Change{Members: whole(three)}, want: three},
		{name: "whole, empty", change: Change{Members: whole("")}, want: bad},
		{name: "whole, empty, one allowed", alone: true, change: Change{Members: whole("")}, want: unreadable},
		{name: "whole, observers", change: Change{Members: whole("server.1=a:1:2:observer")}, want: unreadable},
		{name: "whole, one and an observer", change: Change{Members: whole("server.1=a:1:2,server.4=d:1:2:observer")}, want: unreadable},
		{name: "whole, an unknown key", change: Change{Members: whole(three + "x=y")}, want: bad},
		{name: "whole, no number", change: Change{Members: whole("server.x=a:1:2")}, want: unreadable},
		{name: "whole, twice one", change: Change{Members: whole(three + "server.3=d:1:2")}, want: bad},
		{name: "whole, one address", change: Change{Members: whole(three + "server.4=c:1:5")}, want: bad},
		{name: "whole, in no group", change: Change{Members: whole(three + "group.1=1:2")}, want: bad},
		{name: "whole, weights without groups", change: Change{Members: whole(three + "weight.1=1,weight.2=1,weight.3=1")}, want: bad},
		{name: "whole, in two groups", change: Change{Members: whole(three + "group.1=1:2:3,group.2=3")}, want: bad},
		{name: "whole, a group with an unknown server", change: Change{Members: whole(three + "group.1=1:2:3:9")}, want: unreadable},
		{name: "whole, all weights are 0", change: Change{Members: whole(three + "group.1=1:2:3,weight.1=0,weight.2=0,weight.3=0")}, want: noQuorum},
		{name: "whole, a negative weight", change: Change{Members: whole(three + "group.1=1:2:3,weight.1=-1")}, want: unreadable},
		{name: "whole, an escape that is none", change: Change{Members: whole("\\u1")}, want: unreadable},
		{name: "whole, too long", change: Change{Members: whole(strings.Repeat("#", maxMembersBytes+1))}, want: bad},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, err := ParseMembers([]byte(three + tt.groups))
			if err != nil {
				t.Fatal(err)
			}
			before := string(from.Text())
			q := Quorum{StandaloneEnabled: !tt.alone, MultiAddress: tt.multi}
			got := bad
			switch to, err := q.Reconfigured(from, tt.change, 0x100000007); {
			case err == nil:
				got = strings.TrimSuffix(string(to.Text()), "version=100000007")
			case errors.Is(err, ErrUnreadable):
				got = unreadable
			case errors.Is(err, ErrNoQuorum):
				got = noQuorum
			}
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if after := string(from.Text()); after != before {
				t.Errorf("the present members have become\n%s", after)
			}
		})
	}
}
