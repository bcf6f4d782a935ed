package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/choices"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	peersSeeds = flag.Uint64("peers-seeds", 100, "TestPeerPortsAtRandom: how many inputs")
	peersFrom  = flag.Uint64("peers-from", 0, "TestPeerPortsAtRandom: the first seed")

	peersAnswered = flag.Bool("peers-impostor", false, "TestPeerPortsAtRandom, FuzzPeerPorts: the stranger leads or follows in the name of server 3")
)

// peersMode is which members run while the stranger acts.
type peersMode int

const (
	peersAlone    peersMode = iota // one server
	peersAll                       // three; the stranger comes when all serve
	peersFailing                   // three, which are stopped and started; the stranger is there from the start
	peersUsurped                   // two of three; the stranger has the ports of the third
	peersImpostor                  // one or two of three; the stranger answers in the name of the third
)

// strangeElection is where the stranger listens.
const strangeElection = "10.0.0.99:3888"

func quorumAddress(id int64) string   { return fmt.Sprintf("10.0.0.%d:2888", id) }
func electionAddress(id int64) string { return fmt.Sprintf("10.0.0.%d:3888", id) }
func clientAddress(id int64) string   { return fmt.Sprintf("10.0.0.%d:2181", id) }

// peersTick is the tickTime. A leader has initLimit ticks to synchronize a quorum.
const peersTick = 200 * time.Millisecond

// peersPatience is how long an honest majority may take until it serves a write, once
// nobody disturbs it.
const peersPatience = 20 * time.Second

// linksSettle is how long links take until they are what they stay without a stranger:
// of two that crossed in the election one is closed, attempts to reach a stranger end.
const linksSettle = 10 * time.Second

// peers is an ensemble under attack.
type peers struct {
	t        *testing.T
	mode     peersMode
	size     int64
	net      *peersNet
	in       *choices.Input
	nodes    map[int64]*peerNode
	disks    map[int64]vfs.FS
	stranger *peersStranger
	impostor *impostor                        // nil: the stranger is none
	more     func(id int64) map[string]string // settings of a server; nil: none
	written  []string                         // znodes whose creation was acknowledged
	tries    int
	trace    []string
}

type peerNode struct {
	*Node
	stop func() error
}

// runPeers interprets an input as the acts of a stranger on the peer ports of an
// ensemble, and checks that the ensemble serves.
func runPeers(t *testing.T, input []byte) { runPeersWith(t, input, *peersAnswered) }

// runPeersWith is runPeers with a stranger that is an impostor, or is not.
func runPeersWith(t *testing.T, input []byte, impostor bool) {
	in := choices.New(input[:min(len(input), 2<<10)])
	synctest.Test(t, func(t *testing.T) {
		p := &peers{
			t: t, in: in, net: newPeersNet(), size: 3, nodes: map[int64]*peerNode{}, disks: map[int64]vfs.FS{},
			mode: choices.Of(in, peersAll, peersAll, peersUsurped, peersFailing, peersAlone),
		}
		switch {
		case impostor:
			p.mode = peersImpostor
		case p.mode == peersAlone:
			p.size = 1
		}
		p.stranger = &peersStranger{net: p.net, in: in, last: p.last}
		err := p.run()
		p.stranger.leave()
		for id := range p.nodes {
			err = errors.Join(err, p.stop(id))
		}
		if err != nil {
			t.Errorf("mode %d: %v\n\t%s", p.mode, err, strings.Join(p.trace, "\n\t"))
		}
	})
}

func (p *peers) note(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf("%v: ", time.Now().Format("05.000"))+fmt.Sprintf(format, args...))
}

// last returns the latest transaction that a live server has applied.
func (p *peers) last() (z zk.Zxid) {
	for _, n := range p.nodes {
		z = max(z, n.Replica().LastApplied())
	}
	return z
}

func (p *peers) start(id int64) {
	p.note("%d starts", id)
	settings := map[string]string{
		"dataDir": "/data", "preAllocSize": "64", "clientPort": "2181", "tickTime": fmt.Sprint(peersTick.Milliseconds()),
		"initLimit": "10", "syncLimit": "5", "standaloneEnabled": "false", "snapCount": "30",
	}
	for i := range p.size {
		settings[fmt.Sprintf("server.%d", i+1)] = fmt.Sprintf("10.0.0.%d:2888:3888", i+1)
	}
	if p.more != nil {
		maps.Copy(settings, p.more(id))
	}
	source := config.Source{Settings: settings, ID: &id}
	cfg, _, err := source.Load()
	if err != nil {
		p.t.Fatal(err)
	}
	if p.disks[id] == nil {
		p.disks[id] = vfs.NewMem()
	}
	l, err := p.net.listen(clientAddress(id))
	if err != nil {
		p.t.Fatal(err)
	}
	n, stop := run(p.t, Options{Config: cfg, FS: p.disks[id], Listener: l, Listen: p.net.listen, Dial: p.net.dial})
	p.nodes[id] = &peerNode{n, stop}
}

func (p *peers) stop(id int64) error {
	p.note("%d stops", id)
	err := p.nodes[id].stop()
	delete(p.nodes, id)
	if err != nil {
		return fmt.Errorf("server %d: %w", id, err)
	}
	return nil
}

// run lets the stranger act; afterwards the honest servers must serve.
func (p *peers) run() error {
	p.stranger.listen(strangeElection, true)
	honest := p.size
	if p.mode == peersUsurped {
		honest = 2
		p.stranger.listen(quorumAddress(3), false)
		p.stranger.listen(electionAddress(3), true)
	}
	up := honest
	if p.mode == peersImpostor {
		honest, up = 2, 1
		p.impostor = p.stranger.impersonate()
	}
	for id := range up {
		p.start(id + 1)
	}
	calm := p.mode == peersAlone || p.mode == peersAll
	var roles string
	if calm {
		if err := p.serves(p.size, peersPatience); err != nil {
			return err
		}
		roles = p.roles()
		pass(linksSettle)
	}
	goroutines := runtime.NumGoroutine()
	for range 150 {
		if p.in.Done() {
			break
		}
		if err := p.step(calm); err != nil {
			return err
		}
	}
	if calm && p.roles() != roles {
		return fmt.Errorf("a role was lost: before %s, now %s", roles, p.roles())
	}
	return p.checkEnd(honest, calm, goroutines)
}

// step does one thing.
func (p *peers) step(calm bool) error {
	switch kind := p.in.N(32); {
	case kind < 24 && p.impostor != nil:
		p.note("%s", p.impostor.act())
		if p.in.N(4) == 0 {
			pass(50 * time.Millisecond)
		}
	case kind < 24:
		p.note("%s", p.stranger.act())
	case kind < 27:
		d := choices.Of(p.in, time.Millisecond, 50*time.Millisecond, 200*time.Millisecond, time.Second, 3*time.Second)
		p.note("%v pass", d)
		pass(d)
	case kind < 29 && (p.mode == peersFailing || p.mode == peersImpostor):
		id := int64(1 + p.in.N(3))
		if p.impostor != nil {
			id = choices.Of[int64](p.in, 2, 2, 1)
		}
		if p.nodes[id] == nil {
			p.start(id)
		} else if err := p.stop(id); err != nil {
			return err
		}
	case kind < 30 && calm:
		if err := p.serves(1, peersTick); err != nil {
			return err
		}
	}
	if p.in.N(4) > 0 {
		synctest.Wait()
	}
	for id, n := range p.nodes {
		select {
		case <-n.Replica().Failed():
			return fmt.Errorf("server %d has failed: %w", id, n.Replica().Failure())
		default:
		}
	}
	return nil
}

// checkEnd checks that the honest servers serve when the stranger has become silent, or
// has gone, and what they then hold. If servers were down while the stranger acted in
// their names, a majority need serve: a server whose epoch the stranger has led ahead can
// only follow the next leader.
func (p *peers) checkEnd(honest int64, calm bool, goroutines int) error {
	for id := range honest {
		if p.nodes[id+1] == nil {
			p.start(id + 1)
		}
	}
	if p.in.N(2) == 1 {
		p.note("the stranger leaves")
		p.stranger.leave()
	}
	serving := p.size/2 + 1
	if calm {
		serving = p.size
	}
	if err := p.serves(serving, peersPatience); err != nil {
		return err
	}
	p.note("the stranger leaves, if it is not gone")
	p.stranger.leave()
	if err := p.serves(serving, peersPatience); err != nil {
		return err
	}
	if e := p.last().Epoch(); e > 1<<30 {
		return fmt.Errorf("the epoch is %d", e)
	}
	if !calm {
		return nil
	}
	pass(linksSettle)
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<20)
		return fmt.Errorf("%d goroutines, %d before\n%s", n, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	return p.holds()
}

// pass lets virtual time pass, until all that comes of it is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// roles returns the mode and epoch of each server, once all have applied the same.
func (p *peers) roles() (s string) {
	synctest.Wait()
	for id := range p.size {
		if p.nodes[id+1] == nil {
			continue
		}
		r := p.nodes[id+1].Replica()
		s += fmt.Sprintf("%d: %v since %v in epoch %d; ", id+1, r.Mode(), r.Since(), r.LastApplied().Epoch())
	}
	return s
}

// serves waits until count servers are in service, and one has acknowledged a write.
func (p *peers) serves(count int64, patience time.Duration) error {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		serving := int64(0)
		for _, n := range p.nodes {
			if m := n.Replica().Mode(); m == replica.Leader || m == replica.Follower {
				serving++
			}
		}
		if serving >= count && p.write(began.Add(patience)) {
			p.note("a write is acknowledged after %v", time.Since(began))
			return nil
		}
		if time.Since(began) > patience {
			return fmt.Errorf("after %v %d servers serve, and no write is acknowledged; %s", patience, serving, p.roles())
		}
		pass(pause)
	}
}

// write creates a znode through any server that serves.
func (p *peers) write(until time.Time) bool {
	p.tries++
	path := fmt.Sprintf("/w%d", p.tries)
	for id := range p.size {
		c := p.connect(id+1, until)
		if c == nil {
			continue
		}
		r, err := c.Call(1, wire.OpCreate, frames.Create(path, []byte(path), zk.Persistent))
		if err == nil {
			_, err = c.Call(2, wire.OpCloseSession, nil)
		}
		c.Close()
		if err == nil && r.Err == zk.ErrNoAuth && p.impostor != nil {
			return true // a leader may have given the root another ACL
		}
		if err == nil && r.Err == zk.OK {
			p.written = append(p.written, path)
			return true
		}
	}
	return false
}

// connect returns a client's connection with a session; nil if there is none.
func (p *peers) connect(id int64, until time.Time) *frames.Conn {
	if n := p.nodes[id]; n == nil || !n.Replica().Mode().Writable() {
		return nil
	}
	nc, err := p.net.dial(context.Background(), clientAddress(id))
	if err != nil {
		return nil
	}
	_ = nc.SetDeadline(until) // never fails
	c := frames.New(nc)
	if answer, err := c.Connect(wire.ConnectRequest{TimeoutMillis: 4000, HasReadOnly: true}); err != nil || answer.SessionID == 0 {
		nc.Close()
		return nil
	}
	return c
}

// holds checks that every server has what was acknowledged, and a value for each metric of
// its links.
func (p *peers) holds() error {
	for id, n := range p.nodes {
		for _, m := range n.server.Metrics().Snapshot() {
			if m.Owner == "internal/transport" && len(m.Samples) != 1 {
				return fmt.Errorf("server %d: %s has %d values", id, m.Name, len(m.Samples))
			}
		}
		c := p.connect(id, time.Now().Add(peersPatience))
		if c == nil {
			return fmt.Errorf("server %d does not serve", id)
		}
		xid := int32(1)
		_, err := c.Call(xid, wire.OpSync, jute.AppendString(nil, "/"))
		for _, path := range p.written {
			if err != nil {
				break
			}
			var r frames.Reply
			xid++
			if r, err = c.Call(xid, wire.OpGetData, frames.Path(path, false)); err == nil && r.Err != zk.OK {
				err = fmt.Errorf("%s: %v", path, r.Err)
			}
		}
		c.Close()
		if err != nil {
			return fmt.Errorf("server %d: %w", id, err)
		}
	}
	return nil
}

// Whatever a stranger says on the peer ports, an ensemble whose members are all there
// keeps its roles and serves; other ensembles serve when the stranger is silent.
func TestPeerPortsAtRandom(t *testing.T) { peersAtRandom(t, *peersFrom, *peersSeeds, *peersAnswered) }

// The same with an impostor, which answers in the name of a server that is away.
func TestImpostorAtRandom(t *testing.T) { peersAtRandom(t, 0, 30, true) }

// peersAtRandom runs so many seeds, up to the first that fails.
func peersAtRandom(t *testing.T, from, seeds uint64, impostor bool) {
	seed := from
	defer func() { // a bubble that fails ends the test
		if t.Failed() {
			t.Logf("seed %d: go test ./internal/node -run TestPeerPortsAtRandom -peers-impostor=%v -peers-from %d -peers-seeds 1", seed, impostor, seed)
		}
	}()
	for ; seed < from+seeds; seed++ {
		runPeersWith(t, choices.Random(seed, 1<<10), impostor)
	}
}

// FuzzPeerPorts does what TestPeerPortsAtRandom does, with inputs that the fuzzer finds.
func FuzzPeerPorts(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(choices.Random(seed, 300))
	}
	f.Fuzz(runPeers)
}
