package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// logKey is what the key of a log attribute looks like: snake_case, so that it needs no
// quotes in a query of a log store.
var logKey = regexp.MustCompile(`^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$`)

// attributesFrom says, for the methods of slog.Logger and refusal.Log, at which argument
// the attributes begin.
var attributesFrom = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
	"Log": 3, "LogAttrs": 3,
}

// loggerNames are the last identifiers of expressions that are loggers, and of packages
// that log.
var loggerNames = []string{"log", "logger", "Logger", "slog", "refused"}

// attributes are the constructors of slog.Attr.
var attributes = []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}

// badLogKeys is the checker of keys in calls of loggers.
func badLogKeys(f *goFile) (findings []string) {
	check := func(key ast.Expr) {
		text, ok := literal(key)
		switch {
		case !ok:
			findings = append(findings, f.at(key)+": the key of a log attribute is not a string literal")
		case !logKey.MatchString(text):
			findings = append(findings, fmt.Sprintf("%s: log key %q is not snake_case", f.at(key), text))
		}
	}
	pairs := func(args []ast.Expr) {
		for len(args) > 0 {
			if isAttribute(args[0]) { // a key and a value in one argument; checked as a call
				args = args[1:]
				continue
			}
			check(args[0])
			args = args[min(2, len(args)):]
		}
	}
	for _, d := range f.ast.Decls {
		lists := map[string]bool{} // variables that hold attributes
		ast.Inspect(d, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if isAttribute(call) {
				check(call.Args[0])
			}
			args, ok := loggedBy(call)
			switch {
			case !ok || len(args) == 0:
			case !call.Ellipsis.IsValid():
				pairs(args)
			default:
				if id, ok := args[len(args)-1].(*ast.Ident); ok {
					lists[id.Name] = true
				}
				pairs(args[:len(args)-1])
			}
			return true
		})
		ast.Inspect(d, func(n ast.Node) bool {
			s, ok := n.(*ast.AssignStmt)
			if !ok || len(s.Lhs) != 1 || len(s.Rhs) != 1 {
				return true
			}
			if id, ok := s.Lhs[0].(*ast.Ident); ok && lists[id.Name] {
				pairs(elements(s.Rhs[0]))
			}
			return true
		})
	}
	return findings
}

// loggedBy returns the attributes of a call of a logger.
func loggedBy(call *ast.CallExpr) (args []ast.Expr, ok bool) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	from, ok := attributesFrom[s.Sel.Name]
	if !ok || len(call.Args) < from || !slices.Contains(loggerNames, lastName(s.X)) {
		return nil, false
	}
	return call.Args[from:], true
}

// lastName is the identifier that an expression ends with: log in c.s.log.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func isAttribute(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	return ok && is(s, "slog") && slices.Contains(attributes, s.Sel.Name)
}

// elements returns what a composite literal holds, or what a call of append adds.
func elements(e ast.Expr) []ast.Expr {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return e.Elts
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "append" && !e.Ellipsis.IsValid() {
			return e.Args[1:]
		}
	}
	return nil
}

func literal(e ast.Expr) (text string, ok bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func TestLogKeysAreIdentifiers(t *testing.T) { checkAll(t, badLogKeys, isNoTest) }

func TestLogKeyCheckerFindsBreaks(t *testing.T) {
	checkSamples(t, "internal/x/a.go", badLogKeys, []sample{
		{`func f() { s.log.Info("a message", "key", 1, "other_key2", 2) }`, ""},
		{`func f() { s.log.Info("a message", "it has", 1) }`, `"it has"`},
		{`func f() { s.log.Info("a message", "key", 1, "read-only", 2) }`, `"read-only"`},
		{`func f() { c.s.refused.Warn("a message", "readOnly", 2) }`, `"readOnly"`},
		{`func f() { slog.Error("a message", "Err", err) }`, `"Err"`},
		{`func f() { log.With("a b", 1).Info("text") }`, `"a b"`},
		{`func f() { log.Log(ctx, level, "a message", "a b", 1) }`, `"a b"`},
		{`func f() { log.Info("a message", slog.Int("a b", 1), "key", 2) }`, `"a b"`},
		{`func f() { log.Info("a message", slog.Int("key", 1), "a b", 2) }`, `"a b"`},
		{`func f() { log.Info("a message", name, 1) }`, "not a string literal"},
		{`func f() { log.Info("a message", "key") }`, ""},
		{`func f() { log.Info("a message", attrs...) }`, ""},
		{`func f() { list := []any{"a b", 1}; log.Info("a message", list...) }`, `"a b"`},
		{`func f() { list := []any{"key", 1}; list = append(list, "a b", 2); log.Info("m", list...) }`, `"a b"`},
		{`func f() { list := []any{"a b", 1}; g(list...) }`, ""},
		{`func f() { x.Error("no logger", "a b") }`, ""},
		{`func f() { fmt.Println(err.Error()) }`, ""},
	})
}
