// Package options translates a configuration into the options of each part of a server,
// with one function for each part. It opens nothing and starts nothing. Package node
// assembles a server from these parts; tests that need a single part use it too.
package options

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// maxEntryBytes returns the length of the longest transaction that is written or read,
// including header and digest.
func maxEntryBytes(cfg *config.Config) int { return cfg.Client.MaxFrameBytes + cfg.Client.ExtraBytes }

// standaloneID is the server id in the session ids of a standalone server, as
// in Apache's.
const standaloneID = 1

// Auth returns the access control of the configuration.
func Auth(cfg *config.Config) auth.Config {
	a := &cfg.Auth
	return auth.Config{
		DigestAlg: a.DigestHash, DigestDisabled: !a.DigestEnabled, SuperDigest: a.SuperDigest,
		SkipACL: a.SkipACL, EnsembleNames: a.EnsembleNames, Ensemble: a.Ensemble,
		X509: a.X509, X509SuperUser: a.X509SuperUser,
		SASL: a.SASL.Provider, AnySASLUser: a.SASL.AnyUser, SuperUsers: a.SASL.SuperUsers,
	}
}

// Storage returns the directories of the configuration, and how the log is written. It
// panics if the configuration names an unknown compression, which config.Load refuses.
func Storage(cfg *config.Config) storage.Options {
	compression, err := storage.ParseCompression(cfg.Snapshot.Compression)
	if err != nil {
		panic("node: config accepted an unknown compression: " + err.Error())
	}
	return storage.Options{
		DataDir: cfg.Data.Dir, DataLogDir: cfg.Data.LogDir, AutoCreate: cfg.Data.AutoCreate,
		Compression: compression,
		Log: storage.LogOptions{
			PreallocBytes: cfg.Log.PreAllocBytes, MaxFileBytes: cfg.Log.MaxBytes,
			MaxEntryBytes: maxEntryBytes(cfg), NoSync: !cfg.Log.ForceSync, Discard: inMemory(cfg),
		},
	}
}

// inMemory reports whether the server is an observer that writes neither log nor
// snapshots (syncEnabled=false), except for a snapshot that the leader sends.
func inMemory(cfg *config.Config) bool {
	q := &cfg.Quorum
	return q.Distributed() && q.Own().Observer && !q.SyncEnabled
}

// Replica returns the options of the replica. The caller adds what is not in the
// configuration: Dir, Auth, Clients and Logger. The error reports groups and weights
// that form no quorum.
func Replica(cfg *config.Config) (replica.Options, error) {
	o := replica.Options{
		Tree: znode.Options{
			ExtendedTypes: cfg.Tree.ExtendedTypes, Emulate353TTL: cfg.Tree.Emulate353TTL, NoDigest: !cfg.Log.DigestEnabled,
		},
		Prep: prep.Config{
			ExtendedTypes: cfg.Tree.ExtendedTypes, EnforceQuota: cfg.Tree.EnforceQuota,
			ReconfigEnabled: cfg.Quorum.ReconfigEnabled, ListClosedPaths: cfg.Log.CloseSessionTxn,
			DigestEnabled: cfg.Log.DigestEnabled,
		},
		ServerID: standaloneID, Tick: cfg.Session.Tick,
		SnapCount: cfg.Snapshot.Count, SnapBytes: cfg.Snapshot.SizeBytes, LastZxidBlock: cfg.Log.SerializeLastTxn,
		TrustEmpty: cfg.Snapshot.TrustEmpty, DBAutoCreate: cfg.Data.DBAutoCreate, NoHealing: !cfg.Data.Healing,
		MaxRecordBytes: maxEntryBytes(cfg), Prefetch: true,
		SweepInterval: cfg.Reaper.Interval, SweepPerMinute: cfg.Reaper.MaxPerMinute, NeverUsed: cfg.Reaper.NeverUsed,
		PurgeInterval: cfg.Purge.Interval, PurgeRetain: cfg.Purge.Retain, PurgeAge: cfg.Purge.Age, PurgeBytes: cfg.Purge.Bytes, DiskReserve: int64(cfg.Data.Reserve), FsyncWarnAfter: cfg.Log.FsyncWarnAfter,
		ThrottledOpWait: cfg.Requests.ThrottledOpWait,
	}
	if !cfg.Quorum.Distributed() {
		return o, nil
	}
	if inMemory(cfg) {
		o.SnapCount, o.SnapBytes = math.MaxInt, 0 // a fuzzy snapshot is useless without its log
	}
	var err error
	if o.Ensemble, err = ensemble(cfg); err != nil {
		return o, err
	}
	o.ServerID, o.ConfigText = uint8(cfg.Quorum.MyID), o.Ensemble.Members.Text()
	// An eighth more than the members themselves let their clients open.
	o.MaxSessions = cfg.Session.Bytes / session.Weight / 8 * 9
	// Each member of ours forwards a quarter of its part at most. Apache's members do not
	// bound what they forward, and what is refused is an error for their clients.
	const part = 4
	o.ForwardedBytes = part * int64(len(cfg.Quorum.Members.Servers)) * int64(cfg.OutstandingBytes())
	if cfg.Quorum.ReconfigEnabled {
		if err := reconfigure(cfg, &o); err != nil {
			return o, err
		}
	}
	o.LocalSessions, o.ReadOnly = cfg.Quorum.LocalSessions, cfg.Quorum.ReadOnlyMode
	return o, nil
}

// leastSilence is how long a member may be silent while others wait for it, however short a tick is:
// so long may a process of a machine that does other things wait for a processor.
const leastSilence = time.Second

// ensemble returns the configuration of the Zab core of a server of an ensemble.
func ensemble(cfg *config.Config) (*zab.Config, error) {
	q := &cfg.Quorum
	members, err := Membership(&q.Members)
	if err != nil {
		return nil, fmt.Errorf("server: groups and weights: %w", err)
	}
	return &zab.Config{
		ID: q.MyID, Members: members,
		Tick: cfg.Session.Tick, InitLimit: q.InitLimit, SyncLimit: q.SyncLimit, ConnectLimit: q.ConnectLimit,
		ProgressLimit: max(2*cfg.Session.Tick, leastSilence),
		Window:        cfg.Log.CommitLogCount, WindowBytes: q.WindowBytes, SizeFactor: cfg.Log.SnapSizeFactor, ForceSnap: cfg.Log.ForceSnapSync,
		MaxSnapSyncs: q.MaxSnapSyncs, MaxDiffSyncs: q.MaxDiffSyncs, StallBytes: int64(q.UnsyncedBytes), Oracle: q.OraclePath != "", ObserverMasters: q.ObserverMasterPort > 0, LookDelay: q.ObserverReconnect + q.ObserverElection,
		MinNotify: q.MinNotification, MaxNotify: q.MaxNotification,
	}, nil
}

// Membership returns the members of a configuration as the Zab core takes them. The
// error is about groups and weights that make no quorum.
func Membership(m *config.Members) (*zab.Membership, error) {
	weights, groups := m.WeightsAndGroups()
	var members []zab.Member
	for i := range m.Servers {
		s := &m.Servers[i]
		member := zab.Member{ID: s.ID, Observer: s.Observer, Weight: 1, Address: s.Line()}
		if m.Hierarchical() {
			member.Weight, member.Group = weights[s.ID], groups[s.ID]
			delete(groups, s.ID)
		}
		members = append(members, member)
	}
	for id, group := range groups { // it has no server line and counts all the same
		members = append(members, zab.Member{ID: id, Weight: weights[id], Group: group})
	}
	return zab.NewMembership(zk.Zxid(m.Version), members, m.Text())
}

// Peers returns where the members are reached. The error names those whose address
// cannot be read, which are left out.
func Peers(members []zab.Member) (map[int64][]transport.Address, error) {
	peers := map[int64][]transport.Address{}
	var errs []error
	for _, m := range members {
		if m.Address == "" {
			continue
		}
		s, err := config.ParseMember(m.ID, m.Address)
		if err != nil {
			errs = append(errs, fmt.Errorf("server %d, %q: %w", m.ID, m.Address, err))
			continue
		}
		peers[m.ID] = addresses(&s)
	}
	return peers, errors.Join(errs...)
}

func addresses(m *config.Member) (list []transport.Address) {
	for _, a := range m.Addresses {
		list = append(list, transport.Address{Host: a.Host, QuorumPort: a.QuorumPort, ElectionPort: a.ElectionPort})
	}
	return list
}

// Transport returns how a member of an ensemble listens for its peers and reaches them.
// The caller adds Handler and Logger.
//
// REQUIRES: cfg.Quorum.Distributed.
func Transport(cfg *config.Config) transport.Options {
	q := &cfg.Quorum
	peers := map[int64][]transport.Address{}
	for i := range q.Members.Servers {
		m := &q.Members.Servers[i]
		peers[m.ID] = addresses(m)
	}
	quorum := []string{q.QuorumListen()}
	if o := q.ObserverListen(q.Own()); o != "" {
		quorum = append(quorum, o)
	}
	return transport.Options{
		ID: q.MyID, Peers: peers,
		QuorumListen: quorum, ElectionListen: []string{q.ElectionListen()},
		BindAttempts: q.ElectionBindRetry, ConnectTimeout: q.ConnectTimeout,
		HandshakeTimeout: time.Duration(q.SyncLimit) * cfg.Session.Tick, ElectionTimeout: q.LinkTimeout,
		DialBudget: time.Duration(q.InitLimit) * cfg.Session.Tick, RetryDelay: max(q.RetryDelay, time.Millisecond),
		TCPKeepAlive: q.TCPKeepAlive, MaxPacketBytes: maxEntryBytes(cfg), BufferBytes: q.PeerBufferBytes, MasterPort: max(q.ObserverMasterPort, 0),
	}
}

// Encryption returns which connections with other members have TLS, nil if none has. The
// caller adds Port.
func Encryption(cfg *config.Config) *transport.Encryption {
	t := &cfg.Quorum.TLS
	if !t.Ports() {
		return nil
	}
	return &transport.Encryption{
		Dial: t.Enabled, Plain: t.Plain, Timeout: t.Timeout, Hosts: t.Hosts, ClientHosts: t.ClientHosts, Members: t.Members,
	}
}
