package cli

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
)

// A rig is a shell without a terminal and a server, in a synctest bubble.
type rig struct {
	*shell
	t         *testing.T
	server    *inproc.Server
	out, errs *capture
}

// capture is an output that is read while it is written.
type capture struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

// take returns what was written since the last call.
func (c *capture) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.buf.String()
	c.buf.Reset()
	return text
}

// inBubble runs f with a rig whose options change may have changed.
func inBubble(t *testing.T, change func(o *Options), f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := inproc.Start(t)
		r := newRig(t, server, change)
		f(r)
		r.disconnect()
	})
}

func newRig(t *testing.T, server *inproc.Server, change func(o *Options)) *rig {
	t.Helper()
	r := &rig{t: t, server: server, out: &capture{}, errs: &capture{}}
	o := Options{
		Servers: "10.0.0.1:2181", Timeout: 10 * time.Second, Version: "test", In: strings.NewReader(""),
		Out: r.out, Err: r.errs, dialOptions: []client.Option{client.Dialer(server.Dial)},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if r.shell, err = newShell(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// do runs a line and returns what it printed and its exit status, when all has
// come to rest.
func (r *rig) do(line string) (out, errs string, status int) {
	r.t.Helper()
	err := r.execute(context.Background(), line)
	if err != nil && !Told(err) {
		r.t.Errorf("%s: the error was not printed: %v", line, err)
	}
	synctest.Wait()
	return r.out.take(), r.errs.take(), ExitStatus(err)
}

// must runs a line that is to succeed, and returns its output.
func (r *rig) must(line string) string {
	r.t.Helper()
	out, errs, status := r.do(line)
	if status != statusOK {
		r.t.Fatalf("%s: status %d: %s", line, status, errs)
	}
	return out
}

// What is not the same from one run to the next.
var varying = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^([cm]time = ).*$`), "${1}<time>"},
	{regexp.MustCompile(`(?m)^(ephemeralOwner = )0x[0-9a-f]{2,}$`), "${1}<session>"},
	{regexp.MustCompile(`"ephemeralOwner":"0x[0-9a-f]{2,}"`), `"ephemeralOwner":"<session>"`},
	{regexp.MustCompile(`0x1[0-9a-f]{14,}`), "<session>"},
}

func steady(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}
