// Package goroutines tells tests which goroutines of the product are left, or wait.
package goroutines

import (
	"runtime"
	"slices"
	"strings"
	"time"
)

// patience is how long a goroutine may take to end after it has said that it is done.
const patience = 10 * time.Second

// Left returns the stacks of the goroutines other than the caller's in which one of the
// marks occurs: in a function on the stack, or in the one that started the goroutine. A
// goroutine that has released what waits for it is on its stack until the scheduler
// has ended it, so Left waits until none is left, for at most ten seconds.
func Left(marks ...string) (stacks []string) {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if stacks = marked(marks); len(stacks) == 0 || time.Now().After(end) {
			return stacks
		}
	}
}

// Await waits until a goroutine other than the caller's, with mark on its stack, is in a
// state, as stacks name it: "IO wait". It reports false if none is after ten seconds.
func Await(state, mark string) bool {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		in := func(stack string) bool {
			head, _, _ := strings.Cut(stack, "\n")
			return strings.Contains(head, "["+state)
		}
		if slices.ContainsFunc(marked([]string{mark}), in) {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// marked returns the stacks, the caller's excepted, that contain a mark.
func marked(marks []string) (stacks []string) {
	buf := make([]byte, 1<<20)
	all := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	for _, stack := range all[1:] { // the caller's is the first
		if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(stack, mark) }) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
