// Package trial runs an ensemble on this machine, for trying it out: each server is a
// process of its own, on 127.0.0.1 only.
package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// Ensemble is what `pinfold ensemble` runs: the processes of all servers. One goroutine
// uses it; each of the others waits for one process.
type Ensemble struct {
	Participants, Observers int
	Dir                     string        // of the data; it is created if it is missing
	BasePort                int           // client port of server 1
	ServerArgs              []string      // arguments after `server zoo.cfg`
	Executable              string        // the file name of pinfold
	Out                     io.Writer     // reports for the user; its errors are ignored
	StopWithin              time.Duration // time for a server to stop before it is killed

	members []*member
	ended   chan *member // members whose process has ended
}

// The client port of server i, counted from 0, is BasePort + i. Its ports for the other
// servers are higher by these offsets.
const (
	quorumOffset   = 100
	electionOffset = 200
	maxTrial       = 100 // servers; with more the ranges would overlap
	maxPort        = 65535
)

func (e *Ensemble) clientPort(i int) int { return e.BasePort + i }

func (e *Ensemble) size() int { return e.Participants + e.Observers }

func (e *Ensemble) checkFlags() error {
	switch most := maxPort - electionOffset - maxTrial; {
	case e.Participants < 1:
		return errors.New("ensemble: --servers must be 1 or more")
	case e.Observers < 0:
		return errors.New("ensemble: --observers must be 0 or more")
	case e.size() > maxTrial:
		return fmt.Errorf("ensemble: %d servers are too many for one machine; at most %d", e.size(), maxTrial)
	case e.BasePort < 1 || e.BasePort > most:
		return fmt.Errorf("ensemble: --base-port must be between 1 and %d", most)
	}
	return nil
}

// Run starts the servers, reports leaders and ended servers, and stops the servers when
// ctx ends, which is no error. It fails if a server cannot start, ends before there is
// a leader, or does not stop, and when no server is left.
func (e *Ensemble) Run(ctx context.Context) (err error) {
	if err := e.checkFlags(); err != nil {
		return err
	}
	if e.Dir, err = filepath.Abs(e.Dir); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	if err := e.claimDir(); err != nil {
		return err
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(e.Dir, markName))
	if err != nil {
		return fmt.Errorf("ensemble: another one may run in this directory: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := e.checkPorts(); err != nil {
		return err
	}
	if err := e.writeConfigs(); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	defer func() { err = errors.Join(err, e.stop()) }()
	if err := e.start(); err != nil {
		return err
	}
	return e.watch(ctx)
}

// markName is a file that marks a directory as one of this package, holds the number of
// participants, and is locked while they run.
const markName = "ENSEMBLE"

const markText = "This directory belongs to `pinfold ensemble`.\nservers=%d\n"

// claimDir creates the directory, or checks that it belongs to an ensemble with the
// same number of participants. With another number, a quorum might have none of the
// servers with the latest writes, and those could be lost.
func (e *Ensemble) claimDir() error {
	mark := filepath.Join(e.Dir, markName)
	text, err := os.ReadFile(mark)
	switch {
	case err == nil:
		var servers int
		if _, err := fmt.Sscanf(string(text), markText, &servers); err != nil {
			return fmt.Errorf("ensemble: %s: not written by pinfold ensemble; choose another --dir", mark)
		}
		if servers != e.Participants {
			return fmt.Errorf("ensemble: %s holds the data of an ensemble of %d; run it with --servers %d, or choose another --dir",
				e.Dir, servers, servers)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("ensemble: %w", err)
	}
	entries, err := os.ReadDir(e.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ensemble: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("ensemble: %s is not empty, and not of an ensemble; choose another --dir", e.Dir)
	}
	if err := os.MkdirAll(e.Dir, 0o755); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	if err := os.WriteFile(mark, fmt.Appendf(nil, markText, e.Participants), 0o644); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	return nil
}

// checkPorts checks that all ports are free. If one is not, the error says what may use
// it.
func (e *Ensemble) checkPorts() error {
	for i := range e.size() {
		for _, port := range []int{e.clientPort(i), e.clientPort(i) + quorumOffset, e.clientPort(i) + electionOffset} {
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				err = listener.Close()
			}
			if err != nil {
				return fmt.Errorf("ensemble: server %d cannot use port %d: %w; choose another --base-port%s",
					i+1, port, err, e.leftOver())
			}
		}
	}
	return nil
}

// leftOver names the processes that an earlier run may have left.
func (e *Ensemble) leftOver() string {
	var pids []string
	for i := range e.size() {
		if text, err := os.ReadFile(e.path(i, "pid")); err == nil {
			pids = append(pids, strings.TrimSpace(string(text)))
		}
	}
	if len(pids) == 0 {
		return ""
	}
	return ", or end what an earlier run has left, if these are its processes: " + strings.Join(pids, " ")
}

// path returns a file of server i, counted from 0.
func (e *Ensemble) path(i int, name string) string {
	return filepath.Join(e.Dir, strconv.Itoa(i+1), name)
}

func (e *Ensemble) writeConfigs() error {
	for i := range e.size() {
		data := e.path(i, "data")
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), fmt.Appendf(nil, "%d\n", i+1), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(e.path(i, "zoo.cfg"), e.config(i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// config is the zoo.cfg of server i, counted from 0.
func (e *Ensemble) config(i int) []byte {
	var b []byte
	b = append(b, "# Written by pinfold ensemble at each start.\n"...)
	b = append(b, "tickTime=2000\ninitLimit=10\nsyncLimit=5\n"...)
	b = fmt.Appendf(b, "dataDir=%s\n", propertyValue(e.path(i, "data")))
	b = fmt.Appendf(b, "clientPort=%d\nclientPortAddress=127.0.0.1\n", e.clientPort(i))
	b = append(b, "4lw.commands.whitelist=*\nreconfigEnabled=true\n"...)
	if e.Participants == 1 {
		b = append(b, "standaloneEnabled=false\n"...)
	}
	if i >= e.Participants {
		b = append(b, "peerType=observer\n"...)
	}
	for j := range e.size() {
		role := "participant"
		if j >= e.Participants {
			role = "observer"
		}
		b = fmt.Appendf(b, "server.%d=127.0.0.1:%d:%d:%s;127.0.0.1:%d\n", j+1,
			e.clientPort(j)+quorumOffset, e.clientPort(j)+electionOffset, role, e.clientPort(j))
	}
	return b
}

// propertyValue escapes s for a file of Java properties.
func propertyValue(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r < ' ' || r > '~':
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// connectString returns the addresses of all servers, as clients expect them.
func (e *Ensemble) connectString() string {
	var all []string
	for i := range e.size() {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(e.clientPort(i))))
	}
	return strings.Join(all, ",")
}
