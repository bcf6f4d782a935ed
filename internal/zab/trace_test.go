package zab

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// Golden traces: testdata/traces says what is done to servers, and what they do
// then. A server that is played says only what the script has it say: it may be
// another implementation, or break the protocol.
//
//	cluster voters=N [observers=N window=N factor=F limit=COUNTER forcesnap]
//	disk ID... accepted=E current=E log=(<e,c>..<e,c>,...) [snapshot=<e,c>]
//	start ID...        play ID...        crash ID         cut ID ID
//	elect LEADER       the played voters have elected it; the others hear of it
//	leads ID with=(ID,...)   all that before it serves, with played followers; the
//	                         output is left out
//	connect ID to=ID   a played server connects
//	say from=ID to=ID [old]  a played server sends the packets of the input, one a line,
//	                         on its newest link, or on its oldest
//	run                everything on its way arrives, disks write, until all is quiet
//	hold disk=ID | from=ID to=ID, free ...    a disk or a direction stands still
//	propose ID n=N     sync ID       tick D [last=N]: the last N lines are shown
//	pings              are shown from here on
//
// go test ./internal/zab -run TestTraces -rewrite writes the output anew.
func TestTraces(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "traces"), func(t *testing.T, path string) {
		x := &traced{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			x.out.Reset()
			x.command(t, d)
			if x.cluster != nil && x.violation != nil {
				d.Fatalf(t, "%v", x.violation)
			}
			if x.out.Len() == 0 {
				return "-\n"
			}
			return x.out.String()
		})
	})
}

// traced is a cluster that a script drives.
type traced struct {
	*cluster
	out      strings.Builder
	played   map[int64]bool
	heldDisk map[int64]bool
	held     map[[2]int64]bool
	pings    bool
	onOldest bool // says uses the oldest link of two servers
}

func (x *traced) begin(t *testing.T, d *datadriven.TestData) {
	voters, observers := 3, 0
	cfg := Config{Tick: 100 * ms, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33, ForceSnap: d.HasArg("forcesnap")}
	limit := 0
	d.MaybeScanArgs(t, "voters", &voters)
	d.MaybeScanArgs(t, "observers", &observers)
	d.MaybeScanArgs(t, "window", &cfg.Window)
	d.MaybeScanArgs(t, "limit", &limit)
	if s := argument(d, "factor"); s != "" {
		cfg.SizeFactor = must(strconv.ParseFloat(s, 64))
	}
	cfg.LastCounter = uint32(limit)
	x.cluster = newCluster(voters, observers, cfg)
	x.check.lenient = true
	x.played, x.heldDisk, x.held = map[int64]bool{}, map[int64]bool{}, map[[2]int64]bool{}
	x.trace = func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if x.pings || !strings.Contains(line, "PING") {
			fmt.Fprintln(&x.out, line)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func argument(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return ""
}

func (x *traced) id(text string) *server { return x.servers[must(strconv.Atoi(text))] }

// named returns the servers that the arguments without a value name.
func (x *traced) named(d *datadriven.TestData) (list []*server) {
	for _, a := range d.CmdArgs {
		if _, err := strconv.Atoi(a.Key); err == nil && len(a.Vals) == 0 {
			list = append(list, x.id(a.Key))
		}
	}
	return list
}

func (x *traced) command(t *testing.T, d *datadriven.TestData) {
	switch {
	case d.Cmd == "cluster":
		x.begin(t, d)
		return
	case d.Cmd == "say":
		x.onOldest = d.HasArg("old")
		x.says(t, d.Input, x.id(argument(d, "from")), x.id(argument(d, "to")))
		return
	case x.common(t, d):
		return
	}
	switch d.Cmd {
	case "elect":
		x.elect(x.id(d.CmdArgs[0].Key).id)
	case "leads":
		x.leads(t, x.named(d)[0], strings.Split(argument(d, "with"), ","))
	case "connect":
		s := x.named(d)[0]
		s.dial(x.id(argument(d, "to")).id)
	case "run":
		x.run()
	case "hold", "free":
		on := d.Cmd == "hold"
		if disk := argument(d, "disk"); disk != "" {
			x.heldDisk[x.id(disk).id] = on
			break
		}
		x.held[[2]int64{x.id(argument(d, "from")).id, x.id(argument(d, "to")).id}] = on
	case "propose":
		n := 1
		d.MaybeScanArgs(t, "n", &n)
		x.named(d)[0].propose(n)
	case "sync":
		x.named(d)[0].sync()
	case "tick":
		x.tick(must(time.ParseDuration(d.CmdArgs[0].Key)))
		if n := argument(d, "last"); n != "" {
			lines := strings.SplitAfter(x.out.String(), "\n")
			x.out.Reset()
			x.out.WriteString(strings.Join(lines[max(0, len(lines)-1-must(strconv.Atoi(n))):], ""))
		}
	case "pings":
		x.pings = true
	default:
		d.Fatalf(t, "unknown command %q", d.Cmd)
	}
}

// common does what is done to servers as a whole.
func (x *traced) common(t *testing.T, d *datadriven.TestData) bool {
	switch d.Cmd {
	case "disk":
		var accepted, current int
		d.ScanArgs(t, "accepted", &accepted)
		d.ScanArgs(t, "current", &current)
		for _, s := range x.named(d) {
			s.disk.accepted, s.disk.current = uint32(accepted), uint32(current)
			s.disk.history = x.entries(argument(d, "log"))
			if z := argument(d, "snapshot"); z != "" {
				s.disk.logStart = zxidOf(z)
			}
		}
	case "start":
		for _, s := range x.named(d) {
			x.start(s)
		}
	case "play":
		for _, s := range x.named(d) {
			x.played[s.id] = true
		}
	case "crash":
		s := x.named(d)[0]
		s.crash(0, 0)
		for _, o := range x.servers[1:] {
			if o.core != nil {
				o.core.PeerDown(x.now, s.id)
				o.drive()
			}
		}
	case "cut":
		a, b := x.named(d)[0], x.named(d)[1]
		for _, l := range slices.Clone(x.links) {
			if l.has(a) && l.has(b) {
				l.cut()
			}
		}
	default:
		return false
	}
	return true
}

// entries reads <e,first>..<e,last> and single ones.
func (x *traced) entries(text string) (es []Entry) {
	for _, part := range strings.Fields(strings.ReplaceAll(text, ">,<", "> <")) {
		first, last, more := strings.Cut(part, "..")
		a := zxidOf(first)
		b := a
		if more {
			b = zxidOf(last)
		}
		for ; a <= b; a++ {
			e := Entry{a, binary.BigEndian.AppendUint64(nil, uint64(a))}
			es = append(es, e)
			x.check.proposed[a] = e.Data
		}
	}
	return es
}

func zxidOf(text string) zk.Zxid {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return zk.Zxid(v)
	}
	e, c, ok := strings.Cut(strings.Trim(text, "<>"), ",")
	if !ok {
		panic("not a zxid: " + text)
	}
	return zk.MakeZxid(uint32(must(strconv.ParseUint(e, 10, 32))), uint32(must(strconv.ParseUint(c, 10, 32))))
}

// elect makes a server the leader, by the word of the played ones.
func (x *traced) elect(leader int64) {
	for _, s := range x.servers[1:] {
		for _, o := range x.servers[1:] {
			if s.core == nil || !x.played[o.id] {
				continue
			}
			n := election.Notification{From: o.id, State: election.Looking, Leader: leader, Zxid: s.core.last, PeerEpoch: int64(s.core.currentEpoch),
				ElectionEpoch: s.core.election.ElectionEpoch(), Version: 2}
			if leader != s.id {
				n.State = election.Following
				if o.id == leader {
					n.State = election.Leading
				}
			}
			s.core.Notification(x.now, n)
			s.drive()
		}
	}
}

// leads has a server lead, with played followers that have its history.
func (x *traced) leads(t *testing.T, s *server, followers []string) {
	x.start(s)
	x.elect(s.id)
	for _, f := range followers {
		if f = strings.TrimSpace(f); f == "" {
			continue
		}
		x.id(f).dial(s.id)
		x.run()
		x.says(t, fmt.Sprintf("FOLLOWERINFO epoch %d", s.disk.accepted), x.id(f), s)
	}
	x.run()
	for _, line := range []string{fmt.Sprintf("ACKEPOCH current %d last %s", s.disk.current, pair(s.disk.last())), "ACK epoch " + fmt.Sprint(s.disk.accepted)} {
		for _, f := range followers {
			if f != "" {
				x.says(t, line, x.id(strings.TrimSpace(f)), s)
			}
		}
		x.run()
	}
	x.out.Reset()
	fmt.Fprintf(&x.out, "%d: serves %v, epoch %d, log to %s\n", s.id, s.serving, s.epoch, pair(s.core.last))
}

func (x *traced) start(s *server) {
	if s.core != nil {
		return
	}
	s.start()
	for _, o := range x.servers[1:] {
		if o.core != nil && o != s {
			o.core.PeerUp(x.now, s.id)
			o.drive()
		}
	}
}

// says has a played server send packets.
func (x *traced) says(t *testing.T, input string, from, to *server) {
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		var l *wire
		for _, k := range x.links {
			if k.has(from) && k.has(to) && k.up && !k.down[0] && !k.down[1] && (l == nil || !x.onOldest) {
				l = k
			}
		}
		if l == nil {
			fmt.Fprintf(&x.out, "%d -> %d: there is no link\n", from.id, to.id)
			return
		}
		p := parsePacket(t, from.id, line)
		if (p.Type == Proposal || p.Type == Inform) && x.check.proposed[p.Zxid] == nil {
			x.check.proposed[p.Zxid] = p.Data
		}
		x.say("%d -> %d: %v", from.id, to.id, describe(&p))
		to.core.Step(x.now, l.ids[l.end(to)], []Packet{p})
		to.drive()
	}
}

// parsePacket reads a packet as describe prints it, and more: "data=N" has N
// bytes, "id=N" is who it says it is, "version=N" its configuration.
func parsePacket(t *testing.T, from int64, line string) (p Packet) {
	words := strings.Fields(line)
	p.Type = PacketType(slices.Index(packetNames[:], words[0]))
	if p.Type < 1 {
		t.Fatalf("no packet: %q", line)
	}
	info := infoOf(from, 0)
	switch p.Type {
	case FollowerInfo, ObserverInfo:
		p.Data = info.Data
	case Proposal, Inform:
		p.Data = []byte("x")
	case UpToDate:
		p.Zxid = -1
	}
	for i := 1; i < len(words); i++ {
		key, value, ok := strings.Cut(words[i], "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case ok && err != nil:
			t.Fatalf("%q in %q", words[i], line)
		case key == "data":
			p.Data = make([]byte, n)
		case key == "id":
			binary.BigEndian.PutUint64(p.Data, uint64(n))
		case key == "version":
			binary.BigEndian.PutUint64(p.Data[12:], uint64(n))
		case key == "epoch":
			i++
			p.Zxid = zk.MakeZxid(uint32(must(strconv.ParseUint(words[i], 10, 32))), 0)
		case key == "current":
			i++
			p.Data = binary.BigEndian.AppendUint32(nil, uint32(int32(must(strconv.Atoi(words[i])))))
		case key == "last":
		default:
			p.Zxid = zxidOf(words[i])
		}
	}
	return p
}

// run lets everything happen that can without the time going on.
func (x *traced) run() {
	for x.once() {
	}
}

// once lets one thing happen: what is on the network before what is on a disk,
// in the order of ids; false means there is nothing.
func (x *traced) once() bool {
	for from, n := range x.notes {
		for to := range n {
			if n[to] != nil {
				x.note(int64(from), int64(to), false)
				return true
			}
		}
	}
	for _, l := range x.links {
		if a, b := l.ends[0], l.ends[1]; !l.up && !x.held[[2]int64{a.id, b.id}] {
			x.connect(l)
			return true
		} else if !l.up {
			continue
		}
		for e, s := range l.ends {
			other := l.ends[1-e]
			switch {
			case x.held[[2]int64{other.id, s.id}]:
			case x.played[s.id] && len(l.to[e]) > 0:
				l.to[e] = nil
			case len(l.to[e]) > 0 && !l.down[e]:
				l.next(e, 1)
				return true
			case l.down[1-e]:
				l.next(e, 1)
				return true
			}
		}
	}
	for _, s := range x.servers[1:] {
		switch {
		case s.core == nil:
		case len(s.writes) > 0 && !x.heldDisk[s.id]:
			s.persist(1)
			return true
		case s.applied < s.commit:
			s.apply(s.commit)
			return true
		case len(s.lookups) > 0:
			s.locate()
			return true
		}
	}
	return false
}

// connect is wire.connect, where a played server may be at an end.
func (x *traced) connect(l *wire) {
	if !x.played[l.ends[0].id] && !x.played[l.ends[1].id] {
		l.connect()
		return
	}
	l.up = true
	for e := 1; e >= 0; e-- {
		if s := l.ends[e]; s.core != nil {
			s.core.LinkUp(x.now, l.ids[e])
			s.drive()
		}
	}
}

// tick lets time pass, in steps of a millisecond, and everything happen.
func (x *traced) tick(d time.Duration) {
	for end := x.now + d; x.now < end; {
		x.now += ms
		for _, s := range x.servers[1:] {
			if s.core != nil && s.core.Deadline() <= x.now {
				s.tick()
			}
		}
		x.run()
	}
}
