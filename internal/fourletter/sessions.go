package fourletter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// ErrNoSessions reports that a server answers dump without a list of its sessions, as the
// learners of Apache ZooKeeper 3.4 do.
var ErrNoSessions = errors.New("the server does not list its sessions")

// maxSessions bounds the part of an answer to dump that lists the sessions, in bytes: two
// million sessions.
const maxSessions = 64 << 20

// SessionsOn asks for dump on a connection that the caller has made, and returns the global
// sessions of the answer with their timeouts, in milliseconds. A leader and a standalone server
// show when sessions expire, and not their timeouts: these are 0. It reads the answer up to the
// end of the list, and closes the connection. The error is ErrNotServing for a server that has no role.
func SessionsOn(ctx context.Context, c net.Conn) (map[zk.SessionID]int32, error) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_, err := io.WriteString(c, "dump")
	if err != nil {
		return nil, fmt.Errorf("dump: %w", errors.Join(ctx.Err(), err))
	}
	all, err := ParseSessions(io.LimitReader(c, maxSessions))
	return all, errors.Join(err, ctx.Err())
}

// endedMeanwhile ends the line of a session that has ended since a learner of Apache ZooKeeper began the list: the learner copies the
// ids, and then looks each timeout up.
const endedMeanwhile = "\tnullms"

// ParseSessions reads the sessions of an answer to dump, as SessionsOn returns them.
func ParseSessions(r io.Reader) (map[zk.SessionID]int32, error) {
	var (
		all            = map[zk.SessionID]int32{}
		listed, global bool
		lines          = bufio.NewScanner(r)
		first          string
	)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "ephemeral nodes dump:" && listed:
			return all, nil
		case line == "ephemeral nodes dump:":
			return nil, fmt.Errorf("dump: %w", ErrNoSessions)
		case strings.Contains(line, "Session Sets (") || strings.Contains(line, "Sessions("):
			global = !strings.HasPrefix(line, "Local ")
			listed = listed || global
		case global && strings.HasPrefix(line, "0x"):
			if strings.HasSuffix(line, endedMeanwhile) {
				continue
			}
			id, timeout, err := parseSession(line)
			if err != nil {
				return nil, fmt.Errorf("dump: %w", err)
			}
			all[id] = timeout
		case first == "":
			first = line
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("dump: %w", lines.Err())
	case first == "" || strings.Contains(first, "not currently serving"):
		return nil, fmt.Errorf("dump: %w", ErrNotServing)
	case listed:
		return nil, fmt.Errorf("dump: %w: the list of sessions does not end", io.ErrUnexpectedEOF)
	}
	return nil, errors.New(strings.TrimSuffix(first, "."))
}

// parseSession reads a line such as "0x100012a 30000ms", or without a timeout.
func parseSession(line string) (zk.SessionID, int32, error) {
	word, rest, _ := strings.Cut(line, "\t")
	id, err := strconv.ParseUint(word[len("0x"):], 16, 64)
	timeout := int64(0)
	if err == nil && rest != "" {
		timeout, err = strconv.ParseInt(strings.TrimSuffix(rest, "ms"), 10, 32)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("session %q: %w", line, err)
	}
	return zk.SessionID(id), int32(timeout), nil
}
