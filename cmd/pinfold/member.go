package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
)

// zabConfig is what the configuration says of the ensemble.
func zabConfig(cfg *config.Config) (*zab.Config, error) {
	q := &cfg.Quorum
	system := quorum.Majority(q.Members.Voters()...)
	if q.Members.Hierarchical() {
		weights, groups := q.Members.WeightsAndGroups()
		for _, id := range q.Members.Observers() {
			delete(groups, id) // it has no vote
		}
		var err error
		if system, err = quorum.Weighted(weights, groups); err != nil {
			return nil, fmt.Errorf("server: groups and weights: %w", err)
		}
	}
	return &zab.Config{
		ID: q.MyID, System: system, Observer: q.Own().Observer, ConfigText: q.Members.Text(),
		Tick: cfg.Session.Tick, InitLimit: q.InitLimit, SyncLimit: q.SyncLimit, ConnectLimit: q.ConnectLimit,
		Window: cfg.Log.CommitLogCount, SizeFactor: cfg.Log.SnapSizeFactor, ForceSnap: cfg.Log.ForceSnapSync,
		MinNotify: q.MinNotification, MaxNotify: q.MaxNotification,
	}, nil
}

// network is the transport as a replica wants it.
type network struct{ *transport.Transport }

// AppendPacket appends the bytes of a packet.
func (network) AppendPacket(b []byte, p zab.Packet) []byte { return transport.AppendPacket(b, p) }

// join connects a replica to the other servers of its ensemble. The caller
// closes what it returns.
func join(cfg *config.Config, rep *replica.Replica, log *slog.Logger) (io.Closer, error) {
	q := &cfg.Quorum
	peers := map[int64][]transport.Address{}
	for _, m := range q.Members.Servers {
		for _, a := range m.Addresses {
			peers[m.ID] = append(peers[m.ID], transport.Address{
				Host: a.Host, QuorumPort: a.QuorumPort, ElectionPort: a.ElectionPort,
			})
		}
	}
	t, err := transport.New(transport.Options{
		ID: q.MyID, Peers: peers,
		QuorumListen: []string{q.QuorumListen()}, ElectionListen: []string{q.ElectionListen()},
		BindAttempts: q.ElectionBindRetry, ConnectTimeout: q.ConnectTimeout,
		HandshakeTimeout: time.Duration(q.SyncLimit) * cfg.Session.Tick,
		DialBudget:       time.Duration(q.InitLimit) * cfg.Session.Tick,
		TCPKeepAlive:     q.TCPKeepAlive, MaxPacketBytes: maxEntryBytes(cfg),
		Handler: rep, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if err := t.Start(); err != nil {
		return nil, err
	}
	rep.Join(network{t})
	return t, nil
}
