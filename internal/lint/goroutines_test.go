package lint

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// goroutines are all that a server or a client starts: the directory of the code that
// starts one, and the function that runs, or for a literal the function that it
// stands in. Each has its row in docs/architecture.md, which says who owns what.
var goroutines = map[string]string{
	"internal/node serve":             "accept loop",
	"internal/node followFiles":       "file reader",
	"internal/node follow":            "oracle's reader",
	"internal/node followMembers":     "address follower",
	"internal/node serveMetrics":      "metrics port",
	"internal/node serveAdmin":        "administration server",
	"cmd/pinfold runServer":           "beside the server",
	"cmd/pinfold toggleDebug":         "level switch",
	"pinfold Start":                   "embedded server",
	"internal/audit run":              "audit writer",
	"internal/server serve":           "connection",
	"internal/socket Flush":           "flusher",
	"internal/socket runQueued":       "flusher",
	"internal/replica orderer":        "orderer",
	"internal/replica writer":         "log writer",
	"internal/replica applier":        "applier",
	"internal/replica Spawn":          "task",
	"internal/replica run":            "watchdog",
	"internal/node KeepMonitorAwake":  "monitor's companion",
	"internal/rawio serve":            "log thread",
	"internal/server StandIn":         "connection",
	"internal/transport read":         "learner link",
	"internal/storage ahead":          "snapshot reader",
	"internal/storage read":           "log reader",
	"internal/replica tendLog":        "log tender",
	"internal/replica sweep":          "sweeper",
	"internal/replica purge":          "purger",
	"internal/transport acceptLocked": "peer acceptor",
	"internal/transport admitPeer":    "greeter",
	"internal/transport Dial":         "learner link",
	"internal/transport runAccepted":  "learner link",
	"internal/transport run":          "election peer",
	"internal/transport linkUp":       "election reader",
	"internal/transport tryConnect":   "dialler",
	"internal/transport open":         "dialler",
	"internal/transport tryName":      "dialler",
	"internal/trial await":            "child watch",
	"internal/kerberos ticketFor":     "ticket seeker",
	"internal/peerauth check":         "name seeker",
	"client Dial":                     "client's follower",
	"internal/fourletter AnswersOf":   "member's question",
	"internal/migrate hatch":          "canary",
	"internal/migrate readAll":        "member's question",
	"client run":                      "client's connection",
	"client serve":                    "client's writer",
	"client dispatch":                 "client's callbacks",
	"client carry":                    "client's pump",
	"client seek":                     "client's seeker",
	"client keep":                     "client's cache",
	"recipe watch":                    "holder's watch",
	"recipe follow":                   "claim's watch",
	"recipe keep":                     "claim's vigil",
	"recipe f":                        "recipe's clearing up",
	"internal/cli follow":             "shell's watch printer",
	"internal/cli runHolding":         "shell's child watch",
	"internal/backup with":            "restore's sync",
	"internal/cli readLine":           "shell's keyboard",
	"internal/cli followStates":       "shell's watch printer",
}

// ofServer reports whether f is a part of a server. The load generator, the
// network of tests and the programs under test/ keep their own goroutines.
func ofServer(f *goFile) bool {
	return !f.test() && f.dir() != "internal/bench" && !strings.HasPrefix(f.path, "test/")
}

// started returns what f starts: by go, or by the Go method of a wait group.
func started(f *goFile) (list []string) {
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				list = append(list, f.dir()+" "+runner(n.Call.Fun, fn))
			case *ast.CallExpr:
				s, ok := n.Fun.(*ast.SelectorExpr)
				if ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
					list = append(list, f.dir()+" "+runner(n.Args[0], fn))
				}
			}
			return true
		})
	}
	return list
}

// runner names the function that e is, or for a literal the one around it.
func runner(e ast.Expr, around *ast.FuncDecl) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return around.Name.Name
}

func TestGoroutinesAreInTheTable(t *testing.T) {
	found := map[string]bool{}
	for _, f := range load(t).gos {
		if !ofServer(f) {
			continue
		}
		for _, g := range started(f) {
			found[g] = true
			if goroutines[g] == "" {
				t.Errorf("%s starts a goroutine that is not in the table: %s", f.path, g)
			}
		}
	}
	page := readText(t, "docs/architecture.md")
	for _, g := range slices.Sorted(maps.Keys(goroutines)) {
		if !found[g] {
			t.Errorf("nothing starts %s", g)
		}
		if !strings.Contains(page, "\n| "+goroutines[g]) {
			t.Errorf("docs/architecture.md has no row for the %s", goroutines[g])
		}
	}
}

func TestGoroutineCheckerFindsThem(t *testing.T) {
	const src = "package x\nfunc (c *T) start() { go c.read(); go func() {}(); c.wg.Go(c.write); wg.Go(func() { go loop() }) }"
	f, err := parseGo("internal/x/x.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"internal/x read", "internal/x start", "internal/x write", "internal/x start", "internal/x loop"}
	if got := started(f); !slices.Equal(got, want) {
		t.Errorf("started = %q, want %q", got, want)
	}
}
