package server

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A write whose body is no record is answered in its place, and is no transaction:
// it takes no zxid here, nor one from the leader. Apache 3.9 answers it so, and its
// ensembles do not survive one that is forwarded to a leader. What can be read and is
// refused takes one, and so does a multi.
func TestMalformedWriteIsNoTransaction(t *testing.T) {
	c := newRig(t).open()
	first := c.create("/a", "", zk.Persistent).Zxid
	nullPath := append([]byte{0xFF, 0xFF, 0xFF, 0xFF}, createBody("", nil, zk.Persistent)[4:]...)
	pipelined := []struct {
		op      wire.OpCode
		body    []byte
		code    zk.Code
		counter zk.Zxid // of the reply, from first on
	}{
		{wire.OpSetData, setBody("/a", nil), zk.OK, 1},
		{wire.OpCreate, createBody("/b", nil, zk.Persistent)[:20], zk.ErrMarshalling, 1},
		{wire.OpCreate2, nil, zk.ErrMarshalling, 1},
		{wire.OpCreateContainer, []byte{0x7F, 0xFF, 0xFF, 0xFF}, zk.ErrMarshalling, 1},
		{wire.OpCreateTTL, createBody("/b", nil, zk.PersistentWithTTL), zk.ErrMarshalling, 1},
		{wire.OpDelete, deleteBody("/a")[:7], zk.ErrMarshalling, 1},
		{wire.OpSetData, setBody("/a", nil)[:9], zk.ErrMarshalling, 1},
		{wire.OpSetACL, readBody("/a", false), zk.ErrMarshalling, 1},
		{wire.OpReconfig, []byte{0}, zk.ErrMarshalling, 1},
		{wire.OpCreate, nullPath, zk.ErrMarshalling, 2},
		{wire.OpMulti, []byte{0}, zk.ErrMarshalling, 3},
		{wire.OpDelete, append(deleteBody("/a"), "behind"...), zk.OK, 4},
	}
	var b []byte
	for i := range pipelined {
		b = encode(b, int32(i), pipelined[i].op, pipelined[i].body)
	}
	if _, err := c.nc.Write(b); err != nil {
		t.Fatal(err)
	}
	for i, p := range pipelined {
		r, err := c.nextReply()
		if err != nil {
			t.Fatal(err)
		}
		if r.Xid != int32(i) || r.Err != p.code || r.Zxid < first+p.counter || r.Zxid > first+4 {
			t.Errorf("%d, operation %d: xid %d, %v at %v, want %v at %v or later", i, p.op, r.Xid, r.Err, r.Zxid, p.code, first+p.counter)
		}
	}
	if z := c.create("/end", "", zk.Persistent).Zxid; z != first+5 {
		t.Errorf("the next transaction is %v, want %v", z, first+5)
	}
}
