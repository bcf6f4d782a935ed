package recipe_test

import (
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/test/inproc"
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
