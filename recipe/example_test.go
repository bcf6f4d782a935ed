package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// exampleTB is the test that a server of an Example belongs to.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

// exampleServer starts a server in memory. stop closes its clients, and stops it.
func exampleServer() (s *inproc.Server, t *exampleTB, stop func()) {
	t = &exampleTB{}
	return inproc.Start(t), t, t.stop
}

func (t *exampleTB) Helper()                      {}
func (t *exampleTB) Cleanup(f func())             { t.cleanups = append(t.cleanups, f) }
func (t *exampleTB) Fatal(args ...any)            { panic(fmt.Sprint(args...)) }
func (t *exampleTB) Errorf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func (t *exampleTB) stop() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// greet is the example of README.md after its Dial.
func greet(ctx context.Context, c *client.Client) error {
	lock := recipe.NewLock(c, "/lock", recipe.UseNames(recipe.KazooNames))
	held, err := lock.Lock(ctx)
	if err != nil {
		return err
	}
	defer held.Unlock(ctx)
	greeting := []byte("hello from the holder of " + held.Token().String())
	_, err = c.Set(ctx, "/greeting", greeting, -1)
	if errors.Is(err, zk.ErrNoNode) {
		_, err = c.Create(ctx, "/greeting", greeting, zk.Persistent, nil)
	}
	return err
}

// The example of README.md works on an empty tree, and a second time.
func TestREADMEExample(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(readme), "defer c.Close()\n\n")
	code, _, found := strings.Cut(after, "```")
	if tested := strings.ReplaceAll(string(source), "\n\t", "\n"); !found || !strings.Contains(tested, code) {
		t.Errorf("the example of README.md is not greet:\n%s", code)
	}
	c := inproc.Start(t).Client(t)
	for range 2 {
		if err := greet(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	data, _, err := c.Get(t.Context(), "/greeting")
	if err != nil || !strings.HasPrefix(string(data), "hello from the holder of 0x") {
		t.Errorf("the greeting is %q, %v", data, err)
	}
}
