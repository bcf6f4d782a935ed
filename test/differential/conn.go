package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// answerTimeout is how long a server may take for one answer. A server that
// needs longer is reported as silent, which is a difference unless both are.
const answerTimeout = 10 * time.Second

// maxFrame bounds a frame that a server may send; every answer to what the
// generator asks is far below it.
const maxFrame = 64 << 20

// errSilent is returned by a read that the server left without an answer.
var errSilent = errors.New("no answer in time")

// A conn is one TCP connection to one server. It is used by one goroutine at a
// time.
type conn struct {
	c net.Conn
	r *bufio.Reader
}

// dial opens a connection and sends nothing.
func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, answerTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, r: bufio.NewReaderSize(c, 1<<16)}, nil
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
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, readError(err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", int32(n))
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return nil, readError(err)
	}
	return b, nil
}

func readError(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return errSilent
	}
	return io.EOF
}

func (c *conn) close() { _ = c.c.Close() }

// appendFrame appends the length and body.
func appendFrame(b, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(body))), body...)
}

// fourLetter asks a four-letter word and returns the whole answer, which must
// be there within the patience.
func fourLetter(addr, word string, patience time.Duration) (string, error) {
	c, err := dial(addr)
	if err != nil {
		return "", err
	}
	defer c.close()
	c.send([]byte(word))
	if err := c.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	b, err := io.ReadAll(c.r)
	if err != nil {
		return "", fmt.Errorf("%s: %w", word, err)
	}
	return string(b), nil
}
