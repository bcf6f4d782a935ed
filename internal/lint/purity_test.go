package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// purePackages take time, randomness and the completion of disk writes as
// arguments. Equal calls give equal results, which the simulator and the tests
// with models rely on. Directories below them are pure too.
var purePackages = []string{
	"internal/jute", "internal/wire", "internal/txn", "internal/znode", "internal/prep", "internal/pipeline", "internal/fifo", "internal/ratelimit",
	"internal/watch", "internal/session", "internal/auth", "internal/sasl", "internal/zab",
}

// pureImports is all of the standard library that a pure package may import:
// nothing in it knows a clock, a file, a socket, a goroutine or chance, but for
// what impurities looks for.
var pureImports = []string{
	"bytes", "cmp", "encoding/base64", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "hash/crc32",
	"io", "iter", "maps", "math", "math/bits", "net/netip", "slices", "sort", "strconv", "strings",
	"time", // for its durations, see durations
	"unicode", "unicode/utf8", "unsafe",
	"crypto/hmac", "crypto/md5", "crypto/sha1", "crypto/sha256", "crypto/sha3", "crypto/sha512", "crypto/subtle",
}

// durations is all of the package time that a pure package may use.
var durations = []string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}

// pureExceptions may be imported by one package alone, for the reason given.
var pureExceptions = map[string]map[string]string{
	"internal/auth": {
		"hash/maphash": "an ACL's index is seeded by chance, so that nobody can choose identities that collide; the seed decides time, never an output",
	},
	"internal/watch": {
		"hash/maphash": "long paths are found by hashes that are seeded by chance, so that nobody can choose paths that collide; the seed decides time, never an output",
	},
	"internal/znode": {
		"hash/maphash": "the index is seeded by chance, so that nobody can choose paths that collide; the seed decides time, never an output",
	},
}

func pure(f *goFile) bool {
	return !f.test() && slices.ContainsFunc(purePackages, func(p string) bool {
		return f.dir() == p || strings.HasPrefix(f.dir(), p+"/")
	})
}

// impurities is the checker of the purity rule.
func impurities(f *goFile) (findings []string) {
	found := func(n ast.Node, what string) {
		findings = append(findings, fmt.Sprintf("%s: %s in a pure package", f.at(n), what))
	}
	for i, p := range imports(f) {
		_, ours := shortName(p)
		_, excepted := pureExceptions[f.dir()][p]
		if !ours && !excepted && !slices.Contains(pureImports, p) {
			found(f.ast.Imports[i], "import of "+p)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found(n, "go statement")
		case *ast.SelectStmt:
			found(n, "select")
		case *ast.ChanType:
			found(n, "channel type")
		case *ast.SendStmt:
			found(n, "send")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found(n, "receive")
			}
		case *ast.SelectorExpr:
			if is(n, "fmt") && printsOrScans(n.Sel.Name) {
				found(n, "fmt."+n.Sel.Name)
			}
			if is(n, "time") && !slices.Contains(durations, n.Sel.Name) {
				found(n, "time."+n.Sel.Name)
			}
		}
		return true
	})
	return findings
}

// is reports whether s selects from a name that is pkg.
func is(s *ast.SelectorExpr, pkg string) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// printsOrScans names the functions of fmt that use the process's own files.
func printsOrScans(name string) bool {
	switch name {
	case "Print", "Printf", "Println", "Scan", "Scanf", "Scanln":
		return true
	}
	return false
}

func TestPurePackagesArePure(t *testing.T) {
	checkAll(t, impurities, pure)
	for dir, exceptions := range pureExceptions {
		for p := range exceptions {
			used := slices.ContainsFunc(load(t).gos, func(f *goFile) bool {
				return f.dir() == dir && pure(f) && slices.Contains(imports(f), p)
			})
			if !used {
				t.Errorf("the exception of %s for %s is not used", dir, p)
			}
		}
	}
}

func TestPurityCheckerFindsBreaks(t *testing.T) {
	samples := []sample{
		{`import ("errors"; "fmt"; "strings")`, ""},
		{`import "github.com/pinfold-zk/pinfold/zk"`, ""},
		{`import "fmt"; func f() error { return fmt.Errorf("x") }`, ""},
		{`import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{`func f() { go f() }`, "go statement"},
		{`func f() { select {} }`, "select"},
		{`type x struct{ c chan int }`, "channel type"},
		{`func f() { x <- 1 }`, "send"},
		{`func f() { <-x }`, "receive"},
		{`import "time"; var d time.Duration = 3 * time.Second`, ""},
		{`import "time"; func f() { time.Now() }`, "time.Now"},
	}
	for _, p := range []string{
		"net", "os", "sync", "sync/atomic", "context", "log/slog", "math/rand", "math/rand/v2",
		"crypto/rand", "runtime", "syscall", "hash/maphash", "github.com/spf13/cobra",
	} {
		samples = append(samples, sample{`import "` + p + `"`, "import of " + p})
	}
	checkSamples(t, "internal/session/session.go", impurities, samples)
	checkSamples(t, "internal/znode/index.go", impurities, []sample{{`import "hash/maphash"`, ""}})
}
