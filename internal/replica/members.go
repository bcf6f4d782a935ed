package replica

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
)

// dynamic reports whether transactions may change the membership of the ensemble.
func (r *Replica) dynamic() bool { return r.o.Ensemble != nil && r.o.Ensemble.Reader != nil }

// setConfig gives a tree that was read from the disk or from the leader the content of
// /zookeeper/config. If transactions change the membership, the tree has it already,
// unless none has.
func (r *Replica) setConfig(tree *znode.Tree, nowMillis int64) {
	if r.o.ConfigText == nil {
		return
	}
	if r.dynamic() && len(tree.Data(tree.Lookup(znode.ConfigPath))) > 0 {
		return
	}
	tree.SetConfig(r.o.ConfigText, nowMillis)
}

// savedMembers is the content of the file of memberships.
type savedMembers struct {
	Committed string `json:"committed"` // text of the membership
	Seen      string `json:"seen"`      // "" if it is the committed one
	Unsure    bool   `json:"unsure"`
}

// saveMembers makes durable what the core knows of the membership.
func (r *Replica) saveMembers(m *zab.Memberships) error {
	s := savedMembers{Committed: string(m.Committed.Text()), Unsure: m.Unsure}
	if m.Seen != m.Committed {
		s.Seen = string(m.Seen.Text())
	}
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("replica: memberships: %w", err)
	}
	return r.o.Dir.SaveMembers(content)
}

// loadMembers reads what saveMembers has written; the zero value if it never has.
func (r *Replica) loadMembers() (m zab.Memberships, err error) {
	if !r.dynamic() {
		return m, nil
	}
	content, err := r.o.Dir.LoadMembers()
	if err != nil || content == nil {
		return m, err
	}
	var s savedMembers
	if err := json.Unmarshal(content, &s); err != nil {
		return m, fmt.Errorf("replica: memberships: %w", err)
	}
	read := r.o.Ensemble.Reader.OfText
	m.Committed, m.Unsure = read([]byte(s.Committed)), s.Unsure
	if m.Seen = m.Committed; s.Seen != "" {
		m.Seen = read([]byte(s.Seen))
	}
	if m.Committed == nil || m.Seen == nil {
		return m, errors.New("replica: memberships: a membership in the file cannot be read")
	}
	return m, nil
}
