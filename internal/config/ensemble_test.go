package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Lines of an ensemble's zoo.cfg, for behind base.
const (
	limits  = "initLimit=10\nsyncLimit=5\n"
	server1 = "server.1=h:2888:3888\n"
	server2 = "server.2=i:2888:3888\n"
	server3 = "server.3=j:2888:3888\n"
	three   = limits + server1 + server2 + server3
	own1    = "1\n" // of data/myid
)

// TestEnsembleReports is TestReports for the server lines. What is refused here,
// Apache 3.8.0 refuses as well, in its configuration or when it starts to serve,
// unless the case says else.
func TestEnsembleReports(t *testing.T) {
	const (
		alone  = "warning zoo.cfg:3: server.1: the only server; it is ignored, the server runs standalone\n"
		nobody = "error data/myid: myid: the file is missing; an ensemble needs it\n"
	)
	tests := []struct {
		name  string
		file  string // behind base
		myid  string // "" is no file
		flags []string
		want  string
		addr  string // of clients; "" if it is refused
	}{
		{name: "three", file: three, myid: own1, addr: ":2181"},
		{name: "observer", file: limits + "peerType=observer\n" + server1 + server2 + server3 + "server.4=k:2888:3888:observer", myid: "4", addr: ":2181"},
		{name: "hierarchical", file: three + "server.4=k:2888:3888\ngroup.1=1:2:3\ngroup.2=4\nweight.4=0", myid: own1, addr: ":2181"},

		// Standalone.
		{name: "one server", file: server1, want: alone, addr: ":2181"},
		{name: "one server with its group", file: server1 + "group.1=1\nweight.1=3", want: alone, addr: ":2181"},
		{name: "the same client port", file: "server.1=h:2888:3888;2181", myid: own1, want: alone, addr: ":2181"},
		{name: "another client port", file: "server.1=h:2888:3888;2182", myid: own1,
			want: alone + "error zoo.cfg:3: server.1: client address 0.0.0.0:2182 differs from clientPort and clientPortAddress, :2181\n"},
		{name: "wider client address", file: "clientPortAddress=127.0.0.1\nserver.1=h:2888:3888;2181", myid: own1,
			want: "warning zoo.cfg:4: server.1: the only server; it is ignored, the server runs standalone\n" +
				"error zoo.cfg:4: server.1: client address 0.0.0.0:2181 differs from clientPort and clientPortAddress, 127.0.0.1:2181\n"},
		{name: "a name for the same address", file: "clientPortAddress=localhost\nserver.1=h:2888:3888;127.0.0.1:2181", myid: own1,
			want: "warning zoo.cfg:4: server.1: the only server; it is ignored, the server runs standalone\n", addr: "127.0.0.1:2181"},
		{name: "peerType of nobody", file: "peerType=observer", want: "warning zoo.cfg:3: peerType: has no effect: no server line has this role\n", addr: ":2181"},

		// The own server.
		{name: "no myid", file: three, want: nobody},
		{name: "empty myid", file: three, myid: "\n", want: "error data/myid: myid: is empty; it must contain the server's number\n"},
		{name: "bad myid", file: server1, myid: "one\n", want: alone + "error data/myid: myid=one: is not a server's number\n"},
		{name: "bad myid in an ensemble", file: three, myid: "one\n", want: "error data/myid: myid=one: is not a server's number\n"},
		{name: "negative myid", file: three, myid: "-1", want: "error data/myid: myid=-1: is not a server's number\n"},
		{name: "not in the list", file: three, myid: "9", want: "error data/myid: myid=9: there is no server line with this number\n"},
		{name: "Apache takes no spaces", file: three, myid: " 1 \r\n", addr: ":2181"},
		{name: "Apache shortens ids in silence", file: three + "server.300=k:1:2", myid: "300",
			want: "warning data/myid: myid: 300 is above 255: its session ids look like those of server 44\n" +
				"warning zoo.cfg:5: server: 4 participants survive the loss of 1, and so do 3 participants\n", addr: ":2181"},
		{name: "observer by the line alone", file: three + "server.4=k:1:2:observer", myid: "4", addr: ":2181"},
		{name: "observer against the line", file: "peerType=observer\n" + three, myid: own1,
			want: "warning zoo.cfg:3: peerType: differs from server.1; server.1 counts\n", addr: ":2181"},
		{name: "participant against the line", file: three + "server.4=k:1:2:observer\npeerType=participant", myid: "4",
			want: "warning zoo.cfg:9: peerType: differs from server.4; server.4 counts\n", addr: ":2181"},
		{name: "3.10 has TLS there", file: limits + "server.1=h:1:2;2181;2281\n" + server2 + server3, myid: own1,
			want: "error zoo.cfg:5: server.1: has a secure client port, which is not supported there; use secureClientPort\n"},

		// How many.
		{name: "two", file: limits + server1 + server2, myid: own1,
			want: "warning zoo.cfg:5: server: 2 participants: the service stops if either fails; with three it survives the loss of one\n", addr: ":2181"},
		{name: "four", file: three + "server.4=k:1:2", myid: own1,
			want: "warning zoo.cfg:5: server: 4 participants survive the loss of 1, and so do 3 participants\n", addr: ":2181"},
		{name: "one as an ensemble", file: "standaloneEnabled=false\n" + limits + server1, myid: own1,
			want: "warning zoo.cfg:6: server: 1 participant: the service stops if it fails; with three it survives the loss of one\n", addr: ":2181"},
		{name: "none as an ensemble", file: "standaloneEnabled=false", want: "error zoo.cfg: server: standaloneEnabled=false needs at least one server line\n"},
		{name: "more votes than can be counted", file: manyServers(65),
			want: "error zoo.cfg:3: server: the ensemble has 65 participants, but this server can count the votes of 64 at most: make the others observers\n"},
		{name: "observer alone", file: "server.1=h:1:2:observer", want: "error zoo.cfg:3: server: the ensemble has observers and no participant\n"},
		{name: "one participant and an observer", file: server1 + "server.2=i:1:2:observer",
			want: "error zoo.cfg:3: server: one participant with observers is not an ensemble; standaloneEnabled=false allows it\n"},

		// Limits.
		{name: "nothing but servers", file: server1 + server2,
			want: "error zoo.cfg: initLimit: is not set; an ensemble needs it\n" +
				"error zoo.cfg: syncLimit: is not set; an ensemble needs it\n" + nobody +
				"warning zoo.cfg:3: server: 2 participants: the service stops if either fails; with three it survives the loss of one\n"},
		{name: "limit of nothing", file: "initLimit=0\nsyncLimit=5\n" + server1 + server2 + server3, myid: own1,
			want: "error zoo.cfg:3: initLimit=0: must be 1 or more in an ensemble\n"},
		{name: "Apache starts and serves nobody", file: "initLimit=-5\nsyncLimit=5\n" + server1 + server2 + server3, myid: own1,
			want: "error zoo.cfg:3: initLimit=-5: must be 0 or more\n"},
		{name: "Apache's int overflows", file: "initLimit=10\nsyncLimit=1000000\n" + server1 + server2 + server3, myid: own1,
			want: "error zoo.cfg:4: syncLimit=1000000: times tickTime is more than 2147483647 ms\n"},
		{name: "Apache doubles from there", file: three, myid: own1, flags: []string{"-Dzookeeper.fastleader.minNotificationInterval=70000"},
			want: "error command line: fastleader.minNotificationInterval: 70000 ms is above fastleader.maxNotificationInterval, 60000 ms\n"},
		{name: "the other one", file: three + "fastleader.maxNotificationInterval=100", myid: own1,
			want: "error zoo.cfg:8: fastleader.minNotificationInterval: 200 ms is above fastleader.maxNotificationInterval, 100 ms\n"},

		// Lines.
		{name: "Apache's second server cannot listen", file: limits + server1 + "server.2=h:2889:3888\n" + server3, myid: own1,
			want: "error zoo.cfg:5: server: server.1 and server.2 both use port 3888 of h\n"},
		{name: "Apache's second server cannot listen here either", file: limits + server1 + "server.2=h:3888:3889\n" + server3, myid: own1,
			want: "error zoo.cfg:5: server: server.1 and server.2 both use port 3888 of h\n"},
		{name: "every address", file: limits + "server.1=0.0.0.0:1:2\nserver.2=0.0.0.0:1:2\n" + server3, myid: own1, addr: ":2181"},
		{name: "not in a group", file: three + "group.1=1:3", myid: own1, want: "error zoo.cfg:5: server: server.2 is in no group\n"},
		{name: "in two groups", file: server1 + "group.1=1\ngroup.2=1", want: "error zoo.cfg:5: group.2=1: server 1 is in group 1 already\n"},
		{name: "group of letters", file: "group.1=a", want: `error zoo.cfg:3: group.1=a: "a" is not a server's number` + "\n"},
		{name: "weight of letters", file: "weight.1=a", want: "error zoo.cfg:3: weight.1=a: a weight is a whole number from 0 to 2147483647\n"},
		{name: "server of letters", file: "server.x=h:1:2", want: `error zoo.cfg:3: server.x=h:1:2: "x" is not a server's or group's number` + "\n"},
		{name: "grouping", file: "grouping=1", want: "error zoo.cfg:3: grouping=1: not of the form server.N, group.N or weight.N\n"},
		{name: "a broken line alone is told", file: limits + "server.1=h:1\n" + server2, myid: own1,
			want: "error zoo.cfg:5: server.1=h:1: " + errMemberForm.Error() + "\n"},
		{name: "addresses", file: "server.1=h:1:2|i:1:2", want: "error zoo.cfg:3: server.1=h:1:2|i:1:2: several addresses need multiAddress.enabled=true\n"},
		{name: "addresses allowed behind the line", file: "server.1=h:1:2|i:1:2\nmultiAddress.enabled=true",
			want: "warning zoo.cfg:4: multiAddress.enabled: has no effect here: only the first address of a server is used\n" + alone, addr: ":2181"},
		{name: "bad version", file: "version=xyz", want: "error zoo.cfg:3: version=xyz: not a zxid in hex\n"},

		{name: "logins of servers without users", file: three + "quorum.auth.enableSasl=true", myid: own1,
			want: "error zoo.cfg:8: quorum.auth.enableSasl=true: needs -Djava.security.auth.login.config\n"},
		// What is not there yet.
		{name: "missing", file: three + "reconfigEnabled=true\nmultiAddress.enabled=true", myid: own1,
			want: "warning zoo.cfg:9: multiAddress.enabled: has no effect here: only the first address of a server is used\n",
			addr: ":2181"},

		{name: "an oracle", file: limits + server1 + server2 + "oraclePath=/o", myid: own1,
			want: "warning zoo.cfg:7: oraclePath: a majority of two participants is both: if the oracle is wrong, acknowledged writes are lost; three participants need no oracle\n",
			addr: ":2181"},
		{name: "an oracle of three", file: three + "oraclePath=/o", myid: own1, addr: ":2181"},
		{name: "an oracle with weights", file: limits + server1 + server2 + "oraclePath=/o\ngroup.1=1:2", myid: own1,
			want: "error zoo.cfg:5: server: oraclePath counts votes by majority; remove it, or the lines of groups and weights\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"zoo.cfg": base + tt.file}
			if tt.myid != "" {
				files["data/myid"] = tt.myid
			}
			inDir(t, files)
			c, warnings, err := Load("zoo.cfg", tt.flags, "")
			if diff := cmp.Diff(sortedLines(tt.want), sortedLines(report(warnings, err))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err == nil && c.Client.Addr() != tt.addr {
				t.Errorf("client address %q, want %q", c.Client.Addr(), tt.addr)
			}
		})
	}
}

// sortedLines is for reports of which the order is not the point.
func sortedLines(text string) []string {
	all := slices.Collect(strings.Lines(text))
	slices.Sort(all)
	return all
}

func TestDynamicFileReports(t *testing.T) {
	const next = server1 + server2 + server3 + "version=200000000"
	tests := []struct {
		name  string
		file  string
		extra map[string]string
		want  string
		addr  string
	}{
		{name: "three", file: base + limits + "dynamicConfigFile=dyn", extra: map[string]string{"data/myid": "1", "dyn": server1 + server2 + server3}, addr: ":2181"},
		{name: "client ports of their own", file: "dataDir=data\n" + limits + "dynamicConfigFile=dyn", addr: ":2183",
			extra: map[string]string{"data/myid": "1", "dyn": "server.1=h:1:2;2183\nserver.2=i:1:2;2184\nserver.3=j:1:2;2185"}},
		{name: "one", file: "dataDir=data\ndynamicConfigFile=dyn.100000001", extra: map[string]string{"data/myid": "1", "dyn.100000001": "server.1=h:1:2;2183"},
			want: "warning dyn.100000001:1: server.1: the only server; it is ignored, the server runs standalone\n", addr: ":2183"},
		{name: "no file", file: base + "dynamicConfigFile=dyn", want: "error zoo.cfg:3: dynamicConfigFile=dyn: open dyn: no such file or directory\n"},
		{name: "servers in both", file: base + "dynamicConfigFile=dyn\n" + server1, extra: map[string]string{"dyn": ""},
			want: "error zoo.cfg:4: server.1=h:2888:3888: must be in the dynamic file, because dynamicConfigFile is set\n"},
		{name: "too much in it", file: base + "dynamicConfigFile=dyn", extra: map[string]string{"dyn": server1 + "tickTime=5\nversion=1"},
			want: "warning dyn:1: server.1: the only server; it is ignored, the server runs standalone\n" +
				"error dyn:2: tickTime=5: is not allowed: a dynamic file has server, group and weight lines only\n" +
				"error dyn:3: version=1: must not be in the file: the version is the suffix of its name\n"},
		{name: "its syntax", file: base + "dynamicConfigFile=dyn", extra: map[string]string{"dyn": "\n\\u1"}, want: `error dyn:2: malformed \uXXXX escape` + "\n"},

		// Apache deletes the file here, and does not start if it cannot read it.
		{name: "a reconfiguration long ago", file: base + limits + "dynamicConfigFile=dyn", addr: ":2181",
			extra: map[string]string{"data/myid": "1", "dyn": server1 + server2 + server3, "zoo.cfg.dynamic.next": "junk"},
			want:  "warning zoo.cfg.dynamic.next: dynamicConfigFile: an unfinished reconfiguration left this file; it is ignored, because reconfigEnabled is false\n"},
		{name: "a reconfiguration", file: base + limits + "reconfigEnabled=true\ndynamicConfigFile=dyn.100000000",
			extra: map[string]string{"data/myid": "1", "dyn.100000000": server1 + server2 + server3, "zoo.cfg.dynamic.next": next}, addr: ":2181"},
		{name: "a reconfiguration that has finished", file: base + limits + "reconfigEnabled=true\ndynamicConfigFile=dyn.200000000", addr: ":2181",
			extra: map[string]string{"data/myid": "1", "dyn.200000000": server1 + server2 + server3, "zoo.cfg.dynamic.next": next}},
		{name: "a reconfiguration to nowhere", file: base + limits + "reconfigEnabled=true\ndynamicConfigFile=dyn",
			extra: map[string]string{"data/myid": "1", "dyn": server1 + server2 + server3, "zoo.cfg.dynamic.next": "server.1=x"},
			want:  "error zoo.cfg.dynamic.next: dynamicConfigFile: config: members, line 1: server.1=x: " + errMemberForm.Error() + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"zoo.cfg": tt.file}
			for name, text := range tt.extra {
				files[name] = text
			}
			inDir(t, files)
			c, warnings, err := Load("zoo.cfg", nil, "")
			if got := report(warnings, err); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if err == nil && c.Client.Addr() != tt.addr {
				t.Errorf("client address %q, want %q", c.Client.Addr(), tt.addr)
			}
		})
	}
}

// The version is in the name of the dynamic file, or it is 0; without such a file
// it is a line of zoo.cfg.
func TestVersion(t *testing.T) {
	tests := []struct {
		line string
		want int64
	}{
		{"dynamicConfigFile=zoo.cfg.dynamic.10000000a", 0x10000000a},
		{"dynamicConfigFile=zoo.cfg.dynamic", 0},
		{"dynamicConfigFile=zoo.cfg.dynamic\nversion=77", 0},
		{"version=100000001\nserver.1=h:1:2", 0x100000001},
		{"server.1=h:1:2", 0},
	}
	for _, tt := range tests {
		inDir(t, map[string]string{"zoo.cfg": base + tt.line, "zoo.cfg.dynamic": "server.1=h:1:2", "zoo.cfg.dynamic.10000000a": "server.1=h:1:2"})
		c, _, err := Load("zoo.cfg", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if c.Quorum.Members.Version != tt.want {
			t.Errorf("%q: version %#x, want %#x", tt.line, c.Quorum.Members.Version, tt.want)
		}
	}
}

func TestQuorumValues(t *testing.T) {
	inDir(t, map[string]string{"data/myid": "4\n", "zoo.cfg": base + "tickTime=2000\n" + three + "server.4=[::1]:2889:3889:observer;2181\n" +
		"quorumListenOnAllIPs=true\nlocalSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\nleaderServes=no\nsyncEnabled=false\n" +
		"cnxTimeout=300\nelectionPortBindRetry=0\nfastleader.minNotificationInterval=50\nfastleader.maxNotificationInterval=5000\n" +
		"leader.maxConcurrentSnapSyncs=2\nleader.maxConcurrentDiffSyncs=3\nleaderConnectDelayDuringRetryMs=20\ntcpKeepAlive=true\n" +
		"observer.reconnectDelayMs=30\nobserver.election.DelayMs=40\ncommitLogCount=900\nkerberos.canonicalizeHostNames=true\nsnapshotSizeFactor=0.5\nforceSnapshotSync=true\n" +
		"learner.asyncSending=true\nlearner.closeSocketAsync=true\nleader.closeSocketAsync=true\nquorum.cnxn.threads.size=5"})
	c, warnings, err := Load("zoo.cfg", []string{"-Dreadonlymode.enabled=true"}, "")
	if got := report(warnings, err); got != "" {
		t.Fatal(got)
	}
	want := Quorum{
		MyID: 4, HasMyID: true, Members: c.Quorum.Members, Observer: true,
		InitLimit: 10, SyncLimit: 5, ConnectLimit: 10, ListenOnAllIPs: true,
		LocalSessions: true, LocalUpgrading: true, StandaloneEnabled: true, ReadOnlyMode: true,
		Login:          PeerLogin{ServerSection: "QuorumServer", LearnerSection: "QuorumLearner", ServicePrincipal: "zkquorum/localhost", Canonicalize: true},
		ConnectTimeout: 300 * time.Millisecond, LinkTimeout: 10 * time.Second, RetryDelay: 20 * time.Millisecond,
		MinNotification: 50 * time.Millisecond, MaxNotification: 5 * time.Second,
		ObserverReconnect: 30 * time.Millisecond, ObserverElection: 40 * time.Millisecond, WindowBytes: 32 << 20,
		MaxSnapSyncs: 2, MaxDiffSyncs: 3, PeerBufferBytes: 64 << 20, UnsyncedBytes: 192 << 20, TCPKeepAlive: true,
		TLS: QuorumTLS{FIPS: true, Timeout: 5 * time.Second},
	}
	if diff := cmp.Diff(want, c.Quorum); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if c.Log.CommitLogCount != 900 || c.Log.SnapSizeFactor != 0.5 || !c.Log.ForceSnapSync {
		t.Errorf("log %+v", c.Log)
	}
	if own := c.Quorum.Own(); own == nil || own.ID != 4 || !own.Observer {
		t.Errorf("Own() = %+v", own)
	}
	if q, e := c.Quorum.QuorumListen(), c.Quorum.ElectionListen(); q != ":2889" || e != ":3889" {
		t.Errorf("listen at %s and %s", q, e)
	}
	c.Quorum.ListenOnAllIPs = false
	if q, e := c.Quorum.QuorumListen(), c.Quorum.ElectionListen(); q != "[::1]:2889" || e != "[::1]:3889" {
		t.Errorf("listen at %s and %s", q, e)
	}
}

// With observerMasterPort voters listen there too, observers do not.
func TestObserverListen(t *testing.T) {
	own := &Member{Addresses: []MemberAddress{{Host: "::1", QuorumPort: 2888, ElectionPort: 3888}}}
	observer := &Member{Addresses: own.Addresses, Observer: true}
	for _, c := range []struct {
		q    Quorum
		own  *Member
		want string
	}{
		{Quorum{}, own, ""},
		{Quorum{ObserverMasterPort: -1}, own, ""},
		{Quorum{ObserverMasterPort: 2191}, own, "[::1]:2191"},
		{Quorum{ObserverMasterPort: 2191, ListenOnAllIPs: true}, own, ":2191"},
		{Quorum{ObserverMasterPort: 2191}, observer, ""},
	} {
		if got := c.q.ObserverListen(c.own); got != c.want {
			t.Errorf("%+v listens for observers at %q, want %q", c.q, got, c.want)
		}
	}
}

func TestOwnOfNobody(t *testing.T) {
	c := Default()
	if c.Quorum.Own() != nil || c.Quorum.Distributed() {
		t.Errorf("own %v, distributed %v", c.Quorum.Own(), c.Quorum.Distributed())
	}
}

// manyServers are n participants.
func manyServers(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "server.%d=h%d:2888:3888\n", i, i)
	}
	return b.String()
}

// As many participants as there are votes are fine.
func TestMostVoters(t *testing.T) {
	var m Members
	for i := range int64(maxVoters) {
		m.Servers = append(m.Servers, Member{ID: i + 1})
	}
	l := loader{config: &Config{Quorum: Quorum{Members: m, StandaloneEnabled: true}}}
	if err := l.checkMembers(); err != nil {
		t.Error(err)
	}
}
