package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
)

// outageNotice is how long a command waits without a connection before it says so.
const outageNotice = time.Second

// An outage watches the connections of the command that runs. While one is lost, it
// says so after outageNotice and ends the command after the limit.
//
// The goroutines that follow connections report changes; timers run on their own
// goroutines; the shell begins and ends commands.
type outage struct {
	say   func(line string)
	limit time.Duration
	hint  string // at the end of the notice; "" for none

	mu     sync.Mutex // guards what follows; nothing is printed under it
	down   string     // servers of a connection that is lost; "" for none
	cancel context.CancelCauseFunc
	timer  *time.Timer // of the notice, then of the end; nil unless a command runs and a connection is down
	said   bool
}

// An outageError is the error of a command that an outage ended.
type outageError struct {
	servers string
	after   time.Duration
	write   bool // the command has sent, or left in the queue of the connection, a write
}

func (e outageError) Error() string {
	text := fmt.Sprintf("Gave up: no connection to %s for %v", e.servers, e.after)
	if e.write {
		text += "; the write may still be carried out when the connection is back: look before you repeat it"
	}
	return text + "\n(is a server running there? --timeout waits longer)"
}

// run runs a command with a context that an outage ends; then its error is an
// outageError.
func (o *outage) run(ctx context.Context, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.mu.Lock()
	nested := o.cancel != nil // a command of time or redo
	if !nested {
		o.cancel = cancel
		o.watchLocked()
	}
	o.mu.Unlock()
	if nested {
		return f(ctx)
	}
	err := f(ctx)
	o.mu.Lock()
	o.cancel = nil
	o.watchLocked()
	o.mu.Unlock()
	var gone outageError
	if !errors.As(context.Cause(ctx), &gone) || ExitStatus(err) == statusNotHeld {
		return err
	}
	gone.write = maybeDone(err) != ""
	return gone
}

// set reports that a connection to servers is lost, or that it is not any more.
func (o *outage) set(servers string, lost bool) {
	o.mu.Lock()
	switch {
	case lost:
		o.down = servers
	case o.down == servers:
		o.down = ""
	}
	said := o.said
	o.watchLocked()
	back := said && !o.said
	o.mu.Unlock()
	if back {
		o.say("Connected again to " + servers)
	}
}

// watchLocked starts or stops the timer as the command and the connection demand.
//
// REQUIRES: o.mu.
func (o *outage) watchLocked() {
	switch wanted := o.cancel != nil && o.down != ""; {
	case wanted && o.timer == nil:
		o.startLocked(outageNotice, o.noticeLocked)
	case !wanted && o.timer != nil:
		o.timer.Stop()
		o.timer, o.said = nil, false
	}
}

// startLocked sets the timer. step runs with o.mu held, unless the timer was stopped;
// the text that it returns is printed.
//
// REQUIRES: o.mu.
func (o *outage) startLocked(d time.Duration, step func() string) {
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		o.mu.Lock()
		text := ""
		if o.timer == timer {
			text = step()
		}
		o.mu.Unlock()
		if text != "" {
			o.say(text)
		}
	})
	o.timer = timer
}

// noticeLocked is the text that the command waits. It starts the timer that ends the
// command.
func (o *outage) noticeLocked() string {
	o.said = true
	o.startLocked(max(o.limit-outageNotice, 0), o.giveUpLocked)
	return fmt.Sprintf("No connection to %s: waiting for at most %v (--timeout)%s", o.down, o.limit, o.hint)
}

// giveUpLocked ends the command, which prints the error.
func (o *outage) giveUpLocked() string {
	o.cancel(outageError{servers: o.down, after: o.limit})
	return ""
}

// lost reports whether operations wait in a state.
func lost(s client.State) bool { return s == client.Suspended || s == client.Connecting }
