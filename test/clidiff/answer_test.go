package clidiff

import (
	"fmt"
	"regexp"
	"strings"
)

// An answer is what a command has printed, as far as it must agree.
type answer struct {
	out   string
	notes []string // on the error stream, of a command that was carried out
	fault string   // why it was not; "" if it was, misused for all that is not understood
}

func (a answer) String() string {
	return fmt.Sprintf("%q, notes %q, fault %q", a.out, a.notes, a.fault)
}

func (a answer) same(b answer) bool {
	return a.out == b.out && strings.Join(a.notes, "\n") == strings.Join(b.notes, "\n") && a.fault == b.fault
}

// misused is the fault of a command that was not understood.
const misused = "misuse"

// note is a line of the error stream that is no error.
var note = regexp.MustCompile(`^(Created /|absolute path is |'.*' has been deprecated\. )`)

// misuse is the first line of what is said of a command that is not understood. Of
// zkCli.sh: its usage, an exception. Ours has a line that begins with "(help".
var misuse = regexp.MustCompile(`^(org\.apache\.commons\.cli\.|NumberFormatException|Exception in thread|ZooKeeper -server host:port |` +
	`addWatch \[|addauth scheme|create \[|delete \[|deleteall path|delquota \[|get \[|getAcl \[|getAllChildrenNumber path|` +
	`listquota path|ls \[|reconfig \[|removewatches path|set (\[|path)|setAcl \[|setquota -|stat \[|sync path|config \[|whoami|` +
	`Command index out of range|-t argument must be a long value|-b argument must be an int|-b must be above 0|ttl must be positive|the root cannot have a quota|.* has no permissions$|setquota needs one of|the mode is PERSISTENT|the (num|bytes) quota must be|.* has the unknown permission|` +
	`Command not found|.* does not have the form scheme:id:perm|the quote )`)

func read(p printed) (a answer, events []string) {
	a.out, events = takeEvents(p.out)
	var rest []string
	for line := range strings.Lines(p.errs) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case note.MatchString(line):
			a.notes = append(a.notes, line)
		default:
			rest = append(rest, line)
		}
	}
	if len(rest) == 0 {
		return a, events
	}
	a.fault = rest[0]
	for len(rest) > 1 && strings.HasPrefix(a.fault, "KeeperErrorCode = ") {
		rest = rest[1:]
		a.fault = rest[0]
	}
	a.fault = strings.TrimPrefix(a.fault, "KeeperErrorCode = ")
	if strings.HasPrefix(a.fault, "No redoing redos") {
		a.fault = "No redoing redos"
	}
	if misuse.MatchString(a.fault) || strings.Contains(strings.Join(rest, "\n"), " says more)") {
		a.fault = misused
	}
	return a, events
}
