package transport

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// The tests in this file need Apache ZooKeeper 3.8.0:
//
//	go test -run Apache ./internal/transport -apache CLASSPATH [-apacheport N]
var (
	apacheClassPath = flag.String("apache", "", "class path of Apache ZooKeeper: run the tests that need it")
	apachePort      = flag.Int("apacheport", 31100, "the first of 40 ports for these tests")
)

// apachePorts are the ports of server id: client, quorum, election.
func apachePorts(id int64) (client, quorum, election int) {
	base := *apachePort + int(id)
	return base, base + 10, base + 20
}

func apachePeers() map[int64][]Address {
	peers := map[int64][]Address{}
	for id := int64(1); id <= 3; id++ {
		_, quorum, election := apachePorts(id)
		peers[id] = []Address{{"127.0.0.1", quorum, election}}
	}
	return peers
}

// startApache starts server id of three, and returns what ends it.
func startApache(t *testing.T, id int64, properties ...string) (kill func()) {
	t.Helper()
	dir := t.TempDir()
	client, _, _ := apachePorts(id)
	cfg := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%d\nadmin.enableServer=false\n4lw.commands.whitelist=*\n", dir, client)
	for sid := range int64(3) {
		_, quorum, election := apachePorts(sid + 1)
		cfg += fmt.Sprintf("server.%d=127.0.0.1:%d:%d\n", sid+1, quorum, election)
	}
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(cfg), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "myid"), fmt.Append(nil, id), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clone(properties), "-Xmx256m", "-Dzookeeper.jmx.log4j.disable=true",
		"-cp", *apacheClassPath, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	cmd := exec.Command("java", args...)
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		if cmd.ProcessState != nil {
			return
		}
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by our signal
		out.Close()
		if text, err := os.ReadFile(out.Name()); err == nil && t.Failed() {
			t.Logf("Apache %d said:\n%s", id, text)
		}
	}
	t.Cleanup(kill)
	return kill
}

// startBeside starts a Transport as server id, on the ports of that one.
func startBeside(t *testing.T, id int64) *node {
	t.Helper()
	_, quorum, election := apachePorts(id)
	return start(t, Options{
		ID: id, Peers: apachePeers(),
		QuorumListen:   []string{fmt.Sprintf("127.0.0.1:%d", quorum)},
		ElectionListen: []string{fmt.Sprintf("127.0.0.1:%d", election)},
		DialBudget:     30 * time.Second,
	})
}

func needApache(t *testing.T) {
	t.Helper()
	if *apacheClassPath == "" {
		t.Skip("needs -apache, the class path of Apache ZooKeeper")
	}
}

// vote is a notification (protocol page, section 12.2).
type vote struct {
	state               int32 // 0 LOOKING, 1 FOLLOWING, 2 LEADING
	leader, zxid        int64
	electionEpoch, peer int64 // epochs
	config              string
}

func (v vote) bytes() []byte {
	b := jute.AppendInt(nil, v.state)
	for _, n := range []int64{v.leader, v.zxid, v.electionEpoch, v.peer} {
		b = jute.AppendLong(b, n)
	}
	return jute.AppendString(jute.AppendInt(b, 2), v.config)
}

func readVote(t *testing.T, text string) vote {
	t.Helper()
	d := jute.NewDecoder([]byte(text))
	v := vote{state: d.Int(), leader: d.Long(), zxid: d.Long(), electionEpoch: d.Long(), peer: d.Long()}
	if version := d.Int(); version != 2 {
		t.Errorf("notification of version %d", version)
	}
	if v.config = d.String(); d.Err() != nil || d.Len() > 0 {
		t.Errorf("notification %x: %v, %d bytes more", text, d.Err(), d.Len())
	}
	return v
}

// awaitVote waits for a notification of a server that ok accepts. REQUIRES: the
// notifications are kept.
func (r *recorder) awaitVote(t *testing.T, from int64, what string, ok func(vote) bool) (v vote) {
	t.Helper()
	r.await(t, fmt.Sprintf("%s from %d", what, from), func() bool {
		return slices.ContainsFunc(r.notes[from], func(text string) bool {
			v = readVote(t, text)
			return ok(v)
		})
	})
	return v
}

// Two Apache servers and a Transport as the third: it hears them and they hear
// it, in both directions of connecting, and again after a restart of each.
func TestApacheElectionPort(t *testing.T) {
	needApache(t)
	killOne := startApache(t, 1)
	startApache(t, 3)
	n := startBeside(t, 2)

	// They ask us who we are for, when they look for a leader.
	for _, id := range []int64{1, 3} {
		v := n.awaitVote(t, id, "a vote", func(v vote) bool { return v.state == 0 })
		if !strings.Contains(v.config, "server.2=127.0.0.1:") {
			t.Errorf("server %d has the configuration %q", id, v.config)
		}
	}
	n.await(t, "both links", func() bool {
		return slices.Contains(n.events, "peer 1 up") && slices.Contains(n.events, "peer 3 up")
	})
	// They elect 3 without us. Asked, they tell.
	looking := vote{leader: 2, electionEpoch: 1}
	askUntil(t, n, 3, looking, func(v vote) bool { return v.state == 2 && v.leader == 3 })
	askUntil(t, n, 1, looking, func(v vote) bool { return v.state == 1 && v.leader == 3 })

	n.take()
	n.heard(1)
	killOne()
	n.await(t, "the loss of 1", func() bool { return slices.Contains(n.events, "peer 1 down") })
	startApache(t, 1)
	askUntil(t, n, 1, looking, func(v vote) bool { return v.state == 1 && v.leader == 3 })

	// And the other way round.
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = startBeside(t, 2)
	askUntil(t, n, 1, looking, func(v vote) bool { return v.state == 1 && v.leader == 3 })
	askUntil(t, n, 3, looking, func(v vote) bool { return v.state == 2 && v.leader == 3 })
	if lines := n.logged.refusals(); len(lines) > 0 {
		t.Errorf("refused: %q", lines)
	}
}

// askUntil sends a vote again and again until a server answers as it should.
func askUntil(t *testing.T, n *node, id int64, ask vote, ok func(vote) bool) {
	t.Helper()
	timeout := time.After(40 * time.Second)
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for {
		n.Notify(id, ask.bytes())
		for _, text := range n.heard(id) {
			if ok(readVote(t, text)) {
				return
			}
		}
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("server %d never answered; %q", id, n.take())
		}
	}
}

// streamReader makes an io.Reader of a SnapshotSource.
type streamReader struct{ s SnapshotSource }

func (r streamReader) Read(p []byte) (int, error) {
	b := r.s.Buffered()
	if len(b) == 0 {
		var err error
		if b, err = r.s.Fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, b)
	r.s.Discard(n)
	return n, nil
}

// readTree reads the stream of a snapshot (protocol page, section 11.5) and
// returns its paths.
func readTree(r io.Reader) (paths []string, err error) {
	var number [8]byte
	readInt := func() int {
		if err == nil {
			_, err = io.ReadFull(r, number[:4])
		}
		return int(int32(binary.BigEndian.Uint32(number[:])))
	}
	skip := func(n int) {
		if err == nil {
			_, err = io.CopyN(io.Discard, r, int64(n))
		}
	}
	readString := func() string {
		b := make([]byte, max(readInt(), 0))
		if err == nil {
			_, err = io.ReadFull(r, b)
		}
		return string(b)
	}
	skip(12 * readInt()) // sessions
	for range readInt() {
		skip(8)
		for range readInt() {
			skip(4)
			readString()
			readString()
		}
	}
	for err == nil {
		path := readString()
		if err != nil || path == "/" {
			return paths, err
		}
		paths = append(paths, path)
		skip(max(readInt(), 0))
		skip(8 + 60)
	}
	return paths, err
}

// answer has a learner do what a leader expects of it: acknowledge.
func answer(n *node) func(zab.LinkID, zab.Packet) {
	return func(l zab.LinkID, p zab.Packet) {
		switch p.Type {
		case zab.LeaderInfo:
			n.Send(l, []zab.Packet{{Type: zab.AckEpoch, Data: jute.AppendInt(nil, 0)}})
		case zab.NewLeader, zab.Proposal:
			n.Send(l, []zab.Packet{ack(p.Zxid)})
		case zab.Ping:
			n.Send(l, []zab.Packet{{Type: zab.Ping, Zxid: p.Zxid, Data: []byte{}}})
		}
	}
}

// A Transport follows an Apache leader: through discovery, a snapshot, and a
// thousand writes that it has asked for itself; then another link gets a
// snapshot with what was written.
func TestApacheLeader(t *testing.T) {
	needApache(t)
	for _, id := range []int64{1, 3} {
		startApache(t, id, "-Dzookeeper.forceSnapshotSync=true")
	}
	n := startBeside(t, 2)
	paths := map[zab.LinkID][]string{}
	n.guard.Lock()
	n.onPacket = answer(n)
	n.snapshot = func(l zab.LinkID, _ zk.Zxid, s SnapshotSource) (err error) {
		paths[l], err = readTree(streamReader{s})
		return err
	}
	n.guard.Unlock()
	askUntil(t, n, 3, vote{leader: 2, electionEpoch: 1}, func(v vote) bool { return v.state == 2 && v.leader == 3 })

	info := zab.Packet{Type: zab.FollowerInfo, Data: unhex(t, "0000000000000002 00010000 0000000000000000")}
	l := n.Dial(3, false)
	n.Send(l, []zab.Packet{info})
	awaitType(t, n, l, zab.UpToDate)
	if got := paths[l]; !slices.Equal(got, []string{"", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"}) {
		t.Errorf("the first snapshot holds %q", got)
	}

	// A session, and a thousand znodes of 1 KiB.
	const session, writes = 0x0200000000000007, 1000
	request := func(cxid, kind int32, body []byte) zab.Packet {
		b := jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, session), cxid), kind)
		return zab.Packet{Type: zab.Request, Zxid: -1, Data: append(b, body...), Auth: []zk.ID{{Scheme: "ip", ID: "127.0.0.1"}}}
	}
	ask := []zab.Packet{request(0, -10, jute.AppendInt(nil, 30000))}
	for i := range int32(writes) {
		body := jute.AppendString(nil, fmt.Sprintf("/node%04d", i))
		body = jute.AppendBuffer(body, make([]byte, 1024))
		body = jute.AppendInt(body, 1)
		body = jute.AppendInt(body, int32(zk.PermAll))
		body = jute.AppendInt(jute.AppendString(jute.AppendString(body, "world"), "anyone"), 0)
		ask = append(ask, request(i+1, 1, body))
	}
	n.Send(l, ask)
	n.await(t, "the commits", func() bool { return countType(n.packets[l], zab.Commit) > writes })
	if got := countType(n.got(l), zab.Proposal); got != writes+1 {
		t.Errorf("%d proposals", got)
	}

	second := n.Dial(3, false)
	n.Send(second, []zab.Packet{info})
	awaitType(t, n, second, zab.UpToDate)
	// What the leader has not applied yet follows the snapshot.
	var at zk.Zxid
	n.await(t, "all writes on the second link", func() bool {
		ps := n.packets[second]
		at = ps[slices.IndexFunc(ps, func(p zab.Packet) bool { return p.Type == zab.Snap })].Zxid
		return int(at.Counter())+countType(ps, zab.Commit) == writes+1
	})
	if got := paths[second]; len(got) < 4+int(at.Counter())-1 {
		t.Errorf("the snapshot at %v holds %d paths", at, len(got))
	}
	n.CloseLink(second, nil)
	if err := n.whyEnded(l); err != nil && !strings.Contains(err.Error(), "clos") {
		t.Errorf("the first link ended with %v", err)
	}
}

func countType(ps []zab.Packet, kind zab.PacketType) (n int) {
	for _, p := range ps {
		if p.Type == kind {
			n++
		}
	}
	return n
}

func awaitType(t *testing.T, n *node, l zab.LinkID, kind zab.PacketType) {
	t.Helper()
	n.await(t, fmt.Sprint(kind), func() bool {
		if err := n.ended[l]; err != nil {
			t.Fatalf("waiting for %v, the link ended with %v after %v", kind, err, n.packets[l])
		}
		return countType(n.packets[l], kind) > 0
	})
}

// An Apache server follows a Transport that has won its vote: it takes a
// snapshot from a stream, and committed transactions from another.
func TestApacheFollower(t *testing.T) {
	needApache(t)
	startApache(t, 1)
	n := startBeside(t, 2)
	const epoch, proposals = 5, 5000
	heard := n.awaitVote(t, 1, "its vote", func(v vote) bool { return v.state == 0 })
	n.Notify(1, vote{leader: 2, zxid: 1, electionEpoch: heard.electionEpoch, peer: heard.peer}.bytes())

	l := n.awaitLink(t, 0)
	info := n.awaitPackets(t, l, 1)[0]
	if info.Type != zab.FollowerInfo || len(info.Data) != 20 || info.Data[7] != 1 || info.Auth != nil {
		t.Errorf("its first packet is %v %x", info, info.Data)
	}
	n.Send(l, []zab.Packet{{Type: zab.LeaderInfo, Zxid: zk.MakeZxid(epoch, 0), Data: jute.AppendInt(nil, zab.ProtocolVersion)}})
	if p := n.awaitPackets(t, l, 2)[1]; p.Type != zab.AckEpoch || len(p.Data) != 4 {
		t.Errorf("its second packet is %v %x", p, p.Data)
	}
	last := zk.MakeZxid(1, 1)
	n.Send(l, []zab.Packet{{Type: zab.Snap, Zxid: last}})
	n.Stream(l, func(w io.Writer) error {
		b := jute.AppendInt(jute.AppendInt(nil, 0), 0)
		for _, path := range []string{"", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			b = jute.AppendBuffer(jute.AppendString(b, path), []byte{})
			b = append(jute.AppendLong(b, -1), make([]byte, 60)...)
		}
		_, err := w.Write(append(jute.AppendString(b, "/"), signature...))
		return err
	})
	n.Stream(l, func(w io.Writer) error {
		var b []byte
		for i := range uint32(proposals) {
			z := zk.MakeZxid(2, i+1)
			// An error transaction: client, cxid, zxid, time, type, code.
			data := jute.AppendInt(jute.AppendLong(nil, 7), 0)
			data = jute.AppendLong(jute.AppendLong(data, int64(z)), 1)
			data = jute.AppendInt(jute.AppendInt(data, -1), int32(zk.ErrNoNode))
			b = AppendPacket(b[:0], proposal(z, data))
			b = AppendPacket(b, zab.Packet{Type: zab.Commit, Zxid: z})
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
		return nil
	})
	n.Send(l, []zab.Packet{{Type: zab.NewLeader, Zxid: zk.MakeZxid(epoch, 0)}})
	n.await(t, "the acknowledgement of NEWLEADER", func() bool {
		return slices.ContainsFunc(n.packets[l], func(p zab.Packet) bool { return p.Type == zab.Ack && p.Zxid == zk.MakeZxid(epoch, 0) })
	})
	n.Send(l, []zab.Packet{{Type: zab.UpToDate, Zxid: -1}})

	client, _, _ := apachePorts(1)
	timeout := time.After(20 * time.Second)
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		n.Send(l, []zab.Packet{{Type: zab.Ping}})
		srvr := fourLetters(client, "srvr")
		if strings.Contains(srvr, "Mode: follower") && strings.Contains(srvr, "Zxid: "+zk.MakeZxid(2, proposals).String()+"\n") {
			return
		}
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("srvr says %q; %v", srvr, n.whyEnded(l))
		}
	}
}

// fourLetters asks a server, and returns "" if it does not answer.
func fourLetters(port int, word string) string {
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return ""
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, word); err != nil {
		return ""
	}
	b, err := io.ReadAll(nc)
	if err != nil {
		return ""
	}
	return string(b)
}
