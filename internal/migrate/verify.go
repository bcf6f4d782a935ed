package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrDiffer is the error of a verification that has found a difference.
var ErrDiffer = errors.New("the members differ")

// A Report is what a verification has found. It is complete without the program's output.
type Report struct {
	Began   time.Time        `json:"began"`
	Ended   time.Time        `json:"ended"`
	Members []ReportedMember `json:"members"`
	Znodes  int              `json:"znodes"`  // that were compared
	Changed int              `json:"changed"` // of them changed meanwhile, and were compared again

	// Unreadable is the znodes that no member has let this session read: their Stats, data
	// and ACLs were not compared.
	Unreadable int          `json:"unreadable"`
	Undecided  []string     `json:"undecided"` // changed so often that no common zxid was found
	Differ     []Difference `json:"differences"`
	More       int          `json:"more_differences"` // that are not in Differ
	Config     string       `json:"configuration"`    // /zookeeper/config of the first member that has it
	Digests    Digests      `json:"digests"`
	Sessions   Sessions     `json:"sessions"`
}

// A ReportedMember is what a member was when the verification began.
type ReportedMember struct {
	ID      int64  `json:"id"`
	Client  string `json:"client"`
	Version string `json:"version"`
	Mode    string `json:"mode"`
	Zxid    string `json:"zxid"`
}

// A Difference is a znode that two members have differently at one zxid.
type Difference struct {
	Path string `json:"path"`
	At   string `json:"at"` // a zxid, of the reading of the second member
	A    int64  `json:"a"`  // the members
	B    int64  `json:"b"`
	What string `json:"what"`
}

const (
	batch    = 200 // znodes that are read at once
	maxShown = 1000
	// settleTimes is how often a znode that changes is read for a common zxid.
	settleTimes = 100
)

// A verification compares the members.
type verification struct {
	e       Ensemble
	readers []*reader
	report  *Report
	say     func(string)
	told    time.Time
}

// Verify compares all znodes of all members, with their data, ACLs, Stats and children, while
// clients may write. A znode that two members show differently is read again, until both have
// shown the same state of it, or one has shown the same before and after the other showed
// another one: the members differ at a common zxid then. Znodes that are created meanwhile
// may be left out. Then the lists of the members' sessions are compared, as far as members answer
// dump. adminPort returns the port of a member's administration server, 0 for none:
// their digests of the trees are compared, too.
func Verify(ctx context.Context, e Ensemble, c *Config, adminPort func(id int64) int, say func(string)) (r *Report, err error) {
	v := &verification{e: e, report: &Report{Began: time.Now().UTC(), Undecided: []string{}, Differ: []Difference{}}, say: say, told: time.Now()}
	defer func() {
		for _, r := range v.readers {
			err = errors.Join(err, r.c.Close())
		}
	}()
	for _, m := range c.Members {
		s := ask(ctx, e, m)
		if s.Err != nil {
			return nil, fmt.Errorf("server %d %v", m.ID, s)
		}
		v.report.Members = append(v.report.Members, ReportedMember{m.ID, m.Client, s.Version, s.Mode, s.Zxid.String()})
		session, err := e.Dial(ctx, "", client.Hosts(&preferring{members: []Member{m}}), client.NewSession())
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", m.ID, err)
		}
		v.readers = append(v.readers, &reader{m, session})
	}
	if err := v.walk(ctx); err != nil {
		return nil, err
	}
	if err := v.config(ctx); err != nil {
		return nil, err
	}
	if err := v.sessions(ctx); err != nil {
		return nil, err
	}
	v.report.Digests = compareDigests(ctx, c, adminPort)
	v.report.Ended = time.Now().UTC()
	return v.report, v.report.err()
}

// walk goes through the tree, parents before their children.
func (v *verification) walk(ctx context.Context) error {
	for _, r := range v.readers {
		if err := r.c.Sync(ctx, "/"); err != nil {
			return fmt.Errorf("server %d: %w", r.member.ID, err)
		}
	}
	todo := []string{"/"}
	for len(todo) > 0 {
		n := max(0, len(todo)-batch)
		paths := slices.Clone(todo[n:])
		todo = todo[:n]
		below, err := v.compare(ctx, paths)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
		if time.Since(v.told) > 2*time.Second {
			v.told = time.Now()
			v.say(fmt.Sprintf("%d znodes compared, %d found, %d differ", v.report.Znodes, v.report.Znodes+len(todo), len(v.report.Differ)+v.report.More))
		}
	}
	return nil
}

// compare compares some znodes, and returns the paths of their children.
func (v *verification) compare(ctx context.Context, paths []string) (below []string, err error) {
	all, err := v.readAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	v.report.Znodes += len(paths)
	for j, r := range v.readers {
		var unequal []string
		for i, p := range paths {
			first, other := &all[0][i], &all[j][i]
			if j == 0 && first.code == zk.ErrNoAuth {
				v.report.Unreadable++
			}
			for _, name := range other.children {
				below = append(below, strings.TrimSuffix(p, "/")+"/"+name)
			}
			if !first.equal(other) && (p != configPath || first.code == zk.OK && other.code == zk.OK) {
				unequal = append(unequal, p)
			}
		}
		if err := v.settle(ctx, unequal, v.readers[0], r); err != nil {
			return nil, err
		}
	}
	slices.Sort(below)
	return slices.Compact(below), nil
}

// readAll reads znodes at all members at the same time.
func (v *verification) readAll(ctx context.Context, paths []string) ([][]znode, error) {
	all, errs := make([][]znode, len(v.readers)), make([]error, len(v.readers))
	reading := make(chan struct{})
	for i, r := range v.readers {
		go func() {
			all[i], errs[i] = r.read(ctx, paths)
			reading <- struct{}{}
		}()
	}
	for range v.readers {
		<-reading
	}
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("server %d: %w", v.readers[i].member.ID, err)
		}
	}
	return all, nil
}

// settle finds out whether two members have znodes in the same state at common zxids.
func (v *verification) settle(ctx context.Context, paths []string, a, b *reader) error {
	v.report.Changed += len(paths)
	seen := make([]sightings, len(paths))
	for i := 0; i < settleTimes && len(paths) > 0; i++ {
		var readings [3][]znode
		for k, r := range []*reader{a, b, a} {
			err := r.c.Sync(ctx, "/")
			if err == nil {
				readings[k], err = r.read(ctx, paths)
			}
			if err != nil {
				return fmt.Errorf("server %d: %w", r.member.ID, err)
			}
		}
		left, leftSeen := paths[:0:0], seen[:0:0]
		for i, p := range paths {
			before, middle, after := &readings[0][i], &readings[1][i], &readings[2][i]
			switch {
			case seen[i].same(before, middle, after):
			case contradict(before, middle, after):
				v.differ(Difference{p, middle.low.String(), a.member.ID, b.member.ID, before.differences(middle)})
			default:
				left, leftSeen = append(left, p), append(leftSeen, seen[i])
			}
		}
		paths, seen = left, leftSeen
	}
	v.report.Undecided = append(v.report.Undecided, paths...)
	return nil
}

func (v *verification) differ(d Difference) {
	if len(v.report.Differ) == maxShown {
		v.report.More++
		return
	}
	v.report.Differ = append(v.report.Differ, d)
}

// sightings are the states of one znode that two members have shown.
type sightings struct{ a, b []*znode }

// same adds sightings, and reports whether both members have shown the same state: they had it
// at the same zxid then, that of its last change.
func (s *sightings) same(before, middle, after *znode) bool {
	s.a, s.b = append(s.a, before, after), append(s.b, middle)
	for _, a := range s.a {
		if a.equal(middle) {
			return true
		}
	}
	for _, b := range s.b {
		if before.equal(b) || after.equal(b) {
			return true
		}
	}
	return false
}

// contradict reports whether members differ at the zxid at which the second showed middle: the
// first has shown one state before and after that zxid. A znode that is absent before and after
// may have been there in between, unless the other has it since before.
func contradict(before, middle, after *znode) bool {
	switch {
	case !before.equal(after) || middle.torn || before.high > middle.low || middle.high > after.low:
		return false
	case before.code == zk.ErrNoNode:
		return middle.code == zk.OK && middle.stat.Czxid <= before.low
	}
	return !before.equal(middle)
}

// config enters the configuration.
func (v *verification) config(ctx context.Context) error {
	for _, r := range v.readers {
		text, _, err := r.c.Get(ctx, configPath)
		switch {
		case err == nil:
			v.report.Config = string(text)
			return nil
		case !errors.Is(err, zk.ErrNoNode):
			return fmt.Errorf("server %d: %s: %w", r.member.ID, configPath, err)
		}
	}
	return nil
}

// err returns ErrDiffer with the first difference, if there is one.
func (r *Report) err() error {
	switch {
	case len(r.Differ) > 0:
		return fmt.Errorf("%w: %v", ErrDiffer, r.Differ[0])
	case len(r.Sessions.Differ) > 0:
		return fmt.Errorf("%w: the session %s", ErrDiffer, r.Sessions.Differ[0])
	case len(r.Digests.Differ) > 0:
		return fmt.Errorf("%w: the digest at %s", ErrDiffer, r.Digests.Differ[0])
	}
	return nil
}

// String is a line for users.
func (d Difference) String() string {
	return fmt.Sprintf("%s, servers %d and %d at zxid %s: %s", d.Path, d.A, d.B, d.At, d.What)
}

// Summary is the result in a line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d znodes of %d members compared in %v: %d differ; %d changed meanwhile, %d of them too often to compare; %d cannot be read; %d digests of the tree compared, %d differ; %s",
		r.Znodes, len(r.Members), r.Ended.Sub(r.Began).Round(time.Millisecond), len(r.Differ)+r.More, r.Changed, len(r.Undecided), r.Unreadable,
		r.Digests.Common, len(r.Digests.Differ), r.Sessions.summary())
}

// Print prints the report.
func (r *Report) Print(out io.Writer) {
	for _, m := range r.Members {
		fmt.Fprintf(out, "server %-4d %-22s %-9s %-22s %s\n", m.ID, m.Client, m.Mode, m.Version, m.Zxid)
	}
	for _, d := range r.Differ {
		fmt.Fprintf(out, "DIFFERS %v\n", d)
	}
	for _, text := range r.Digests.Differ {
		fmt.Fprintf(out, "DIFFERS the digest at %s\n", text)
	}
	for _, text := range r.Digests.Passed {
		fmt.Fprintf(out, "NO LONGER DIFFERS the digest at %s (recorded while one of them took the tree of a leader)\n", text)
	}
	r.Sessions.print(out)
	for _, p := range r.Undecided {
		fmt.Fprintf(out, "NOT COMPARED %s changes too often\n", p)
	}
	fmt.Fprintln(out, r.Summary())
}
