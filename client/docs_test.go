package client_test

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
)

// Every line of Go in the guide is a line of an example. That the blocks compile is tested in internal/lint.
func TestGuideShowsExamples(t *testing.T) {
	guide, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown, inCode := 0, false
	for line := range strings.Lines(string(guide)) {
		code := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(code, "```"):
			inCode = code == "```go"
		case inCode && code != "":
			if shown++; !strings.Contains(string(examples), code+"\n") {
				t.Errorf("no example has the line %q", code)
			}
		}
	}
	if shown < 50 {
		t.Errorf("the guide shows %d lines of code", shown)
	}
}

// Whatever waits for a server has a form that calls back.
func TestEveryOperationHasBothForms(t *testing.T) {
	ctx := reflect.TypeFor[context.Context]()
	for _, typ := range []reflect.Type{reflect.TypeFor[*client.Client](), reflect.TypeFor[*client.Watch](), reflect.TypeFor[*client.Txn](), reflect.TypeFor[*client.ReadTxn]()} {
		operations := 0
		for m := range typ.Methods() {
			if strings.HasSuffix(m.Name, "Async") || m.Type.NumIn() < 2 || m.Type.In(1) != ctx {
				continue
			}
			operations++
			if _, ok := typ.MethodByName(m.Name + "Async"); !ok {
				t.Errorf("%v.%s has no form that calls back", typ, m.Name)
			}
		}
		if operations == 0 {
			t.Errorf("%v has no operations", typ)
		}
	}
}
