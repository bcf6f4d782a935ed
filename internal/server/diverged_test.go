package server

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A tree that is not what the log leads to answers nothing: not the write that has
// shown it, nor a read of another client that is still connected.
func TestNothingIsAnsweredFromAWrongTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		writer, reader := s.open(), s.open()
		writer.create("/a", "right", zk.Persistent)
		s.rep.View(func(tree replica.View) {
			var r znode.Result
			tree.Apply(&txn.Txn{
				Header: txn.Header{Type: wire.OpSetData, Zxid: tree.LastZxid()},
				Op:     txn.Op{Type: wire.OpSetData, Path: "/a", Data: []byte("wrong")},
			}, &r)
		})
		if r, err := writer.do(wire.OpCreate, createBody("/b", nil, zk.Persistent)); err == nil {
			t.Errorf("the write is answered: %+v", r)
		}
		<-s.rep.Failed()
		if !errors.Is(s.rep.Failure(), replica.ErrDiverged) {
			t.Error(s.rep.Failure())
		}
		if r, err := reader.do(wire.OpGetData, readBody("/a", false)); err == nil {
			t.Errorf("a read is answered: %+v", r)
		}
		s.stop()
	})
}
