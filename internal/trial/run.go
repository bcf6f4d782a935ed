package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// A member is one server of a local ensemble.
type member struct {
	index   int // from 0; the server's number is one more
	port    int
	process *exec.Cmd
	ended   bool // process.ProcessState holds the result

	// If the user has started the server again in place of an ended process, that
	// process counts.

	state   serverState
	serving bool // it served when it was last asked
	silent  int  // polls in a row that it did not answer
}

func (m *member) number() int { return m.index + 1 }

// serverState is what a server reports about itself.
type serverState struct {
	mode  string // leader, follower, observer; "" if it serves no clients
	epoch uint32 // of the last transaction that it has seen
}

const (
	pollInterval = 200 * time.Millisecond
	answerWithin = 500 * time.Millisecond
	silentPolls  = 5 // polls without an answer before it is reported

	// settleWithin is how long the summary waits for the other servers to follow,
	// once there is a leader.
	settleWithin = 3 * time.Second

	// patience is how long there may be no leader before a line says where to look.
	patience = 15 * time.Second

	// signalReaches is how much later Ctrl-C in a terminal, which goes to the
	// servers as well as to this process, may reach this process than a server ends
	// because of it.
	signalReaches = 100 * time.Millisecond
)

// start starts all processes. If it fails, e.members has those that it has started.
func (e *Ensemble) start() error {
	e.ended = make(chan *member, e.size())
	for i := range e.size() {
		if err := e.launch(i); err != nil {
			return fmt.Errorf("ensemble: server %d: %w", i+1, err)
		}
	}
	return nil
}

// launch starts the process of server i, counted from 0. Its output is appended to the
// file log.
func (e *Ensemble) launch(i int) error {
	log, err := os.OpenFile(e.path(i, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own descriptor
	args := append([]string{"server", e.path(i, "zoo.cfg")}, e.ServerArgs...)
	m := &member{index: i, port: e.clientPort(i), process: exec.Command(e.Executable, args...)}
	m.process.Stdout, m.process.Stderr = log, log
	if err := m.process.Start(); err != nil {
		return err
	}
	e.members = append(e.members, m)
	go e.await(m)
	return os.WriteFile(e.path(i, "pid"), fmt.Appendf(nil, "%d\n", m.process.Process.Pid), 0o644)
}

// await waits for the end of the process. Its ProcessState holds the result, which no
// other goroutine reads before m is received from e.ended.
func (e *Ensemble) await(m *member) {
	// ProcessState has the same information as the error: no output is copied that
	// could fail.
	_ = m.process.Wait()
	e.ended <- m
}

// watch reports events until ctx ends, which is no error; until no process is left; or
// until a process ends before there is a leader.
func (e *Ensemble) watch(ctx context.Context) error {
	e.sayf("An ensemble of %d in %s; waiting for a leader ...\n", e.size(), e.shortDir())
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	r := leaderReport{began: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-e.ended:
			m.ended, m.serving, m.state = true, false, serverState{}
			if stopping(ctx) {
				return nil
			}
			e.eventf("server %d (pid %d) has ended: %v", m.number(), m.process.Process.Pid, m.process.ProcessState)
			if !r.ready {
				return fmt.Errorf("ensemble: server %d does not run; its log ends with\n%s", m.number(), e.logTail(m))
			}
			if e.running() == 0 {
				return errors.New("ensemble: no server is left")
			}
		case <-ticker.C:
		}
		e.poll(r.ready)
		e.report(&r, time.Now())
	}
}

// leaderReport is what the user was told so far.
type leaderReport struct {
	began         time.Time
	delayReported bool // it was reported that there is no leader yet
	ready         bool // the summary was printed
	since         time.Time
	leader        int // its number; 0: none
	epoch         uint32
}

// report prints the summary once there is a leader, and later each change of leader.
func (e *Ensemble) report(r *leaderReport, now time.Time) {
	leader, epoch := e.leader()
	changed := leader != r.leader || epoch != r.epoch
	switch {
	case r.ready && changed:
		e.reportLeader(r.leader, leader, epoch)
	case r.ready:
	case leader == 0 && !r.delayReported && now.Sub(r.began) > patience:
		e.sayf("no leader yet; what the servers say is in %s\n", filepath.Join(e.shortDir(), "*", "log"))
		r.delayReported = true
	case leader != 0 && r.leader == 0:
		r.since = now
	}
	r.leader, r.epoch = leader, epoch
	if !r.ready && leader != 0 && (e.settled() || now.Sub(r.since) > settleWithin) {
		r.ready = true
		e.summarise(leader, epoch, now.Sub(r.began))
	}
}

// stopping reports whether ctx has ended, or ends within the time that a signal to all
// processes of a terminal needs.
func stopping(ctx context.Context) bool {
	timer := time.NewTimer(signalReaches)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true
	case <-timer.C:
		return false
	}
}

// poll asks every server for its state. If report is set, it prints which servers have
// stopped answering and which serve again.
func (e *Ensemble) poll(report bool) {
	for _, m := range e.members {
		state, err := askServer(m.port)
		switch {
		case err == nil:
			m.state, m.silent = state, 0
			if state.mode != "" && !m.serving {
				m.serving = true
				if report {
					e.reportBack(m)
				}
			}
		case m.serving && m.silent+1 < silentPolls:
			m.silent++ // it may be busy
		default:
			if m.serving && report {
				e.eventf("server %d does not answer", m.number())
			}
			m.state, m.serving = serverState{}, false
		}
	}
}

// reportBack reports that a server serves. It does not report that the server leads:
// reportLeader does that, and a server that was paused may wrongly believe it.
func (e *Ensemble) reportBack(m *member) {
	as := ""
	if m.state.mode != "leader" {
		as = " as " + m.state.mode
	}
	e.eventf("server %d serves%s", m.number(), as)
}

// askServer returns what a server says of itself. A server that answers but serves no
// clients has no mode.
func askServer(port int) (serverState, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	s, err := fourletter.Srvr(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, fourletter.ErrNotServing) {
		err = nil
	}
	return serverState{s.Mode, s.Zxid.Epoch()}, err
}

// leader returns the number of the server that leads, and its epoch; 0 if none does. If
// two servers believe that they lead, it is the one of the later epoch.
func (e *Ensemble) leader() (number int, epoch uint32) {
	for _, m := range e.members {
		if m.state.mode == "leader" && (number == 0 || m.state.epoch > epoch) {
			number, epoch = m.number(), m.state.epoch
		}
	}
	return number, epoch
}

func (e *Ensemble) reportLeader(before, now int, epoch uint32) {
	switch {
	case now == 0:
		e.eventf("no server leads")
	case now == before:
		e.eventf("server %d leads again, epoch %d", now, epoch)
	default:
		e.eventf("server %d leads, epoch %d", now, epoch)
	}
}

// settled reports whether every server serves.
func (e *Ensemble) settled() bool {
	for _, m := range e.members {
		if m.state.mode == "" {
			return false
		}
	}
	return true
}

func (e *Ensemble) running() (n int) {
	for _, m := range e.members {
		if !m.ended {
			n++
		}
	}
	return n
}

// summarise prints the servers, and commands to try.
func (e *Ensemble) summarise(leader int, epoch uint32, took time.Duration) {
	e.sayf("server %d leads, epoch %d, after %.1f s\n\n", leader, epoch, took.Seconds())
	dir := e.shortDir()
	for _, m := range e.members {
		mode := m.state.mode
		if mode == "" {
			mode = "not serving"
		}
		e.sayf("  server %d   127.0.0.1:%d   %-13s  pid %-7d  %s\n", m.number(), m.port, mode, m.process.Process.Pid,
			filepath.Join(dir, strconv.Itoa(m.number()), "log"))
	}
	e.sayf("\nClients connect to %s\n\nTo see it work, in another terminal:\n", e.connectString())
	own := filepath.Join(dir, strconv.Itoa(leader))
	hints := [][2]string{
		{fmt.Sprintf("echo srvr | nc 127.0.0.1 %d", e.members[leader-1].port), "the state of a server"},
		{fmt.Sprintf("kill -9 $(cat %s)", filepath.Join(own, "pid")), e.afterKill()},
		{fmt.Sprintf("pinfold server %s", filepath.Join(own, "zoo.cfg")), "and start it again"},
	}
	width := 0
	for _, h := range hints {
		width = max(width, len(h[0]))
	}
	for _, h := range hints {
		e.sayf("  %-*s   %s\n", width, h[0], h[1])
	}
	e.sayf("Ctrl-C stops all.\n\n")
}

// afterKill says what the end of the leader does: the others go on if they are a majority.
func (e *Ensemble) afterKill() string {
	if e.Participants < 3 {
		return "end the leader: no server serves until it is back"
	}
	return "end the leader: another one takes over"
}

// shortDir returns the directory, relative to the working directory if it is inside
// that.
func (e *Ensemble) shortDir() string {
	wd, err := os.Getwd()
	if err != nil {
		return e.Dir
	}
	if rel, err := filepath.Rel(wd, e.Dir); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return e.Dir
}

// logTail returns the last lines of a server's log.
func (e *Ensemble) logTail(m *member) string {
	const lines, most = 8, 4 << 10
	f, err := os.Open(e.path(m.index, "log"))
	if err != nil {
		return err.Error()
	}
	defer f.Close() // read only
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(max(0, end-most), io.SeekStart)
	}
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return "  " + strings.Join(all[max(0, len(all)-lines):], "\n  ")
}

// stop asks the remaining processes to end, and kills those that do not. The error says
// which had to be killed.
func (e *Ensemble) stop() error {
	if len(e.members) == 0 {
		return nil
	}
	e.sayf("stopping\n")
	for _, m := range e.members {
		if m.ended {
			continue
		}
		// It may have ended meanwhile, or the system may not have such a
		// signal.
		if err := m.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			e.kill(m)
		}
	}
	timer := time.NewTimer(e.StopWithin)
	defer timer.Stop()
	var errs []error
	for e.running() > 0 {
		select {
		case m := <-e.ended:
			m.ended = true
		case <-timer.C:
			for _, m := range e.members {
				if !m.ended {
					errs = append(errs, fmt.Errorf("ensemble: server %d did not stop within %v and was killed", m.number(), e.StopWithin))
					e.kill(m)
				}
			}
		}
	}
	for _, m := range e.members {
		if err := os.Remove(e.path(m.index, "pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("ensemble: %w", err))
		}
		if _, err := askServer(m.port); err == nil {
			e.sayf("server %d still runs: this command did not start it\n", m.number())
		}
	}
	return errors.Join(errs...)
}

// kill kills a process that did not stop. Its end is received from e.ended.
func (e *Ensemble) kill(m *member) {
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		e.sayf("server %d cannot be ended: %v\n", m.number(), err)
	}
}

func (e *Ensemble) eventf(format string, args ...any) {
	e.sayf("%s  %s\n", time.Now().Format("15:04:05.0"), fmt.Sprintf(format, args...))
}

// sayf prints to the user. Errors of the output are ignored.
func (e *Ensemble) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(e.Out, format, args...)
}
