package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A command that waits for a server says so after a second, gives up after --timeout,
// and the shell goes on.
func TestACommandWithoutAServerSaysSo(t *testing.T) {
	atTerminal(t, console{}, statusOK, func(p *typist) {
		p.types("ls /\r")
		p.server.Stop()
		synctest.Wait()
		p.types("ls /zookeeper\r")
		time.Sleep(outageNotice - time.Millisecond)
		synctest.Wait()
		if got := p.errs.take() + p.out.take(); strings.Contains(got, "No connection") {
			t.Errorf("before a second it says %q", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if got := p.out.take(); !strings.Contains(got, "No connection to 10.0.0.1:2181: waiting for at most 10s (--timeout); Ctrl-C ends the command") {
			t.Errorf("after a second it says %q", got)
		}
		time.Sleep(10*time.Second - outageNotice)
		synctest.Wait()
		if got := p.out.take(); !strings.Contains(got, "Gave up: no connection to 10.0.0.1:2181 for 10s") || !strings.Contains(got, "CONNECTING) 2] ") {
			t.Errorf("after --timeout it says %q", got)
		}
		p.types("ls /zookeeper\r") // waits anew
		time.Sleep(2 * time.Second)
		p.out.take()
		p.server.Start()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := p.out.take(); !strings.Contains(got, "[config, quota]") {
			t.Errorf("after the server's start it says %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := p.out.take(); strings.Contains(got, "No connection") || strings.Contains(got, "Gave up") {
			t.Errorf("without a command it says %q", got)
		}
	})
}

// A server that goes while a command of a script runs: the same, with status 3.
func TestAScriptWithoutAServerGivesUp(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /a")
		r.server.Stop()
		synctest.Wait()
		began := time.Now()
		out, errs, status := r.do("set /a x")
		if waited := time.Since(began); waited < 9*time.Second || waited > 11*time.Second {
			t.Errorf("it gave up after %v", waited)
		}
		const want = "No connection to 10.0.0.1:2181: waiting for at most 10s (--timeout)\n" +
			"Gave up: no connection to 10.0.0.1:2181 for 10s; the write may still be carried out when the connection is back: look before you repeat it\n(is a server running there? --timeout waits longer)\n"
		if out != "" || errs != want || status != statusNoConnection {
			t.Errorf("status %d, output %q, errors %q, want %q", status, out, errs, want)
		}
		r.server.Start()
		time.Sleep(5 * time.Second)
		if out := r.must("get /a"); out != "x\n" { // as the error says: the request keeps its place in the session
			t.Errorf("after the server's start: %q", out)
		}
	})
}

// A command that runs on says when the connection is back, and does not give up.
func TestACommandSaysThatItIsConnectedAgain(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.must("create /a")
		ctx, stop := context.WithCancel(r.t.Context())
		ended := make(chan error)
		go func() { ended <- r.execute(ctx, "watch /a") }()
		time.Sleep(time.Second)
		r.server.Stop()
		time.Sleep(3 * time.Second)
		r.server.Start()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		err := <-ended
		const want = "No connection to 10.0.0.1:2181: waiting for at most 10s (--timeout)\nConnected again to 10.0.0.1:2181\n"
		if errs := r.errs.take(); errs != want || err != nil {
			t.Errorf("%v, %q, want %q", err, errs, want)
		}
	})
}

// Commands that wait for events or run others give up too.
func TestWaitingCommandsGiveUp(t *testing.T) {
	for _, line := range []string{"watch /", "time sync /"} {
		inBubble(t, nil, func(r *rig) {
			r.must("create /a")
			go func() {
				time.Sleep(time.Second)
				r.server.Stop()
			}()
			if line != "watch /" {
				time.Sleep(2 * time.Second)
				synctest.Wait()
			}
			_, errs, status := r.do(line)
			if strings.Count(errs, "No connection to") != 1 || strings.Count(errs, "Gave up: no connection to 10.0.0.1:2181 for 10s") != 1 || status != statusNoConnection {
				t.Errorf("%s: status %d, %q", line, status, errs)
			}
			r.server.Start()
		})
	}
}
