package replica

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// dynamic reports whether transactions may change the membership of the ensemble.
func (r *Replica) dynamic() bool { return r.o.Ensemble != nil && r.o.Ensemble.Reader != nil }

// setConfig gives a tree that was read from the disk or from the leader the content of
// /zookeeper/config. If transactions change the membership, a tree that has a later one
// keeps it.
func (r *Replica) setConfig(tree *znode.Tree, nowMillis int64) {
	if r.o.ConfigText == nil {
		return
	}
	if r.dynamic() {
		own := r.o.Ensemble.Reader.OfText(tree.Data(tree.Lookup(znode.ConfigPath)))
		if own != nil && own.Version() > r.o.Ensemble.Members.Version() {
			return
		}
	}
	tree.SetConfig(r.o.ConfigText, nowMillis)
}

// shownMembers returns the text of the latest membership that transactions have made of a tree from the leader
// or from the disk, before setConfig; nil if the tree does not tell.
func (r *Replica) shownMembers(tree *znode.Tree) []byte {
	if tree == nil || !r.dynamic() || r.o.ConfigText == nil {
		return nil
	}
	text := tree.Data(tree.Lookup(znode.ConfigPath))
	if len(text) > maxConfigBytes {
		return nil
	}
	return bytes.Clone(text)
}

// freshenConfig gives the tree, of which everything is applied, the text of a committed
// membership that no transaction has told: an Apache leader gives the first one a version, and the
// leader's first one takes the place of that of a server that joins.
func (o *orderer) freshenConfig() {
	if !o.dynamic() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	id := o.tree.Lookup(znode.ConfigPath)
	own := o.o.Ensemble.Reader.OfText(o.tree.Data(id))
	m := o.core.Memberships().Committed
	if own == nil || own.Version() < m.Version() || own.Version() == m.Version() && !bytes.Equal(own.Text(), m.Text()) {
		o.tree.SetConfig(m.Text(), o.tree.Mode(id).Mtime)
	}
}

// reconfigure judges a reconfig that is to become the transaction z (prep.Config).
func (o *orderer) reconfigure(req *wire.ReconfigRequest, z zk.Zxid) ([]byte, zk.Code) {
	m := o.core.Memberships()
	next, _ := o.core.NextZxid()
	switch {
	case m.Committed != m.Seen || o.reconfig >= next:
		return nil, zk.ErrReconfigInProgress // the second: in the batch that is being prepared
	case req.CurConfigID != -1 && zk.Zxid(req.CurConfigID) != m.Seen.Version():
		return nil, zk.ErrBadVersion
	}
	to, code := o.o.Reconfigure(m.Seen, req, z)
	if code != zk.OK {
		return nil, code
	}
	if err := o.core.AdmitChange(to); err != nil {
		o.log.Warn("a reconfiguration is refused", "err", err)
		return nil, zk.ErrNewConfigNoQuorum
	}
	return to.Text(), zk.OK
}

// savedMembers is the content of the file of memberships.
type savedMembers struct {
	Committed string  `json:"committed"` // text of the membership
	Seen      string  `json:"seen"`      // "" if it is the committed one
	Unsure    bool    `json:"unsure"`
	Blind     bool    `json:"blind"`
	SureAt    zk.Zxid `json:"sureAt"`
	// Overruled is the text of this server's configuration if Committed, of the same version, came from a
	// leader in its place; "" otherwise. See ReadMemberships.
	Overruled string `json:"overruled,omitempty"`
}

// saveMembers makes durable what the core knows of the membership.
func (r *Replica) saveMembers(m *zab.Memberships) error {
	if err := WriteMemberships(&r.o, m); err != nil {
		return err
	}
	if r.o.MembersSaved != nil {
		r.o.MembersSaved(*m)
	}
	return nil
}

// WriteMemberships makes durable what a server with these options knows of the membership.
// REQUIRES: o.Ensemble is set, and no other goroutine uses o.Dir for it.
func WriteMemberships(o *Options, m *zab.Memberships) error {
	s := savedMembers{Committed: string(m.Committed.Text()), Unsure: m.Unsure, Blind: m.Blind, SureAt: m.SureAt}
	if m.Seen != m.Committed {
		s.Seen = string(m.Seen.Text())
	}
	if first := o.Ensemble.Members; first.Version() == m.Committed.Version() && !bytes.Equal(first.Text(), m.Committed.Text()) {
		s.Overruled = string(first.Text())
	}
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("replica: memberships: %w", err)
	}
	return o.Dir.SaveMembers(content)
}

// loadMembers returns what this server knows of the membership, from its disk and its
// configuration.
func (r *Replica) loadMembers() (m zab.Memberships, err error) {
	if !r.dynamic() {
		return m, nil
	}
	if m, err = ReadMemberships(&r.o); err != nil {
		return m, err
	}
	if r.o.MembersSaved != nil {
		r.o.MembersSaved(m) // a crash may have come before it was called
	}
	return m, nil
}

// ReadMemberships returns what a server with these options knows of the membership, from its disk and
// its configuration.
// REQUIRES: o.Ensemble has a Reader.
func ReadMemberships(o *Options) (zab.Memberships, error) {
	m, overruled, err := readMembers(o)
	if err != nil {
		return m, err
	}
	m.Own = m.Committed == nil
	// The configuration's is the same or later; of the same, an administrator may have changed addresses.
	// While a change is pending the leader's counts. It also does if the leader had another one of
	// the same version than this server, which joins, and the configuration is as it was then:
	// quorums of that need not share a server with those of the ensemble.
	first := o.Ensemble.Members
	if m.Committed == nil || m.Committed.Version() < first.Version() {
		m.Committed = first
	}
	pending := m.Seen != nil && m.Seen.Version() > first.Version()
	if m.Committed.Version() == first.Version() && !pending && overruled != string(first.Text()) {
		m.Committed, m.Seen = first, first
	}
	if next := o.NextMembers; next != nil && next.Version() > m.Seen.Version() {
		m.Seen = next
	}
	return m, nil
}

// readMembers reads the file of memberships. For overruled see savedMembers.
func readMembers(o *Options) (m zab.Memberships, overruled string, err error) {
	content, err := o.Dir.LoadMembers()
	if err != nil || content == nil {
		return m, "", err
	}
	var s savedMembers
	if err := json.Unmarshal(content, &s); err != nil {
		return m, "", fmt.Errorf("replica: memberships: %w", err)
	}
	read := o.Ensemble.Reader.OfText
	m.Committed, m.Unsure, m.Blind, m.SureAt = read([]byte(s.Committed)), s.Unsure, s.Blind, s.SureAt
	if m.Seen = m.Committed; s.Seen != "" {
		m.Seen = read([]byte(s.Seen))
	}
	if m.Committed == nil || m.Seen == nil {
		return m, "", errors.New("replica: memberships: a membership in the file cannot be read")
	}
	return m, s.Overruled, nil
}
