package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/zk"
)

// roster is a configuration of the ensemble, as the model has it: one version of the list of
// its servers.
type roster struct {
	version zk.Zxid
	lines   []rosterLine // ascending by id
	votes   electorate   // by index from 0 for member 1; a member without a vote weighs 0
}

// rosterLine is a server line. weight and group are of a voter, and mean something if the
// roster has groups.
type rosterLine struct {
	id            int
	observer      bool
	port          int // of its quorum port; its other ports follow from that
	weight, group int
}

// maxGroups is how many groups a roster may have.
const maxGroups = 3

// newRoster returns a roster. If it has no groups, voters are equals.
func newRoster(version zk.Zxid, lines []rosterLine, groups bool) *roster {
	lines = slices.Clone(lines)
	slices.SortFunc(lines, func(a, b rosterLine) int { return a.id - b.id })
	size := 0
	if n := len(lines); n > 0 {
		size = lines[n-1].id
	}
	r := &roster{version: version, lines: lines, votes: electorate{weights: make([]int, size), groups: make([]int, size), plain: !groups}}
	for i := range lines {
		l := &r.lines[i]
		if !groups || l.observer {
			l.weight, l.group = 1, 0
		}
		if !l.observer {
			r.votes.weights[l.id-1], r.votes.groups[l.id-1] = l.weight, l.group
		}
	}
	return r
}

// roster is the electorate as the first configuration, with observers.
func (e *electorate) roster(observers int) *roster {
	var lines []rosterLine
	for i := range len(e.weights) + observers {
		l := rosterLine{id: i + 1, port: 2888, observer: i >= len(e.weights)}
		if !l.observer {
			l.weight, l.group = e.weights[i], e.groups[i]
		}
		lines = append(lines, l)
	}
	return newRoster(0, lines, !e.plain)
}

// line returns the line of a member, nil if there is none.
func (r *roster) line(id int) *rosterLine {
	for i := range r.lines {
		if r.lines[i].id == id {
			return &r.lines[i]
		}
	}
	return nil
}

// voter reports whether a member votes, though it may weigh nothing.
func (r *roster) voter(id int) bool {
	l := r.line(id)
	return l != nil && !l.observer
}

// voters is how many members vote.
func (r *roster) voters() (n int) {
	for i := range r.lines {
		if !r.lines[i].observer {
			n++
		}
	}
	return n
}

// with returns the lines with another one, or with another one of the same id.
func (r *roster) with(l rosterLine) []rosterLine { return append(r.without(l.id), l) }

// without returns the lines of all but one.
func (r *roster) without(id int) []rosterLine {
	return slices.DeleteFunc(slices.Clone(r.lines), func(l rosterLine) bool { return l.id == id })
}

// value is the text after server.N=.
func (l *rosterLine) value() string {
	role := "participant"
	if l.observer {
		role = "observer"
	}
	host := fmt.Sprintf("10.0.1.%d", l.id)
	return fmt.Sprintf("%s:%d:%d:%s;%s:%d", host, l.port, l.port+1000, role, host, l.port-707)
}

// text is the content of /zookeeper/config.
func (r *roster) text() string { return r.servers() + fmt.Sprintf("version=%x", uint64(r.version)) }

// servers is the text of all lines but the version's.
func (r *roster) servers() string {
	var b strings.Builder
	for i := range r.lines {
		fmt.Fprintf(&b, "server.%d=%s\n", r.lines[i].id, r.lines[i].value())
	}
	if r.votes.plain {
		return b.String()
	}
	groups := map[int][]string{}
	for _, l := range r.lines {
		if !l.observer {
			groups[l.group] = append(groups[l.group], strconv.Itoa(l.id))
		}
	}
	for g := range maxGroups {
		if ids := groups[g]; ids != nil {
			fmt.Fprintf(&b, "group.%d=%s\n", g+1, strings.Join(ids, ":"))
		}
	}
	for _, l := range r.lines {
		if !l.observer {
			fmt.Fprintf(&b, "weight.%d=%d\n", l.id, l.weight)
		}
	}
	return b.String()
}

// readRoster reads text.
func readRoster(text string) (*roster, error) {
	var version uint64
	var lines []rosterLine
	groups := map[int]int{}
	weights := map[int]int{}
	for field := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(field, "=")
		kind, number, _ := strings.Cut(key, ".")
		n, err := strconv.Atoi(number)
		switch {
		case key == "version":
			version, err = strconv.ParseUint(value, 16, 64)
		case err != nil:
		case kind == "server":
			l := rosterLine{id: n}
			parts := strings.Split(value, ":")
			if len(parts) != 5 {
				return nil, fmt.Errorf("%q is no server line", field)
			}
			l.port, err = strconv.Atoi(parts[1])
			l.observer = strings.HasPrefix(parts[3], "observer")
			lines = append(lines, l)
		case kind == "group":
			for id := range strings.SplitSeq(value, ":") {
				if id, err := strconv.Atoi(id); err == nil {
					groups[id] = n - 1
				}
			}
		case kind == "weight":
			weights[n], err = strconv.Atoi(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", field, err)
		}
	}
	for i := range lines {
		lines[i].group, lines[i].weight = groups[lines[i].id], weights[lines[i].id]
	}
	return newRoster(zk.Zxid(version), lines, len(groups) > 0), nil
}

// parsed is the roster as a configuration lists it.
func parsed(text string) *config.Members {
	m, err := config.ParseMembers([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("sim: %s: %v", text, err))
	}
	return m
}

// rosterChange is a reconfiguration that a client asks for.
type rosterChange struct {
	version  zk.Zxid // that is to be changed; -1 is any
	leaving  []int
	joining  []rosterLine
	replaced *roster // if not nil, all servers of the new configuration
	odd      string  // if not "", a text that is sent in place of these, with oddAs
	oddAs    zk.Code // what odd is refused with
	oddWhole bool    // odd is a whole configuration
}

// joiningText and leavingText are the lists that are sent.
func (c *rosterChange) joiningText() string {
	if c.odd != "" && !c.oddWhole {
		return c.odd
	}
	var all []string
	for i := range c.joining {
		all = append(all, fmt.Sprintf("server.%d=%s", c.joining[i].id, c.joining[i].value()))
	}
	return strings.Join(all, ",")
}

func (c *rosterChange) leavingText() string {
	var all []string
	for _, id := range c.leaving {
		all = append(all, strconv.Itoa(id))
	}
	return strings.Join(all, ",")
}

// wholeText is the new configuration that is sent, nil if the change is incremental.
func (c *rosterChange) wholeText() *string {
	switch {
	case c.odd != "" && c.oddWhole:
		return &c.odd
	case c.replaced == nil:
		return nil
	}
	text := c.replaced.servers()
	return &text
}

// apply returns what a roster becomes, with a version, or why the change is refused. A lone
// participant is never allowed (standaloneEnabled).
func (c *rosterChange) apply(from *roster, version zk.Zxid) (*roster, zk.Code) {
	to := c.replaced
	switch {
	case c.odd != "" && (c.oddWhole || from.votes.plain):
		return nil, c.oddAs
	case to != nil:
		if n := to.voters(); n < 2 && n < len(to.lines) {
			return nil, zk.ErrMarshalling
		}
	case !from.votes.plain:
		return nil, zk.ErrBadArguments // groups are only changed as a whole
	default:
		to = from
		for _, id := range c.leaving {
			to = newRoster(version, to.without(id), false)
		}
		for _, l := range c.joining {
			to = newRoster(version, to.with(l), false)
		}
	}
	switch {
	case to.voters() < 2:
		return nil, zk.ErrBadArguments
	case !to.votes.holds(func(int) bool { return true }): // no voter has weight
		return nil, zk.ErrNewConfigNoQuorum
	}
	return newRoster(version, to.lines, !to.votes.plain), zk.OK
}
