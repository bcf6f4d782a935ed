package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A result is what came of one attack on one system.
type result struct {
	Attack  string
	System  string
	Members int
	Scale   float64
	Table   string `json:",omitempty"` // the flag -table

	Before, Peak, After int64 // bytes of memory, of the member that took most
	Data                int64 // bytes in the tree in the end

	CalmReads, CalmWrites time.Duration // 99th percentile before the attack
	ReadP99, WriteP99     time.Duration // during the attack
	ReadGap, WriteGap     time.Duration // longest time without an answer, until settled
	GapAt                 time.Duration // when the longest of the two began, since the attack did
	Lasted                time.Duration // the attack
	Machine               time.Duration // longest time that an innocent process itself had to wait
	ReadHolds, WriteHolds holds         `json:",omitzero"` // of the tree's lock, of all members
	Processors            share         `json:",omitzero"` // of the machine, during the attack
	Back                  time.Duration // from the end of the attack until the service was back

	Suspended int      // connections that innocent clients lost
	Lost      int      // sessions that they lost
	Roles     int      // elections that members began
	Ended     int      // processes that ended
	Wrong     []string // what else must not be
	Notes     []string // what the attack has measured itself
}

// hear enters what an innocent client may never see.
func (r *result) hear(w *witness) {
	if w.Lost != "" {
		r.Lost++
		r.Wrong = append(r.Wrong, w.Lost)
	}
	r.Wrong = append(r.Wrong, w.Wrong...)
}

// measure enters how long an innocent client has waited.
func (r *result) measure(w *witness, quiet, began, end, done time.Time) {
	r.Suspended += w.Suspended
	r.CalmReads, r.CalmWrites = max(r.CalmReads, p99(w.Reads, quiet, began)), max(r.CalmWrites, p99(w.Writes, quiet, began))
	r.ReadP99, r.WriteP99 = max(r.ReadP99, p99(w.Reads, began, end)), max(r.WriteP99, p99(w.Writes, began, end))
	r.Lasted = end.Sub(began)
	for _, list := range []struct {
		samples []sample
		longest *time.Duration
	}{{w.Reads, &r.ReadGap}, {w.Writes, &r.WriteGap}} {
		if d, at := gap(list.samples, began, done); d > *list.longest {
			*list.longest = d
			if d >= max(r.ReadGap, r.WriteGap) {
				r.GapAt = at
			}
		}
	}
	machine, _ := gap(w.Ticks, began, done)
	r.Machine = max(r.Machine, machine)
	r.Back = max(r.Back, back(w.Reads, end, done), back(w.Writes, end, done))
}

// What an attack may cost.
const (
	memoryFactor = 2         // times the data
	memorySpare  = 512 << 20 // and so much
	backWithin   = 2 * time.Second
	fairRead     = 20 * time.Millisecond
	fairWrite    = 50 * time.Millisecond
)

// violations are the promises that did not hold.
func (r *result) violations(a *attack) (list []string) {
	add := func(broken bool, format string, args ...any) {
		if broken {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(r.Ended > 0, "%d processes ended", r.Ended)
	add(r.Lost > 0, "%d sessions of innocent clients were lost", r.Lost)
	add(r.Roles > 0 && !a.restarts, "%d elections", r.Roles)
	most := memoryFactor*r.Data + memorySpare
	add(r.Peak > most, "%d MB at the peak, more than %d: %d times the data and %d", r.Peak>>20, most>>20, memoryFactor, memorySpare>>20)
	add(r.Back > backWithin && !a.restarts, "the service was back %v after the attack, more than %v", r.Back.Round(time.Millisecond), backWithin)
	list = append(list, r.Wrong...)
	return list
}

// unfair says where the innocent clients waited longer than they should; "" if they did
// not. On a machine that does other things it may be the machine's fault.
func (r *result) unfair() string {
	if r.ReadP99 <= fairRead && r.WriteP99 <= fairWrite {
		return ""
	}
	return fmt.Sprintf("the goal is missed: p99 of reads %v, of writes %v; wanted %v and %v", round(r.ReadP99), round(r.WriteP99), fairRead, fairWrite)
}

// What no attack may cost on a machine that does nothing else: on few processors, beside the attackers, the goals are
// missed by a little now and then.
const (
	grossly     = 5 // times the goals, and times slowness
	longestHold = 100 * time.Millisecond
	longShare   = 0.1 // of the holds of the lock may be longer than longHold
	fewHolds    = 200 // of which one that the machine has made long is no large share
)

// disturbed reports whether the machine did other work: then times are not judged. In CI it does not.
func (r *result) disturbed() bool {
	return r.CalmReads > fairRead || r.CalmWrites > fairWrite || r.Processors.Others > float64(runtime.NumCPU())/4
}

// gross says which goals were missed by far, on a machine on which the first access to a page takes so long.
func (r *result) gross(a *attack, page time.Duration) (list []string) {
	if r.disturbed() || a.restarts {
		return nil
	}
	times := grossly * slowness(page)
	beyond := func(d, goal time.Duration) bool { return float64(d) > times*float64(goal) }
	if beyond(r.ReadP99, fairRead) || beyond(r.WriteP99, fairWrite) {
		list = append(list, fmt.Sprintf("p99 of reads %v, of writes %v: more than %.3g times %v and %v", round(r.ReadP99), round(r.WriteP99), times, fairRead, fairWrite))
	}
	if r.Members > 1 {
		return list // servers and attackers have too few processors
	}
	for what, h := range map[string]*holds{"read": &r.ReadHolds, "apply": &r.WriteHolds} {
		// The bound of a bucket is at most twice the hold.
		if h.Longest >= 2*longestHold || h.Count >= fewHolds && float64(h.Long) > longShare*float64(h.Count) {
			list = append(list, fmt.Sprintf("holds of the tree's lock to %s %v: more than %v, or than %g of them longer than %v", what, h, longestHold, longShare, longHold))
		}
	}
	return list
}

func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= 100*time.Millisecond:
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// String is the line of a report.
func (r *result) String() string {
	return fmt.Sprintf("%d → %d → %d MB (data %d); reads: gap %v, p99 %v (calm %v); writes: gap %v, p99 %v (calm %v); %v after the beginning; machine %v; it lasted %v; back after %v; "+
		"holds of the lock: %v to read, %v to apply; %v; "+
		"%d connections and %d sessions lost, %d elections, %d processes ended; %s",
		r.Before>>20, r.Peak>>20, r.After>>20, r.Data>>20, round(r.ReadGap), round(r.ReadP99), round(r.CalmReads),
		round(r.WriteGap), round(r.WriteP99), round(r.CalmWrites), round(r.GapAt), round(r.Machine), round(r.Lasted), round(r.Back), &r.ReadHolds, &r.WriteHolds, &r.Processors,
		r.Suspended, r.Lost, r.Roles, r.Ended, strings.Join(r.Notes, "; "))
}

// cell is the result in the table.
func (r *result) cell() string {
	var parts []string
	if r.Peak > 0 {
		parts = append(parts, fmt.Sprintf("%d → %d → %d MB", r.Before>>20, r.Peak>>20, r.After>>20),
			fmt.Sprintf("reads %v, writes %v", round(r.ReadGap), round(r.WriteGap)))
	}
	if r.ReadP99+r.WriteP99 > 0 {
		parts = append(parts, fmt.Sprintf("p99 %v, %v", round(r.ReadP99), round(r.WriteP99)))
	}
	if r.WriteHolds.Count > 0 {
		parts = append(parts, fmt.Sprintf("lock %v, %v", &r.ReadHolds, &r.WriteHolds))
	}
	if r.Processors != (share{}) {
		parts = append(parts, r.Processors.String())
	}
	if r.Scale < 1 {
		parts = append(parts, fmt.Sprintf("at scale %g", r.Scale))
	}
	for _, n := range []struct {
		count int
		text  string
	}{{r.Ended, "processes ended"}, {r.Lost, "sessions lost"}, {r.Roles, "elections"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.text))
		}
	}
	parts = append(parts, r.Notes...)
	if r.Peak == 0 {
		parts = append(parts, r.Wrong...)
	}
	if len(parts) == 0 {
		return "withstood"
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), "|", "/")
}

// The files with the results. The page has the table between two comments.
const (
	resultsFile = "docs/ops/limits.json"
	page        = "docs/ops/limits.md"
	tableBegin  = "<!-- The table is written by: go test ./test/hostile -hostile -update -->\n\n"
	tableEnd    = "\n<!-- end of the attacks -->"
)

func readResults() (list []result, err error) {
	b, err := os.ReadFile(filepath.Join(root, resultsFile))
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(b, &list)
}

// merge replaces results by newer ones of the same attack, system and number of
// members, and orders them.
func merge(old, newer []result) []result {
	same := func(a, b *result) bool {
		return a.Attack == b.Attack && a.System == b.System && a.Members == b.Members
	}
	all := slices.Clone(newer)
	for i := range old {
		if !slices.ContainsFunc(newer, func(r result) bool { return same(&r, &old[i]) }) {
			all = append(all, old[i])
		}
	}
	slices.SortFunc(all, func(a, b result) int {
		return strings.Compare(fmt.Sprintf("%s %s %d", a.Attack, a.System, a.Members), fmt.Sprintf("%s %s %d", b.Attack, b.System, b.Members))
	})
	return all
}

// The systems of the table, by their names in results.
const (
	systemNow    = "pinfold"
	systemBefore = "before"
	systemApache = "apache"
)

// table is the results of all attacks as Markdown.
func table(as []attack, results []result) string {
	var b strings.Builder
	b.WriteString("| attack | servers | before | now | Apache 3.8.0 |\n|---|---|---|---|---|\n")
	for i := range as {
		a := &as[i]
		for _, members := range a.sizes() {
			cells := map[string]string{systemBefore: a.before}
			if members != a.sizes()[0] {
				cells[systemBefore] = ""
			}
			if a.ours {
				cells[systemApache] = "n/a"
			}
			for j := range results {
				r := &results[j]
				if r.Attack == a.name && r.Members == members {
					cells[r.System] = r.cell()
				}
			}
			fmt.Fprintf(&b, "| `%s`: %s | %d | %s | %s | %s |\n", a.name, a.what, members,
				cells[systemBefore], cells[systemNow], cells[systemApache])
		}
	}
	return b.String()
}

// splitPage returns the page before the table, the table, and what is after it.
func splitPage() (before, table, after string, err error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return "", "", "", err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	table, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return "", "", "", fmt.Errorf("%s has no %q ... %q", page, tableBegin, tableEnd)
	}
	return before, table, after, nil
}

// enter writes results to the file and the page.
func enter(newer []result) error {
	old, err := readResults()
	if err != nil {
		return err
	}
	all := merge(old, newer)
	b, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, resultsFile), append(b, '\n'), 0o644); err != nil {
		return err
	}
	before, _, after, err := splitPage()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, page), []byte(before+tableBegin+table(attacks(), all)+tableEnd+after), 0o644)
}

// The page shows the results that the file has, of all attacks that there are.
func TestPageShowsTheResults(t *testing.T) {
	if *update && !*hostile {
		if err := enter(nil); err != nil {
			t.Fatal(err)
		}
	}
	results, err := readResults()
	if err != nil {
		t.Fatal(err)
	}
	_, got, _, err := splitPage()
	if err != nil {
		t.Fatal(err)
	}
	if want := table(attacks(), results); got != want {
		t.Errorf("%s has not the table of %s: go test ./test/hostile -update writes it anew", page, resultsFile)
	}
}

func TestViolations(t *testing.T) {
	fine := result{Peak: 600 << 20, Data: 50 << 20, Back: time.Second}
	if v := fine.violations(&attack{}); len(v) > 0 {
		t.Errorf("%q", v)
	}
	for what, r := range map[string]result{
		"processes ended": {Ended: 1}, "sessions": {Lost: 1}, "elections": {Roles: 2}, "MB at the peak": {Peak: 600 << 20, Data: 40 << 20},
		"back": {Back: 3 * time.Second}, "nonsense": {Wrong: []string{"nonsense"}},
	} {
		if v := r.violations(&attack{}); len(v) != 1 || !strings.Contains(v[0], what) {
			t.Errorf("%+v: %q, want %q", r, v, what)
		}
	}
	expected := result{Roles: 1, Back: 3 * time.Second}
	if v := expected.violations(&attack{restarts: true}); len(v) > 0 {
		t.Errorf("%q, though the attack restarts members", v)
	}
}

func TestGrossMisses(t *testing.T) {
	long := holds{Count: 1000, Long: 101, Longest: 8 * time.Millisecond}
	for _, c := range []struct {
		r    result
		a    attack
		page time.Duration
		want string
	}{
		{r: result{Members: 3, ReadP99: 399 * time.Millisecond}, page: 13 * time.Microsecond},
		{r: result{Members: 3, ReadP99: 401 * time.Millisecond}, page: 13 * time.Microsecond, want: "p99"},
		{r: result{Members: 3, ReadP99: 99 * time.Millisecond, WriteP99: 249 * time.Millisecond}},
		{r: result{Members: 3, ReadP99: 101 * time.Millisecond}, want: "p99"},
		{r: result{Members: 1, WriteP99: 251 * time.Millisecond}, want: "p99"},
		{r: result{Members: 3, ReadP99: time.Second, CalmReads: 21 * time.Millisecond}},
		{r: result{Members: 3, ReadP99: time.Second, CalmWrites: 51 * time.Millisecond}},
		{r: result{Members: 3, ReadP99: time.Second, Processors: share{Others: float64(runtime.NumCPU())}}},
		{r: result{Members: 3, ReadP99: time.Second}, a: attack{restarts: true}},
		{r: result{Members: 1, ReadHolds: long}, want: "to read"},
		{r: result{Members: 1, WriteHolds: long}, want: "to apply"},
		{r: result{Members: 3, ReadHolds: long}},
		{r: result{Members: 1, ReadHolds: holds{Count: 1000, Long: 99, Longest: 131 * time.Millisecond}}},
		{r: result{Members: 1, ReadHolds: holds{Count: 1000, Long: 1, Longest: 262 * time.Millisecond}}, want: "to read"},
		{r: result{Members: 1, WriteHolds: holds{Count: 10, Long: 5, Longest: 4 * time.Millisecond}}},
	} {
		if got := strings.Join(c.r.gross(&c.a, c.page), "; "); (got != "") != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}

func TestMergeKeepsTheNewest(t *testing.T) {
	old := []result{{Attack: "a", System: "pinfold", Members: 1, Peak: 1}, {Attack: "b", System: "pinfold", Members: 1, Peak: 2}}
	got := merge(old, []result{{Attack: "b", System: "pinfold", Members: 1, Peak: 3}, {Attack: "b", System: "apache", Members: 1, Peak: 4}})
	if len(got) != 3 || got[0].Peak != 1 || got[1].Peak != 4 || got[2].Peak != 3 {
		t.Errorf("%+v", got)
	}
}
