package main

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/test/frames"
)

// answerTimeout is how long a server may take for one answer. A server that
// needs longer is reported as silent, which is a difference unless both are.
const answerTimeout = 10 * time.Second

// errSilent is returned by a read that the server left without an answer.
var errSilent = errors.New("no answer in time")

// A conn is one TCP connection to one server. It is used by one goroutine at a
// time.
type conn struct{ c *frames.Conn }

// dial opens a connection and sends nothing.
func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{frames.New(c)}, nil
}

// send writes b as it is. A failed write is not an error here: the server has
// closed the connection, and the next read says so.
func (c *conn) send(b []byte) {
	if err := c.c.SetWriteDeadline(time.Now().Add(answerTimeout)); err == nil {
		_, _ = c.c.Write(b) // the read that follows finds the connection closed
	}
}

// frame reads one frame, which must come within the patience. The error is errSilent, io.EOF for a connection that
// the server closed or reset, or one that describes an impossible length.
func (c *conn) frame(patience time.Duration) ([]byte, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, io.EOF
	}
	b, err := c.c.Next()
	if err != nil && !errors.As(err, new(frames.ErrLength)) {
		err = readError(err)
	}
	return b, err
}

func readError(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return errSilent
	}
	return io.EOF
}

func (c *conn) close() { _ = c.c.Close() }

// fourLetter asks a four-letter word and returns the whole answer.
func fourLetter(addr, word string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return fourletter.Ask(ctx, addr, word)
}
