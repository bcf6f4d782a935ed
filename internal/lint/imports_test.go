package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importOrder says which package may import which: "a < b" lets b import a and
// all that a may import. It is the order of docs/architecture.md. A name is the
// package's directory, without internal/. A package that is not here may not
// exist, and a name for which there is no package may not be here.
const importOrder = `
	# The vocabulary, and what needs no vocabulary.
	NONE < zk, jute, rawio < vfs < test/faultfs;
	NONE < spare;
	rawio, spare < socket;
	NONE < certificate < test/certs < test/handshakes;
	NONE < test/memconn, test/choices, test/goroutines, test/tickets;
	NONE < fifo, ratelimit;
	NONE < config, sasl, kerberos, metric, systemd, keystore;
	ratelimit < refusal, logging;
	jute, config, keystore < tlsport;
	NONE < httpconn; metric, httpconn < exporter;
	zk < fourletter;

	# What a request and a transaction are, and what they do. Pure.
	zk < access;
	zk, jute < wire < txn < session, watch;
	access, txn < znode, auth;
	znode, session, watch, auth < prep;

	# The disk: a transaction is a zxid and opaque bytes to it.
	zk, vfs < storage;

	# Agreement. Transactions are opaque bytes to it. Pure, but for transport.
	NONE < zab/quorum;
	zk, jute, zab/quorum < zab/election < test/stranger; zab/election < zab; fifo < zab; jute, sasl, kerberos < peerauth; zab, socket, spare, refusal, tlsport, peerauth < transport < test/memnet;

	# The driver, and the client side.
	NONE < pipeline;
	prep, storage, zab, metric, pipeline, spare < replica;
	zk, vfs, metric < audit;
	replica, config, sasl, kerberos, metric, socket, refusal, fifo, ratelimit, spare, tlsport, audit < server;


	# The client that people use.
	zk, jute, wire, sasl, kerberos, fourletter, config < client < recipe;
	recipe, keystore, tlsport < cli;
	NONE < plan; client, plan < member; member, zab/quorum < migrate;

	# A client that measures; it knows of no server but by the wire.
	recipe, fourletter, fifo, certificate, rawio < bench < bench/report;

	# One node: what the configuration means to each part, and the parts together.
	replica, config, transport < node/options;
	server, transport, httpconn < admin;
	admin, node/options, exporter < node;
	replica < broadcast;

	# The servers of programs that embed them: the package at the root.
	node < pinfold;

	# The files of a data directory without a server.
	zk, jute, wire < keeper < test/keeperfiles;
	replica, keeper < history < backup;
	replica < test/fuzzy;
	node/options, plan < alone;

	# What is run.
	vfs, fourletter < trial;
	node, broadcast, trial, bench/report, cli, plan, alone, member, migrate, backup, logging, systemd < cmd/pinfold;
	server, transport, node/options, test/faultfs, test/stranger < sim;
	zk, jute, wire < test/frames; test/frames, fourletter < test/differential;
	zk, jute, wire, test/frames < test/auditlog;
	NONE < lint, test/admin, test/mutants, test/crash, test/clientmodel, test/recipes, test/recipemodel, test/chaos, test/datadir, test/gozk, test/kerberos; # tests alone
	NONE < test/clients, test/clidiff, test/hostile, test/steps, test/documents, test/monitoring, test/products, test/chart, test/bucket, test/openapi;
	NONE < deploy/image, deploy/site; # make the image and the web pages
	client < test/hosts/load;

	# A whole server within a test.
	client, node, test/memconn, test/frames < test/inproc;

	# Ensembles of real processes.
	client, fourletter < test/ensemble/cluster < test/kdc;
	test/frames < test/ensemble/client;
	zk < test/ensemble/history;
	test/ensemble/client, test/ensemble/history < test/ensemble/load;
	test/ensemble/cluster, test/ensemble/load, test/certs < test/ensemble;
`

// mustNever holds whatever importOrder says, now and later: "a !< b" forbids
// b to import a, itself or by another package. Names need not exist yet.
const mustNever = `
	# Clients know the wire, not the server.
	server, replica, znode, storage !< client, recipe, cli, bench, test/differential;

	# Zab carries opaque bytes.
	wire, txn, znode, storage, vfs !< zab, zab/election, zab/quorum;
	wire, txn, znode !< storage;

	# Apply returns events as values, and nobody decides in the tree.
	watch, session, auth !< znode;
	znode !< watch, session, auth;

	# Nothing below the driver knows goroutines, connections or settings.
	replica, server, config !< pipeline, zk, jute, wire, txn, znode, session, watch, auth, sasl, prep, zab, vfs, storage;
	server, config, transport !< replica;

	# Programs and tests are imported by nobody.
	sim, lint, cmd/pinfold, test/differential, test/crash !< zk, jute, wire, txn, znode, session, watch, auth,
		prep, zab, vfs, storage, config, transport, replica, server, bench, client, recipe;
`

// otherModules says where code of others is used; tests may use more.
var otherModules = map[string][]string{
	"github.com/anishathalye/porcupine":       {"test/ensemble/history"},
	"github.com/dchest/siphash":               {"keeper"},
	"github.com/jcmturner/gofork":             {"kerberos", "test/tickets"},
	"github.com/jcmturner/gokrb5":             {"kerberos", "test/tickets"},
	"github.com/klauspost/compress":           {"keeper", "storage", "test/keeperfiles"},
	"github.com/minio/minio-go":               {"backup"},
	"github.com/spf13/cobra":                  {"cmd/pinfold"},
	"github.com/spf13/pflag":                  {"cli", "cmd/pinfold"},
	"github.com/prometheus/client_golang":     {"exporter"},
	"github.com/yuin/goldmark":                {"deploy/site"},
	"golang.org/x/sys/cpu":                    {"storage"},
	"golang.org/x/sys/unix":                   {"test/ensemble/cluster"},
	"golang.org/x/term":                       {"cli"},
	"gonum.org/v1/plot":                       {"bench/report"},
	"github.com/pavlo-v-chernykh/keystore-go": {"keystore"},
	"github.com/youmark/pkcs8":                {"keystore"},
	"software.sslmate.com/src/go-pkcs12":      {"keystore"},
	"golang.org/x/crypto/ocsp":                {"tlsport", "test/certs"},
}

// relation is a parsed policy: for each name on the right, the names on its left.
type relation map[string]map[string]bool

// parseRelation reads a policy whose rules are lists of names joined by sep and
// ended by ";". ordered makes "a < b < c" transitive, and wants each name to
// stand on a right side before it stands on a left one.
func parseRelation(text, sep string, ordered bool) (relation, error) {
	var clean strings.Builder
	for line := range strings.Lines(text) {
		before, _, _ := strings.Cut(line, "#")
		clean.WriteString(before + "\n")
	}
	r := relation{}
	for rule := range strings.SplitSeq(clean.String(), ";") {
		if strings.TrimSpace(rule) == "" {
			continue
		}
		sides := strings.Split(rule, " "+sep+" ")
		if len(sides) < 2 {
			return nil, fmt.Errorf("rule without %q: %q", sep, strings.TrimSpace(rule))
		}
		for i := 1; i < len(sides); i++ {
			if err := r.add(names(sides[i-1]), names(sides[i]), ordered); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func names(side string) []string {
	var list []string
	for n := range strings.SplitSeq(side, ",") {
		list = append(list, strings.TrimSpace(n))
	}
	return list
}

func (r relation) add(left, right []string, ordered bool) error {
	for _, b := range right {
		if r[b] == nil {
			r[b] = map[string]bool{}
		}
		for _, a := range left {
			if a == "NONE" {
				continue
			}
			r[b][a] = true
			if !ordered {
				continue
			}
			if r[a] == nil {
				return fmt.Errorf("%s stands left of %s before it is declared", a, b)
			}
			maps.Copy(r[b], r[a])
		}
	}
	return nil
}

// shortName is how the policies call an import path of this module; ok is false
// for the imports of others.
func shortName(importPath string) (name string, ok bool) {
	if importPath == module {
		return path.Base(module), true
	}
	name, ok = strings.CutPrefix(importPath, module+"/")
	return strings.TrimPrefix(name, "internal/"), ok
}

// imports returns the import paths of a file.
func imports(f *goFile) []string {
	var list []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser let it pass
		}
		list = append(list, p)
	}
	return list
}

// badImports is the checker of the import order for files that are not tests.
func badImports(allowed relation) checker {
	return func(f *goFile) (findings []string) {
		self := strings.TrimPrefix(f.dir(), "internal/")
		for _, p := range imports(f) {
			if name, ours := shortName(p); ours {
				if !allowed[self][name] {
					findings = append(findings, fmt.Sprintf("%s: %s may not import %s", f.path, self, name))
				}
				continue
			}
			if first, _, _ := strings.Cut(p, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			if !usedThere(p, self) {
				findings = append(findings, fmt.Sprintf("%s: %s may not import %s", f.path, self, p))
			}
		}
		return findings
	}
}

func usedThere(importPath, self string) bool {
	for prefix, users := range otherModules {
		if importPath == prefix || strings.HasPrefix(importPath, prefix+"/") {
			return slices.Contains(users, self)
		}
	}
	return false
}

func mustParse(t *testing.T, text, sep string, ordered bool) relation {
	t.Helper()
	r, err := parseRelation(text, sep, ordered)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestImportsFollowTheOrder(t *testing.T) {
	allowed := mustParse(t, importOrder, "<", true)
	checkAll(t, badImports(allowed), func(f *goFile) bool { return !f.test() })

	exist := map[string]bool{}
	for _, f := range load(t).gos {
		exist[strings.TrimPrefix(f.dir(), "internal/")] = true
	}
	for _, name := range slices.Sorted(maps.Keys(exist)) {
		if allowed[name] == nil {
			t.Errorf("package %s has no place in the import order", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if !exist[name] {
			t.Errorf("the import order has %s, the repository has not", name)
		}
	}
}

// The order must not permit what must never be.
func TestOrderKeepsTheMustNevers(t *testing.T) {
	allowed := mustParse(t, importOrder, "<", true)
	for _, finding := range clashes(allowed, mustParse(t, mustNever, "!<", false)) {
		t.Error(finding)
	}
}

func clashes(allowed, never relation) (findings []string) {
	for _, b := range slices.Sorted(maps.Keys(never)) {
		for _, a := range slices.Sorted(maps.Keys(never[b])) {
			if allowed[b][a] {
				findings = append(findings, fmt.Sprintf("the order lets %s import %s, which must never be", b, a))
			}
		}
	}
	return findings
}

func TestImportCheckerFindsBreaks(t *testing.T) {
	allowed := mustParse(t, "NONE < zk, jute; zk < wire < txn;", "<", true)
	checkSamples(t, "internal/txn/txn.go", badImports(allowed), []sample{
		{`import "fmt"`, ""},
		{`import "github.com/pinfold-zk/pinfold/internal/wire"`, ""},
		{`import "github.com/pinfold-zk/pinfold/zk"`, ""}, // through wire
		{`import "github.com/pinfold-zk/pinfold/internal/jute"`, "txn may not import jute"},
		{`import x "github.com/spf13/cobra"`, "txn may not import github.com/spf13/cobra"},
		{`import "example.org/x"`, "txn may not import example.org/x"},
	})
	checkSamples(t, "internal/wire/wire.go", badImports(allowed), []sample{
		{`import "github.com/pinfold-zk/pinfold/internal/txn"`, "wire may not import txn"},
	})
	never := mustParse(t, "zk, jute !< txn;", "!<", false)
	if got := clashes(allowed, never); len(got) != 1 || !strings.Contains(got[0], "lets txn import zk") {
		t.Errorf("clashes = %q", got)
	}
	for _, bad := range []string{"zk, jute;", "a < b;"} {
		if _, err := parseRelation(bad, "<", true); err == nil {
			t.Errorf("policy %q is accepted", bad)
		}
	}
}
