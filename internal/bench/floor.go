package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Floor is a server that keeps nothing: it answers every request at once from
// one fixed buffer. What it costs under a load is what connections, system
// calls and copying cost; what a real server costs above that is its own. It
// also shows how much the generator can do.
type Floor struct {
	Size int // bytes of the value that every read returns
}

// Serve accepts connections until ctx ends, then closes them all and returns
// nil. It closes ln. It serves a connection with one goroutine.
func (f Floor) Serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { ln.Close() })
	for id := zk.SessionID(1); ; id++ {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("bench: floor: %w", err)
		}
		wg.Go(func() {
			defer context.AfterFunc(ctx, func() { c.Close() })()
			defer c.Close()
			// A client that goes away, or is none, only ends its connection.
			_ = f.serve(c, id)
		})
	}
}

// serve shakes hands and answers until the client closes.
func (f Floor) serve(c net.Conn, id zk.SessionID) error {
	r := bufio.NewReaderSize(c, 64<<10)
	b, err := readFrameFrom(r, nil)
	if err != nil {
		return err
	}
	var request wire.ConnectRequest
	d := jute.NewDecoder(b)
	request.Decode(&d)
	if d.Err() != nil {
		return d.Err()
	}
	response := wire.ConnectResponse{
		TimeoutMillis: request.TimeoutMillis,
		SessionID:     id,
		Password:      make([]byte, wire.PasswordLen),
		HasReadOnly:   request.HasReadOnly,
	}
	out := response.Append(make([]byte, 4))
	jute.PutInt(out, int32(len(out)-4))
	data := jute.AppendBuffer(nil, fixedValue(f.Size))
	data = append(data, make([]byte, statBytes)...)
	for {
		if r.Buffered() < 4 || !frameBuffered(r) {
			// Nothing more can be answered from what has been read.
			if _, err := c.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
		if b, err = readFrameFrom(r, b); err != nil {
			return err
		}
		d := jute.NewDecoder(b)
		var head wire.RequestHeader
		head.Decode(&d)
		if d.Err() != nil {
			return d.Err()
		}
		out = f.answer(out, head, d.Rest(), data)
		if head.Op == wire.OpCloseSession {
			_, err := c.Write(out)
			return errors.Join(err, io.EOF)
		}
	}
}

// frameBuffered reports whether r holds a whole frame. REQUIRES: it holds 4 bytes.
func frameBuffered(r *bufio.Reader) bool {
	head, err := r.Peek(4)
	d := jute.NewDecoder(head)
	return err == nil && r.Buffered() >= 4+int(d.Int())
}

// answer appends the reply to a request whose body is given.
func (f Floor) answer(out []byte, head wire.RequestHeader, body, data []byte) []byte {
	start := len(out)
	out = wire.ReplyHeader{Xid: head.Xid, Zxid: 1}.Append(append(out, 0, 0, 0, 0))
	switch head.Op {
	case wire.OpGetData:
		out = append(out, data...)
	case wire.OpSetData, wire.OpExists:
		out = append(out, data[len(data)-statBytes:]...)
	case wire.OpCreate:
		d := jute.NewDecoder(body)
		out = jute.AppendString(out, d.String())
	}
	jute.PutInt(out[start:], int32(len(out)-start-4))
	return out
}
