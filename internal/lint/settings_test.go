package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// configDir is the package that reads the settings.
const configDir = "internal/config"

// withoutField are the settings that docs/ops/configuration.md calls honoured and
// that keep no value: what they do is done where they are read.
var withoutField = map[string]string{
	"dynamicConfigFile": "internal/config reads the members from that file",
	"electionAlg":       "3 is the only value that is accepted",
	"group.*":           "a line of the ensemble, read with the others: Quorum.Members",
	"server.*":          "the same",
	"weight.*":          "the same",
}

// honouredFields returns, for each setting of a file of internal/config that is
// honoured, the fields of config.Config that its setter names, as "Quorum.MyID",
// or that a function does which the setter names. A setting without an effect is
// honoured: that is the zero value.
func honouredFields(f *goFile, funcs map[string]*ast.FuncDecl) map[string][]string {
	found := map[string][]string{}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		name, set := "", ast.Expr(nil)
		for _, e := range lit.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			switch key, _ := kv.Key.(*ast.Ident); {
			case key == nil:
				return true
			case key.Name == "name":
				if text, ok := kv.Value.(*ast.BasicLit); ok && text.Kind == token.STRING {
					name, _ = strconv.Unquote(text.Value)
				}
			case key.Name == "setter":
				set = kv.Value
			case key.Name == "effect":
				return true // none that is written is honoured
			}
		}
		if name != "" && set != nil {
			found[name] = append(found[name], fieldsIn(set)...)
			ast.Inspect(set, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && funcs[id.Name] != nil {
					found[name] = append(found[name], fieldsIn(funcs[id.Name].Body)...)
				}
				return true
			})
		}
		return true
	})
	return found
}

// fieldsIn returns the fields of a variable c that n names, two deep.
func fieldsIn(n ast.Node) (list []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		outer, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if inner, ok := outer.X.(*ast.SelectorExpr); ok && is(inner, "c") {
			list = append(list, inner.Sel.Name+"."+outer.Sel.Name)
		}
		return true
	})
	return list
}

// configFuncs returns the functions of internal/config by their names.
func configFuncs(files []*goFile) map[string]*ast.FuncDecl {
	funcs := map[string]*ast.FuncDecl{}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && f.dir() == configDir {
				funcs[fn.Name.Name] = fn
			}
		}
	}
	return funcs
}

// selected returns the names that a node selects: x.Name.
func selected(n ast.Node) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			names[s.Sel.Name] = true
		}
		return true
	})
	return names
}

// fieldsRead returns the names of fields and methods that the packages which import
// internal/config select, tests excepted, and those that the methods of
// internal/config select which such packages call.
func fieldsRead(files []*goFile) map[string]bool {
	users := map[string]bool{}
	for _, f := range files {
		if !f.test() && slices.Contains(imports(f), module+"/"+configDir) {
			users[f.dir()] = true
		}
	}
	read := map[string]bool{}
	for _, f := range files {
		if !f.test() && users[f.dir()] && f.dir() != configDir {
			maps.Copy(read, selected(f.ast))
		}
	}
	for again := true; again; { // a method may call another
		again = false
		for _, f := range files {
			if f.test() || f.dir() != configDir {
				continue
			}
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil || !exportedReceiver(fn) || !read[fn.Name.Name] {
					continue
				}
				for name := range selected(fn) {
					again = again || !read[name]
					read[name] = true
				}
			}
		}
	}
	return read
}

// A setting that is called honoured has an effect: its field is read outside of the
// package that sets it.
func TestHonouredSettingsAreRead(t *testing.T) {
	files := load(t).gos
	read, funcs := fieldsRead(files), configFuncs(files)
	settings := 0
	for _, f := range files {
		if f.test() || f.dir() != configDir {
			continue
		}
		fields := honouredFields(f, funcs)
		settings += len(fields)
		for _, finding := range unread(fields, read) {
			t.Errorf("%s: %s", f.path, finding)
		}
	}
	if settings < 60 {
		t.Errorf("found %d settings that are honoured, there are more", settings)
	}
}

func unread(fields map[string][]string, read map[string]bool) (findings []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if withoutField[name] != "" {
			continue
		}
		if len(fields[name]) == 0 {
			findings = append(findings, name+" is honoured, and its setter names no field")
		}
		for _, field := range fields[name] {
			if _, last, _ := strings.Cut(field, "."); !read[last] {
				findings = append(findings, name+" is honoured, and nothing outside of "+configDir+" reads "+field)
			}
		}
	}
	return findings
}

func TestSettingsCheckerFindsBreaks(t *testing.T) {
	parse := func(path, src string) *goFile {
		f, err := parseGo(path, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	catalogue := parse("internal/config/settings.go", `package config
		func (q *Quorum) Hidden() bool { return q.Three }
		func settings() []setting { return []setting{
			{name: "one", setter: f(func(c *Config) *int { return &c.Quorum.One })},
			{name: "two", setter: f(func(c *Config) *int { return &c.Quorum.Two })},
			{name: "three", setter: f(func(c *Config) *int { return &c.Quorum.Three })},
			{name: "four", setter: f(func(c *Config) *int { return &c.Quorum.Four })},
			{name: "missing", effect: missing, setter: f(func(c *Config) *int { return &c.Quorum.Five })},
			{name: "none", setter: anything()},
			{name: "six", setter: six()},
		}}
		func six() setter { return setter{func(c *Config) { c.Quorum.Six = 6 }} }`)
	user := parse("internal/server/server.go", `package server
		import "github.com/pinfold-zk/pinfold/internal/config"
		func f(c *config.Config) { q := &c.Quorum; g(q.One, q.Hidden()) }`)
	test := parse("internal/server/server_test.go", `package server
		import "github.com/pinfold-zk/pinfold/internal/config"
		func f(c *config.Config) { g(c.Quorum.Two) }`)
	other := parse("internal/zab/zab.go", `package zab
		func f(c *Config) { g(c.Four) }`)
	got := unread(honouredFields(catalogue, configFuncs([]*goFile{catalogue})), fieldsRead([]*goFile{catalogue, user, test, other}))
	want := []string{
		"four is honoured, and nothing outside of internal/config reads Quorum.Four",
		"none is honoured, and its setter names no field",
		"six is honoured, and nothing outside of internal/config reads Quorum.Six",
		"two is honoured, and nothing outside of internal/config reads Quorum.Two",
	}
	if !slices.Equal(got, want) {
		t.Errorf("findings %q, want %q", got, want)
	}
}
