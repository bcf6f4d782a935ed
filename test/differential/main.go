// Command differential sends the same random requests to two ZooKeeper servers
// and compares every answer, Stat and event. The first is the oracle, Apache
// ZooKeeper 3.8.0 or 3.9.3. See README.md in this directory.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// options are the command line.
type options struct {
	a, b    string // addresses of running servers
	apache  bool
	release string
	pinfold string
	config  string
	seed    uint64
	seeds   int
	steps   int
	port    int
	dir     string
	replay  string
	shrink  bool
	restart bool
	words   bool
	verbose bool
	// coverage prints how often A answered what.
	coverage bool
	// different makes two Apaches be taken as of different releases.
	different bool
}

func main() {
	var o options
	flag.StringVar(&o.a, "a", "", "`address` of a running server A, the oracle; must be fresh")
	flag.StringVar(&o.b, "b", "", "`address` of a running server B")
	flag.BoolVar(&o.apache, "apache", false, "start Apache ZooKeeper as A; without -pinfold as B too")
	flag.StringVar(&o.release, "release", release38, "the oracle's release: 3.8, the installed one, or 3.9, which scripts/apache-release fetches")
	flag.StringVar(&o.pinfold, "pinfold", "", "`path` of the pinfold binary to start as B")
	flag.StringVar(&o.config, "config", "", "only this configuration: extended, plain or quota (default: each in turn)")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed")
	flag.IntVar(&o.seeds, "seeds", 3, "number of seeds")
	flag.IntVar(&o.steps, "steps", 2000, "steps of each seed")
	flag.IntVar(&o.port, "port", 27100, "first port of started servers; two are used")
	flag.StringVar(&o.dir, "dir", "", "`directory` for data and output of started servers (default: a temporary one)")
	flag.StringVar(&o.replay, "replay", "", "run the steps of this `file`, which an earlier run has written")
	flag.BoolVar(&o.shrink, "shrink", true, "shorten the steps that lead to a difference (started servers only)")
	flag.BoolVar(&o.restart, "restart", true, "at the end kill both servers, start them again and compare the trees once more (started servers only)")
	flag.BoolVar(&o.words, "words", true, "at the end compare the answers to srvr, mntr and dump")
	flag.BoolVar(&o.verbose, "v", false, "print every step")
	flag.BoolVar(&o.different, "different", false, "ask two Apaches only what servers of different releases are asked")
	flag.BoolVar(&o.coverage, "coverage", false, "at the end print how often A answered what")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "differential:", err)
		os.Exit(1)
	}
}

// errDiffers ends a run that has found a difference and printed it.
var errDiffers = errors.New("the servers differ")

func (o *options) run() error {
	if o.apache == (o.a != "") || o.a != "" && o.b == "" || o.a == "" && o.b != "" {
		return errors.New("give either -a and -b, or -apache")
	}
	if o.release != release38 && o.release != release39 {
		return fmt.Errorf("-release %s: neither %s nor %s", o.release, release38, release39)
	}
	if o.dir == "" {
		d, err := os.MkdirTemp("", "differential")
		if err != nil {
			return err
		}
		o.dir = d
		defer os.RemoveAll(d)
	} else if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	p := &processes{}
	defer p.killAll()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		p.killAll()
		os.Exit(130)
	}()
	used, seen := map[string]int{}, map[string]map[zk.Code]int{}
	if o.replay != "" {
		return o.replayFile(p)
	}
	for i := range o.seeds {
		seed := o.seed + uint64(i)
		cs := configurations()
		c := cs[seed%uint64(len(cs))]
		if o.config != "" {
			var err error
			if c, err = o.configuration(); err != nil {
				return err
			}
		}
		if err := o.one(p, seed, c, used, seen); err != nil {
			return err
		}
	}
	if o.coverage {
		fmt.Print(coverage(seen))
	}
	fmt.Print(report(used))
	return nil
}

func (o *options) configuration() (configuration, error) {
	for _, c := range configurations() {
		if c.name == o.config {
			return c, nil
		}
	}
	return configuration{}, fmt.Errorf("no configuration %q", o.config)
}

// processes are the servers that run, so that they end whatever happens.
type processes struct {
	mu   sync.Mutex
	list []*server
}

func (p *processes) add(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, s)
}

func (p *processes) killAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.list {
		s.kill()
	}
	p.list = nil
}

// pair tells what the two servers are to each other.
func (o *options) pair() pair {
	switch {
	case o.apache && o.pinfold == "" && !o.different:
		return alike
	case o.release == release39:
		return against39
	}
	return against38
}

// world starts or finds the two servers and connects to them. Started servers
// begin with empty directories unless keep is set.
func (o *options) world(p *processes, c configuration, keep bool) (*world, error) {
	addrA, addrB := o.a, o.b
	if o.apache {
		p.killAll()
		dirA, dirB := filepath.Join(o.dir, "a"), filepath.Join(o.dir, "b")
		if !keep {
			for _, d := range []string{dirA, dirB} {
				if err := os.RemoveAll(d); err != nil {
					return nil, err
				}
				if err := os.MkdirAll(d, 0o755); err != nil {
					return nil, err
				}
			}
		}
		var a, b *server
		var errA, errB error
		var wg sync.WaitGroup
		wg.Go(func() { a, errA = startApache(o.release, dirA, o.port, c) })
		wg.Go(func() {
			if o.pinfold != "" {
				b, errB = startPinfold(o.pinfold, dirB, o.port+1, c)
			} else {
				b, errB = startApache(o.release, dirB, o.port+1, c)
			}
		})
		wg.Wait()
		for _, s := range []*server{a, b} {
			if s != nil {
				p.add(s)
			}
		}
		if err := errors.Join(errA, errB); err != nil {
			return nil, err
		}
		addrA, addrB = a.addr, b.addr
	}
	a, err := newSide("A", addrA, superPassword)
	if err != nil {
		return nil, err
	}
	b, err := newSide("B", addrB, superPassword)
	if err != nil {
		a.close()
		return nil, err
	}
	return newWorld(a, b, o.pair()), nil
}

// one runs a seed.
func (o *options) one(p *processes, seed uint64, c configuration, used map[string]int, seen map[string]map[zk.Code]int) error {
	began := time.Now()
	w, err := o.world(p, c, false)
	if err != nil {
		return err
	}
	w.used, w.seen = used, seen
	started := time.Now()
	g := newGenerator(seed, w.pairing)
	g.quota = c.name == "quota"
	var steps []step
	var diff *difference
	for range o.steps {
		s := g.next()
		steps = append(steps, s)
		if o.verbose {
			fmt.Printf("%5d  %v\n", len(steps), s)
		}
		var got map[string][]item
		if got, diff = w.step(&s); diff != nil {
			break
		}
		g.learn(&s, got, w.a.last-w.a.base)
	}
	took := time.Since(started)
	nodes := 0
	if diff == nil {
		diff, nodes, err = o.finish(p, w, c)
		if err != nil {
			return err
		}
	}
	w.a.close()
	w.b.close()
	if diff != nil {
		return o.differs(p, seed, c, steps, diff)
	}
	fmt.Printf("seed %d config %-8s  %d steps, %d zxids, %d znodes: equal  (%.0f steps/s, start %.1fs)\n",
		seed, c.name, len(steps), w.a.last-w.a.base, nodes, float64(len(steps))/took.Seconds(), started.Sub(began).Seconds())
	return nil
}

// finish compares the trees and counts, and the trees again after both servers
// were killed and started.
func (o *options) finish(p *processes, w *world, c configuration) (*difference, int, error) {
	diff, nodes := w.compareTrees()
	if diff == nil && o.words {
		diff = w.compareWords()
	}
	if diff != nil || !o.restart || !o.apache {
		return diff, nodes, nil
	}
	v, err := o.world(p, c, true)
	if err != nil {
		return nil, 0, err
	}
	defer v.a.close()
	defer v.b.close()
	// The sessions and the start of the run are those of before.
	v.a.base, v.b.base, v.used = w.a.base, w.b.base, w.used
	for id, n := range w.a.ids {
		v.a.ids[id] = n
	}
	for id, n := range w.b.ids {
		v.b.ids[id] = n
	}
	diff, nodes = v.compareTrees()
	if diff != nil {
		diff.where = "after a restart: " + diff.where
	}
	return diff, nodes, nil
}

// differs prints a difference, stores the steps, and tries to shorten them.
func (o *options) differs(p *processes, seed uint64, c configuration, steps []step, d *difference) error {
	fmt.Printf("seed %d config %s: the servers differ at step %d\n%v", seed, c.name, len(steps), d)
	fmt.Println("the last steps:")
	const shown = 20
	for i := max(0, len(steps)-shown); i < len(steps); i++ {
		fmt.Printf("  %5d  %v\n", i+1, steps[i])
	}
	fmt.Printf("again: go run ./test/differential %s -config %s -seed %d -seeds 1 -steps %d\n", o.servers(), c.name, seed, len(steps))
	if !o.shrink || !o.apache {
		return errDiffers
	}
	short, sd := o.shorten(p, c, steps, d)
	name := filepath.Join(os.TempDir(), fmt.Sprintf("differential-%d-%s.json", seed, c.name))
	b, err := json.MarshalIndent(short, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		return err
	}
	fmt.Printf("\nshortened to %d steps:\n", len(short))
	for i, s := range short {
		fmt.Printf("  %5d  %v\n", i+1, s)
	}
	fmt.Printf("%vagain: go run ./test/differential %s -config %s -replay %s\n", sd, o.servers(), c.name, name)
	return errDiffers
}

// servers is the part of the command line that says which servers.
func (o *options) servers() string {
	release := "-release " + o.release
	if !o.apache {
		return fmt.Sprintf("%s -a %s -b %s", release, o.a, o.b)
	}
	if o.pinfold != "" {
		return release + " -apache -pinfold " + o.pinfold
	}
	return release + " -apache"
}

// replayFile runs the steps of a file.
func (o *options) replayFile(p *processes) error {
	b, err := os.ReadFile(o.replay)
	if err != nil {
		return err
	}
	var steps []step
	if err := json.Unmarshal(b, &steps); err != nil {
		return fmt.Errorf("%s: %w", o.replay, err)
	}
	c := configurations()[0]
	if o.config != "" {
		if c, err = o.configuration(); err != nil {
			return err
		}
	}
	d, at, err := o.again(p, c, steps, true)
	if err != nil {
		return err
	}
	if d == nil {
		fmt.Println("equal")
		return nil
	}
	fmt.Printf("step %d: %v\n%v", at+1, strings.TrimSpace(steps[min(at, len(steps)-1)].String()), d)
	return errDiffers
}
