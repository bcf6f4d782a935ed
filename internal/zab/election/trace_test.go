package election

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestTraces runs the golden traces of testdata: elections on a network that
// takes 1 ms for every message. An owner settles on every result at once. The
// commands are
//
//	servers voters=(1,2,3) [observers=(4)] [weightless=(3)] [patient]
//	                               a new ensemble; patient waits as Apache does
//	look id=1 [zxid=5] [epoch=1]   starts a server, or makes it leave its role
//	kill ids=(3) [silent]          ends processes; links are reset unless silent
//	unreachable id=1 voter=3       one link of them
//	reachable id=1 voter=3
//	reign leader=3 epoch=2 ids=(1,2,3)   discovery has fixed the epoch
//	cut from=(1) to=(2,3)          a partition, without resets
//	heal                           ends it
//	say from=3 to=1 LEADING leader=3 zxid=5 epoch=1 election=4   an old message
//	run for=10ms                   lets time pass, which look and so on do not
//
// A zxid is a counter in the epoch. "1 -> 2,3: …" is sent, "2 lost" to nobody;
// "1 LEADING …" is the result of an election.
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		tr := &trace{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return tr.run(d)
		})
	})
}

type trace struct {
	t   *testing.T
	c   *cluster
	out strings.Builder
}

func (tr *trace) run(d *datadriven.TestData) string {
	tr.out.Reset()
	switch d.Cmd {
	case "servers":
		tr.servers(d)
	case "look":
		tr.look(d)
	case "kill":
		for _, id := range ids(d, "ids") {
			tr.c.kill(tr.c.servers[id])
		}
		if !d.HasArg("silent") {
			tr.c.tellLinks()
		}
	case "unreachable", "reachable":
		tr.link(d)
	case "reign":
		tr.reign(d)
	case "cut":
		for _, a := range ids(d, "from") {
			for _, b := range ids(d, "to") {
				tr.c.cut[[2]int64{a, b}], tr.c.cut[[2]int64{b, a}] = true, true
			}
		}
	case "heal":
		clear(tr.c.cut)
	case "say":
		tr.say(d)
	case "run":
		var span string
		d.ScanArgs(tr.t, "for", &span)
		pause, err := time.ParseDuration(span)
		if err != nil {
			d.Fatalf(tr.t, "%v", err)
		}
		tr.c.run(tr.c.now + pause)
	default:
		d.Fatalf(tr.t, "no such command")
	}
	for _, b := range tr.c.broken {
		d.Fatalf(tr.t, "%s", b)
	}
	return tr.out.String()
}

// ids returns the values of an argument as server ids.
func ids(d *datadriven.TestData, name string) []int64 {
	var out []int64
	for _, a := range d.CmdArgs {
		if a.Key != name {
			continue
		}
		for _, v := range a.Vals {
			id, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				panic(fmt.Sprintf("%s: %v", d.Pos, err))
			}
			out = append(out, id)
		}
	}
	return out
}

func (tr *trace) servers(d *datadriven.TestData) {
	weights, groups := map[int64]int64{}, map[int64]int64{}
	for _, id := range ids(d, "voters") {
		groups[id] = 1
	}
	for _, id := range ids(d, "weightless") {
		weights[id] = 0
	}
	system, err := quorum.Weighted(weights, groups)
	if err != nil {
		d.Fatalf(tr.t, "%v", err)
	}
	tr.c = newCluster(system)
	tr.c.on = func(line string) {
		fmt.Fprintf(&tr.out, "%v %s\n", tr.c.now, line)
	}
	observers := ids(d, "observers")
	for _, id := range append(ids(d, "voters"), observers...) {
		tr.c.servers[id] = &server{cfg: Config{
			ID: id, Electorate: Electorate{System: system, Observer: !system.Voter(id)}, EarlyFinish: !d.HasArg("patient"),
		}}
	}
}

func (tr *trace) look(d *datadriven.TestData) {
	var id, counter int64
	d.ScanArgs(tr.t, "id", &id)
	s := tr.c.servers[id]
	d.MaybeScanArgs(tr.t, "epoch", &s.epoch)
	if d.MaybeScanArgs(tr.t, "zxid", &counter) {
		s.last = zk.MakeZxid(uint32(s.epoch), uint32(counter))
	}
	if s.e == nil {
		tr.c.start(s)
		return
	}
	tr.c.look(s)
}

func (tr *trace) link(d *datadriven.TestData) {
	var id, voter int64
	d.ScanArgs(tr.t, "id", &id)
	d.ScanArgs(tr.t, "voter", &voter)
	tr.c.do(tr.c.servers[id], func(e *Election) {
		if d.Cmd == "reachable" {
			e.Reachable(voter)
		} else {
			e.Unreachable(voter)
		}
	})
}

func (tr *trace) reign(d *datadriven.TestData) {
	var leader, epoch int64
	d.ScanArgs(tr.t, "leader", &leader)
	d.ScanArgs(tr.t, "epoch", &epoch)
	for _, id := range ids(d, "ids") {
		s := tr.c.servers[id]
		s.epoch = epoch
		tr.c.do(s, func(e *Election) { e.Settle(e.State(), leader, epoch) })
	}
}

func (tr *trace) say(d *datadriven.TestData) {
	var from, to, counter int64
	n := Notification{}
	d.ScanArgs(tr.t, "from", &from)
	d.ScanArgs(tr.t, "to", &to)
	d.ScanArgs(tr.t, "leader", &n.Leader)
	d.ScanArgs(tr.t, "zxid", &counter)
	d.ScanArgs(tr.t, "epoch", &n.PeerEpoch)
	d.ScanArgs(tr.t, "election", &n.ElectionEpoch)
	n.Zxid = zk.MakeZxid(uint32(n.PeerEpoch), uint32(counter))
	for s := Looking; s <= Observing; s++ {
		if d.HasArg(s.String()) {
			n.State = s
		}
	}
	tr.c.inject(tr.c.now+ms, from, to, nil, n.Append(nil))
}
