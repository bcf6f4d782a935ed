package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf16"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

func ensembleCommand() *cobra.Command {
	var e ensemble
	cmd := &cobra.Command{
		Use:   "ensemble [flags] [-- -Dname=value ...]",
		Short: "Run an ensemble of servers on this machine, to try one",
		Long: `Run an ensemble on this machine, to try one: each server is a process of its
own, on 127.0.0.1 only. It prints where to connect and who leads, and goes on to
say who leads and who has ended. Ctrl-C stops all. The data stays in --dir, and
the next start goes on with it.

Server N keeps everything in DIR/N: zoo.cfg, written anew at each start, data,
and what it says, log. It takes clients at the N-th port from --base-port on, its
peers 100 and 200 above. What stands behind -- is for each of the servers.`,
		Example: `  pinfold ensemble
  pinfold ensemble --servers 5 --observers 1 --dir /tmp/five --base-port 3181
  pinfold ensemble -- -Dzookeeper.extendedTypesEnabled=true

  kill -9 $(cat pinfold-ensemble/3/pid)          # and see who leads then
  pinfold server pinfold-ensemble/3/zoo.cfg      # starts it again, by hand`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
				return fmt.Errorf("ensemble: unknown argument %q; what is for the servers stands behind --", args[0])
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			context.AfterFunc(ctx, stop) // a second interrupt does not wait
			var err error
			if e.executable, err = os.Executable(); err != nil {
				return fmt.Errorf("ensemble: %w", err)
			}
			e.serverArgs, e.out, e.stopWithin = args, cmd.OutOrStdout(), stopWithin
			return e.run(ctx)
		},
	}
	f := cmd.Flags()
	f.IntVar(&e.participants, "servers", 3, "servers that vote")
	f.IntVar(&e.observers, "observers", 0, "servers that do not")
	f.StringVar(&e.dir, "dir", "pinfold-ensemble", "directory of the data, made if it is not there")
	f.IntVar(&e.basePort, "base-port", 2181, "client port of server 1")
	return cmd
}

// An ensemble is what `pinfold ensemble` runs: the processes of all servers. It
// is used by one goroutine; the others only wait for a process each.
type ensemble struct {
	participants, observers int
	dir                     string
	basePort                int
	serverArgs              []string      // behind `server zoo.cfg`
	executable              string        // this binary
	out                     io.Writer     // what the user reads
	stopWithin              time.Duration // what a server has to stop by itself

	members []*trialMember
	ended   chan *trialMember // those whose process has ended
}

// The ports of server i, counted from 0, are i above the base port, and as many
// more for its peers.
const (
	quorumOffset   = 100
	electionOffset = 200
	maxTrial       = 100 // servers, so that the ranges do not meet
	maxPort        = 65535
)

func (e *ensemble) clientPort(i int) int { return e.basePort + i }

func (e *ensemble) size() int { return e.participants + e.observers }

func (e *ensemble) checkFlags() error {
	switch most := maxPort - electionOffset - maxTrial; {
	case e.participants < 1:
		return errors.New("ensemble: --servers must be 1 or more")
	case e.observers < 0:
		return errors.New("ensemble: --observers must be 0 or more")
	case e.size() > maxTrial:
		return fmt.Errorf("ensemble: %d servers are too many for one machine; at most %d", e.size(), maxTrial)
	case e.basePort < 1 || e.basePort > most:
		return fmt.Errorf("ensemble: --base-port must be between 1 and %d", most)
	}
	return nil
}

// run starts the servers, reports until ctx ends or no server is left, and stops
// them.
func (e *ensemble) run(ctx context.Context) (err error) {
	if err := e.checkFlags(); err != nil {
		return err
	}
	if e.dir, err = filepath.Abs(e.dir); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	if err := e.claimDir(); err != nil {
		return err
	}
	lock, err := vfs.OS{}.Lock(filepath.Join(e.dir, markName))
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

// markName is a file that makes a directory ours, keeps the number of the
// participants, and is locked while they run.
const markName = "ENSEMBLE"

const markText = "This directory belongs to `pinfold ensemble`.\nservers=%d\n"

// claimDir makes the directory, or makes sure that it is of an ensemble with as
// many participants: in the data of some of them there may be none of the latest
// writes, so that other numbers could lose them.
func (e *ensemble) claimDir() error {
	mark := filepath.Join(e.dir, markName)
	text, err := os.ReadFile(mark)
	switch {
	case err == nil:
		var servers int
		if _, err := fmt.Sscanf(string(text), markText, &servers); err != nil {
			return fmt.Errorf("ensemble: %s: not written by pinfold ensemble; choose another --dir", mark)
		}
		if servers != e.participants {
			return fmt.Errorf("ensemble: %s holds the data of an ensemble of %d; run it with --servers %d, or choose another --dir",
				e.dir, servers, servers)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("ensemble: %w", err)
	}
	entries, err := os.ReadDir(e.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ensemble: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("ensemble: %s is not empty, and not of an ensemble; choose another --dir", e.dir)
	}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	if err := os.WriteFile(mark, fmt.Appendf(nil, markText, e.participants), 0o644); err != nil {
		return fmt.Errorf("ensemble: %w", err)
	}
	return nil
}

// checkPorts makes sure that all ports are free, and says what may be there if
// one is not.
func (e *ensemble) checkPorts() error {
	for i := range e.size() {
		for _, port := range []int{e.clientPort(i), e.clientPort(i) + quorumOffset, e.clientPort(i) + electionOffset} {
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				err = listener.Close()
			}
			if err != nil {
				return fmt.Errorf("ensemble: server %d cannot have port %d: %w; choose another --base-port%s",
					i+1, port, err, e.leftOver())
			}
		}
	}
	return nil
}

// leftOver names the processes that an earlier run may have left behind.
func (e *ensemble) leftOver() string {
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
func (e *ensemble) path(i int, name string) string {
	return filepath.Join(e.dir, strconv.Itoa(i+1), name)
}

func (e *ensemble) writeConfigs() error {
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
func (e *ensemble) config(i int) []byte {
	var b []byte
	b = append(b, "# Written by pinfold ensemble at each start.\n"...)
	b = append(b, "tickTime=2000\ninitLimit=10\nsyncLimit=5\n"...)
	b = fmt.Appendf(b, "dataDir=%s\n", propertyValue(e.path(i, "data")))
	b = fmt.Appendf(b, "clientPort=%d\nclientPortAddress=127.0.0.1\n", e.clientPort(i))
	b = append(b, "4lw.commands.whitelist=*\n"...)
	if e.participants == 1 {
		b = append(b, "standaloneEnabled=false\n"...)
	}
	if i >= e.participants {
		b = append(b, "peerType=observer\n"...)
	}
	for j := range e.size() {
		role := "participant"
		if j >= e.participants {
			role = "observer"
		}
		b = fmt.Appendf(b, "server.%d=127.0.0.1:%d:%d:%s\n", j+1,
			e.clientPort(j)+quorumOffset, e.clientPort(j)+electionOffset, role)
	}
	return b
}

// propertyValue writes s so that a file of Java's properties gives it back.
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

// connectString is what clients are given.
func (e *ensemble) connectString() string {
	var all []string
	for i := range e.size() {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(e.clientPort(i))))
	}
	return strings.Join(all, ",")
}
