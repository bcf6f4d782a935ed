package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// ErrNotServing marks the answer of a member that is alive and has no role yet.
var ErrNotServing = errors.New("not serving")

// maxAnswer bounds the answer to a four-letter word.
const maxAnswer = 1 << 20

// Ask sends a four-letter word and returns the whole answer, which must be there
// within the patience.
func Ask(addr, word string, patience time.Duration) (string, error) {
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return "", fmt.Errorf("cluster: %s: %w", word, err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", fmt.Errorf("cluster: %s: %w", word, err)
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", fmt.Errorf("cluster: %s: %w", word, err)
	}
	b, err := io.ReadAll(io.LimitReader(c, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("cluster: %s: %w", word, err)
	}
	return string(b), nil
}

// A Status is what a member says of itself in answer to srvr.
type Status struct {
	Version string
	Mode    string // leader, follower, observer, standalone
	Zxid    zk.Zxid
}

// Query asks a member for its status. The error is ErrNotServing for one that
// looks for a leader, another for one that does not answer within the patience.
func Query(addr string, patience time.Duration) (Status, error) {
	// Apache 3.4.13 on a recent JVM mostly closes the connection before it has answered.
	for range 50 {
		text, err := Ask(addr, "srvr", patience)
		if err != nil {
			return Status{}, err
		}
		if text != "" {
			return parseStatus(text)
		}
	}
	return parseStatus("")
}

func parseStatus(text string) (Status, error) {
	var s Status
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Zookeeper version":
			s.Version, _, _ = strings.Cut(value, ",")
		case "Mode":
			s.Mode = value
		case "Zxid":
			z, err := strconv.ParseUint(strings.TrimPrefix(value, "0x"), 16, 64)
			if err != nil {
				return Status{}, fmt.Errorf("cluster: srvr: zxid %q: %w", value, err)
			}
			s.Zxid = zk.Zxid(z)
		}
	}
	switch {
	case s.Mode != "":
		return s, nil
	case text == "" || strings.Contains(text, "not currently serving"):
		return Status{}, fmt.Errorf("cluster: srvr: %w", ErrNotServing)
	}
	return Status{}, fmt.Errorf("cluster: srvr: %q has no mode", text)
}
