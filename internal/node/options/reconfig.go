package options

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Reader reads memberships from transactions of type reconfig, and from the text of
// /zookeeper/config (zab.MembershipReader).
type Reader struct{}

// OfEntry implements zab.MembershipReader. The version in the text must be the zxid of the
// transaction.
func (r Reader) OfEntry(e zab.Entry) *zab.Membership {
	if !txn.IsReconfig(e.Data) {
		return nil
	}
	tx, err := txn.Decode(e.Data)
	if err != nil {
		return nil
	}
	if m := r.OfText(tx.Data); m != nil && m.Version() == e.Zxid {
		return m
	}
	return nil
}

// OfText implements zab.MembershipReader.
func (Reader) OfText(text []byte) *zab.Membership {
	m, err := config.ParseMembers(text)
	if err != nil {
		return nil
	}
	to, err := Membership(m)
	if err != nil {
		return nil
	}
	return to
}

// reconfigure adds to the options what changes the membership by transactions.
func reconfigure(cfg *config.Config, o *replica.Options) error {
	q := &cfg.Quorum
	o.Ensemble.Reader = Reader{}
	o.Reconfigure = func(from *zab.Membership, req *wire.ReconfigRequest, version zk.Zxid) (*zab.Membership, zk.Code) {
		return reconfigured(q, from, req, version)
	}
	if q.Next == nil {
		return nil
	}
	var err error
	if o.NextMembers, err = Membership(q.Next); err != nil {
		return fmt.Errorf("server: groups and weights of an unfinished reconfiguration: %w", err)
	}
	return nil
}

// reconfigured is replica.Options.Reconfigure.
func reconfigured(q *config.Quorum, from *zab.Membership, req *wire.ReconfigRequest, version zk.Zxid) (*zab.Membership, zk.Code) {
	present, err := config.ParseMembers(from.Text())
	if err != nil {
		return nil, zk.ErrRuntimeInconsistency
	}
	change := config.Change{Joining: req.JoiningServers, Leaving: req.LeavingServers, Members: req.NewMembers}
	next, err := q.Reconfigured(present, change, int64(version))
	if err == nil {
		var to *zab.Membership
		if to, err = Membership(next); err == nil {
			return to, zk.OK
		}
	}
	switch {
	case errors.Is(err, config.ErrUnreadable):
		return nil, zk.ErrMarshalling
	case errors.Is(err, config.ErrNoQuorum):
		return nil, zk.ErrNewConfigNoQuorum
	}
	return nil, zk.ErrBadArguments
}
