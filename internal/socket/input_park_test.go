package socket

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/spare"
)

// A caller that has waited for bytes that have not come may consume what there is.
func TestConsumeWhileParked(t *testing.T) {
	var in Input
	in.Init(nil, NewInputPool(64, new(spare.Buffers)), NewBudget(0))
	in.Append([]byte("stmk"))
	in.park()
	in.Consume(1)
	if got := string(in.Bytes()); got != "tmk" {
		t.Errorf("%q", got)
	}
	in.Append([]byte("!"))
	if got := string(in.Bytes()); got != "tmk!" {
		t.Errorf("%q", got)
	}
	in.park()
	in.Consume(4)
	if in.Len() != 0 || in.account.Held() != 0 {
		t.Errorf("%d bytes are left, %d are charged", in.Len(), in.account.Held())
	}
}

// Buffers grow in turns. An Input that waits for its turn keeps no other from reading, and none has a turn while it waits
// for its peer.
func TestBuffersGrowInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 64
		pool, budget := NewInputPool(size, new(spare.Buffers)), NewBudget(0)
		open := func() (*Input, net.Conn, chan error) {
			in, filled := new(Input), make(chan error, 1)
			near, far := net.Pipe()
			in.Init(New(near, Options{}), pool, budget)
			return in, far, filled
		}
		fill := func(in *Input, filled chan error) {
			go func() { filled <- in.Fill() }()
			synctest.Wait()
		}
		for range cap(pool.turns) {
			pool.turns <- struct{}{} // others have the turns
		}
		first, peer, filled := open()
		closed, _, ended := open()
		first.Append(bytes.Repeat([]byte("f"), size))
		closed.Append(bytes.Repeat([]byte("c"), size))
		fill(first, filled)
		fill(closed, ended)
		if len(*first.buf) != size || len(*closed.buf) != size {
			t.Error("a buffer grew out of turn")
		}
		small, other, done := open()
		fill(small, done)
		if _, err := other.Write([]byte("small")); err != nil || <-done != nil || small.Len() != len("small") {
			t.Errorf("another reads %q, %v", small.Bytes(), err)
		}
		closed.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed while it waited: %v", err)
		}
		<-pool.turns
		synctest.Wait()
		if len(*first.buf) != 2*size || len(pool.turns) != cap(pool.turns)-1 || len(filled) > 0 {
			t.Errorf("a buffer of %d bytes, %d turns in use, while the Input waits for its peer", len(*first.buf), len(pool.turns))
		}
		if _, err := peer.Write([]byte("more")); err != nil || <-filled != nil || string(first.Bytes()[size-1:]) != "fmore" {
			t.Errorf("it reads %q, %v", first.Bytes(), err)
		}
		for _, nc := range []net.Conn{peer, other, first.conn.nc, small.conn.nc, closed.conn.nc} {
			nc.Close()
		}
	})
}

// A buffer that has grown is filled in turns as well, and another is not.
func TestLargeBuffersAreFilledInTurns(t *testing.T) {
	in, peer := inputOn(t)
	pool := in.pool
	for range cap(pool.turns) {
		pool.turns <- struct{}{} // others have the turns
	}
	if _, err := peer.Write([]byte("small")); err != nil || in.Fill() != nil || string(in.Bytes()) != "small" {
		t.Errorf("without a turn it reads %q, %v", in.Bytes(), err)
	}
	<-pool.turns
	in.Append(bytes.Repeat([]byte("l"), pool.size))
	if _, err := peer.Write([]byte("large")); err != nil || in.Fill() != nil || !bytes.HasSuffix(in.Bytes(), []byte("large")) {
		t.Errorf("in its turn it reads %d bytes, %v", in.Len(), err)
	}
	if n := len(pool.turns); n != cap(pool.turns)-1 {
		t.Errorf("it keeps its turn: %d of %d are in use", n, cap(pool.turns))
	}
	pool.turns <- struct{}{}
	in.account.Close()
	if _, err := peer.Write([]byte("more")); err != nil || !errors.Is(in.Fill(), net.ErrClosed) {
		t.Errorf("without a turn it has read %d bytes, %v", in.Len(), err)
	}
}
