package clidiff

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What cannot be the same in two runs.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^([cm]time = )\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}$`), "${1}TIME"},
	{regexp.MustCompile(`(?m)^([cmp]Zxid = )0x[0-9a-f]+$`), "${1}ZXID"},
	{regexp.MustCompile(`(?m)^(ephemeralOwner = )0x1[0-9a-f]+$`), "${1}SESSION"},
	{regexp.MustCompile(`(?m)^(mtime|ctime) = Thu Jan 01 .*$`), "${1}TIME"},
	{regexp.MustCompile(`(?m) zxid: -?\d+$`), ""},             // of events, since 3.9
	{regexp.MustCompile(`(?m)^(\d+ - )\s*(.*?)\s*$`), "$1$2"}, // of history
	{regexp.MustCompile(`KeeperErrorCode = .*\n?`), ""},       // of setAcl -R
}

func steady(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// An event may come between any two lines, and behind the next command.
var event = regexp.MustCompile(`\n?WATCHER::\n|\n?(WatchedEvent state:.*)\n|(Connecting to |Welcome to ZooKeeper!|JLine support is disabled).*\n`)

// takeEvents takes the events out of an output.
func takeEvents(out string) (rest string, events []string) {
	out = steady(out)
	for _, m := range event.FindAllStringSubmatch(out, -1) {
		if m[1] != "" && !strings.Contains(m[1], "type:None") {
			events = append(events, m[1])
		}
	}
	return event.ReplaceAllString(out, ""), events
}

// compareAll compares what the commands of a session have printed, and returns the
// differences. parted, if not -1, is the number of the first command behind which the
// trees may differ, as it should: what comes later has not been compared.
func compareAll(commands []string, theirs, ours []printed) (differences []string, parted int) {
	var events [2][]string
	began := 0 // the number of the command that the program began with, which counts anew after an end
	for i := range commands {
		line := commands[began+redone(commands[began:], i-began)]
		var want, got answer
		var some []string
		want, some = read(theirs[i])
		events[0] = append(events[0], some...)
		got, some = read(ours[i])
		events[1] = append(events[1], some...)
		if theirs[i].ended {
			began = i + 1
		}
		switch judge(line, want, got) {
		case same:
		case parts:
			return differences, i
		default:
			differences = append(differences, fmt.Sprintf("command %d: %s\n  zkCli.sh:    %s\n  pinfold cli: %s", i, line, want, got))
		}
	}
	if d := compareEvents(commands, events[0], events[1]); d != "" {
		differences = append(differences, d)
	}
	return differences, -1
}

// redone is the number of the command that command i stands for, if it is a redo.
func redone(commands []string, i int) int {
	var n int
	if _, err := fmt.Sscanf(commands[i], "redo %d", &n); err != nil || n%perStep != 0 || n/perStep >= i {
		return i
	}
	return redone(commands, n/perStep)
}

// compareEvents compares the events of a session, whose order may differ: events of
// different watches are printed side by side.
func compareEvents(commands, theirs, ours []string) (differs string) {
	slices.Sort(theirs)
	slices.Sort(ours)
	if strings.Contains(strings.Join(commands, "\n"), "addWatch") {
		// Before 3.9, a read with a watch ends a persistent one that zkCli.sh has there
		// (ZOOKEEPER-4466); and 3.8 tells recursive ones of lists of children at times.
		spurious := func(e string) bool { return strings.Contains(e, "NodeChildrenChanged") && !slices.Contains(ours, e) }
		theirs = slices.Compact(slices.DeleteFunc(theirs, spurious))
		ours = slices.Compact(slices.DeleteFunc(ours, func(e string) bool { return !slices.Contains(theirs, e) }))
	}
	if slices.Equal(theirs, ours) {
		return ""
	}
	return fmt.Sprintf("the events differ: %d and %d\n%s", len(theirs), len(ours), difference(theirs, ours))
}
