package clidiff

import (
	"slices"
	"strings"
)

// A verdict is what to make of two answers.
type verdict int

const (
	wrong verdict = iota
	same          // or not, and docs/cli.md says why; the tree is the same
	parts         // the trees may differ from now on, and docs/cli.md says why
)

// judge compares the answers to a command.
func judge(line string, theirs, ours answer) verdict {
	name, _, _ := strings.Cut(strings.Join(strings.Fields(line), " "), " ")
	below := name == "deleteall" || name == "setAcl" && strings.Contains(line, "-R")
	switch {
	case below && (strings.HasPrefix(ours.fault, "Failed to ") || strings.HasPrefix(theirs.fault, "Failed to ")):
		return parts // theirs deletes in transactions, and may not see that it has failed
	case below && ours.fault != theirs.fault && strings.HasPrefix(theirs.fault, "Insufficient permission"):
		return parts // theirs reads nodes without children too
	case theirs.same(ours):
		return same
	case theirs.fault != "" && ours.fault != "" && theirs.out == ours.out && (theirs.fault == misused || ours.fault == misused):
		return same // neither was carried out, and what is looked at first need not be the same
	case name == "getEphemerals" && theirs.fault == ours.fault && slices.Equal(paths(theirs.out, "/c"), paths(ours.out, "")):
		return same // theirs are in the order of the server's table, and with the chroot
	case name == "setAcl" && below && theirs.fault == "" && ours.fault != "":
		return parts // theirs prints errors on its output, as a success, whenever they come
	case name == "removewatches" && strings.HasPrefix(theirs.fault, "No such watcher") && ours.fault == "":
		return same // before 3.9, a read with a watch has ended theirs (compareEvents)
	}
	return wrong
}

// paths are those of a printed list, in order, without the chroot if they have it.
func paths(out, chroot string) []string {
	list := strings.Split(strings.TrimSuffix(strings.TrimPrefix(out, "["), "]\n"), ", ")
	if without := func(p string) bool { return !strings.HasPrefix(p, chroot+"/") }; !slices.ContainsFunc(list, without) {
		for i := range list {
			list[i] = strings.TrimPrefix(list[i], chroot)
		}
	}
	slices.Sort(list)
	return list
}
