// Package fourletter asks ZooKeeper servers four-letter words.
package fourletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// ErrNotServing is the error of a server that is alive and serves no clients.
var ErrNotServing = errors.New("not serving")

// maxAnswer bounds an answer in bytes.
const maxAnswer = 1 << 20

// Ask sends a word, such as "srvr", and returns the whole answer, which must be there
// before ctx ends.
func Ask(ctx context.Context, addr, word string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", fmt.Errorf("%s: %w", word, err)
	}
	return AskOn(ctx, c, word)
}

// AskOn is Ask on a connection that the caller has made; it is closed then.
func AskOn(ctx context.Context, c net.Conn, word string) (string, error) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	_, err := io.WriteString(c, word)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(c, maxAnswer))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", word, errors.Join(ctx.Err(), err))
	}
	return string(b), nil
}

// A Status is what a server says of itself in answer to srvr.
type Status struct {
	Version string // up to the first comma
	Mode    string // leader, follower, observer, read-only, standalone
	Zxid    zk.Zxid
}

// Srvr asks a server for its status. The error is ErrNotServing for one that has no
// role.
func Srvr(ctx context.Context, addr string) (Status, error) {
	text, err := Ask(ctx, addr, "srvr")
	if err != nil {
		return Status{}, err
	}
	return Parse(text)
}

// Parse reads the answer to srvr. Its errors are those of Srvr.
func Parse(text string) (s Status, err error) {
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
				return Status{}, fmt.Errorf("srvr: zxid %q: %w", value, err)
			}
			s.Zxid = zk.Zxid(z)
		}
	}
	switch {
	case s.Mode != "":
		return s, nil
	case text == "" || strings.Contains(text, "not currently serving"):
		return Status{}, fmt.Errorf("srvr: %w", ErrNotServing)
	}
	return Status{}, fmt.Errorf("srvr: %q has no mode", text)
}
