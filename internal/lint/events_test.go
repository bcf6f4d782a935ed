package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/logging"
)

// logs reports whether f has lines of a server's log, whose events have names.
func logs(f *goFile) bool {
	return isNoTest(f) && ofServer(f) && !slices.Contains([]string{"client", "recipe", "internal/cli", "internal/bench", "internal/sim", "internal/trial", "internal/refusal"}, f.dir())
}

// messages calls visit with the message of each call of a logger. ok is false if it is no
// string literal, or several joined by +.
func messages(f *goFile, visit func(call *ast.CallExpr, text string, ok bool)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall {
			return true
		}
		s, isMethod := call.Fun.(*ast.SelectorExpr)
		if !isMethod {
			return true
		}
		at := attributesFrom[s.Sel.Name] - 1
		if at < 0 || len(call.Args) <= at || !slices.Contains(loggerNames, lastName(s.X)) {
			return true
		}
		text, ok := joined(call.Args[at])
		visit(call, text, ok)
		return true
	})
}

// joined returns the text of string literals that are joined by +.
func joined(e ast.Expr) (string, bool) {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.ADD {
		left, ok := joined(b.X)
		right, too := joined(b.Y)
		return left + right, ok && too
	}
	return literal(e)
}

// unnamedEvents is the checker of messages in calls of loggers.
func unnamedEvents(f *goFile) (findings []string) {
	messages(f, func(call *ast.CallExpr, text string, ok bool) {
		switch {
		case !ok:
			findings = append(findings, f.at(call)+": the message of a log line is not a string literal")
		case logging.Event(text) == "unnamed":
			findings = append(findings, fmt.Sprintf("%s: the message %q has no event in internal/logging/events.go", f.at(call), text))
		}
	})
	return findings
}

func TestEventsHaveNames(t *testing.T) { checkAll(t, unnamedEvents, logs) }

// Every event of the list is logged somewhere, and its name is a key like any other.
func TestEventsAreLogged(t *testing.T) {
	left := logging.Events()
	for message, name := range left {
		if !logKey.MatchString(name) {
			t.Errorf("the event %q of %q is not snake_case", name, message)
		}
	}
	for _, f := range load(t).gos {
		if logs(f) {
			messages(f, func(_ *ast.CallExpr, text string, _ bool) { delete(left, text) })
		}
	}
	for message, name := range left {
		t.Errorf("nothing logs the event %s: %q", name, message)
	}
}

func TestEventCheckerFindsBreaks(t *testing.T) {
	checkSamples(t, "internal/x/a.go", unnamedEvents, []sample{
		{`func f() { s.log.Info("session expired", "session", 1) }`, ""},
		{`func f() { s.log.Info("session " + "expired", "session", 1) }`, ""},
		{`func f() { s.log.Info("something nobody knows", "key", 1) }`, `"something nobody knows"`},
		{`func f() { s.log.Warn(text, "key", 1) }`, "not a string literal"},
		{`func f() { s.log.LogAttrs(ctx, level, text) }`, "not a string literal"},
		{`func f() { s.other.Warn(text, "key", 1) }`, ""},
	})
}
