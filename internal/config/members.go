package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Members is a configuration of the ensemble: the server, group and weight
// lines. The zero value has no members.
//
// Groups and Weights are the content of the lines, for Text and for comparing; code
// that counts votes uses WeightsAndGroups.
type Members struct {
	Servers []Member        // in the order of their ids, each id once
	Groups  map[int64]int64 // server id -> group id; nil if there are no group lines
	Weights map[int64]int64 // server id -> weight; absent means 1
	Version int64           // zxid of the reconfiguration that created it; 0 from a static file
}

// Member is a server line.
type Member struct {
	ID        int64           // 0 or more
	Addresses []MemberAddress // one; more only with multiAddress.enabled
	Observer  bool

	HasClient  bool
	ClientHost string // "0.0.0.0" if the line has only a port
	ClientPort int

	HasSecure  bool
	SecureHost string
	SecurePort int
}

// MemberAddress is an address at which a member's peers reach it.
type MemberAddress struct {
	Host         string // a name, or an IP address without brackets
	QuorumPort   int
	ElectionPort int
}

const (
	maxMembers = 1024          // server lines; as many servers in groups, and weights
	maxWeight  = math.MaxInt32 // the sum of maxMembers weights is far below the maximum of an int64
)

// ElectionAddr returns the member's address for election connections, in the form of
// net.Dial: the first if it has several. A name in it is not resolved; the caller must
// resolve it at each attempt to connect.
func (m *Member) ElectionAddr() string {
	return net.JoinHostPort(m.Addresses[0].Host, strconv.Itoa(m.Addresses[0].ElectionPort))
}

// Find returns the member with that id, nil if there is none. The result points into
// Servers.
func (m *Members) Find(id int64) *Member {
	i, ok := slices.BinarySearchFunc(m.Servers, id, func(s Member, id int64) int {
		return compareIDs(s.ID, id)
	})
	if !ok {
		return nil
	}
	return &m.Servers[i]
}

func compareIDs(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Voters returns the ids of the participants, ascending.
func (m *Members) Voters() []int64 { return m.ids(false) }

// Observers returns the ids of the observers, ascending.
func (m *Members) Observers() []int64 { return m.ids(true) }

func (m *Members) ids(observer bool) (ids []int64) {
	for i := range m.Servers {
		if m.Servers[i].Observer == observer {
			ids = append(ids, m.Servers[i].ID)
		}
	}
	return ids
}

// Hierarchical reports whether there are group or weight lines. Then a quorum is a
// majority of the weights in a majority of the groups, and not a majority of the
// participants.
func (m *Members) Hierarchical() bool { return m.Groups != nil || m.Weights != nil }

// WeightsAndGroups returns the weight of every server that has one, and the group of
// every server that is in one, both by the server's id. A participant has a weight, by
// default 1, and a group. An observer, or a server without a line, may have both too:
// it cannot vote, but Apache counts it in the weight of its group, so that a quorum
// needs more of the others.
//
// The caller owns the maps. Both are nil unless the members are Hierarchical.
func (m *Members) WeightsAndGroups() (weights, groups map[int64]int64) {
	if !m.Hierarchical() {
		return nil, nil
	}
	groups = maps.Clone(m.Groups)
	weights = make(map[int64]int64, len(m.Servers))
	for _, id := range m.Voters() {
		weights[id] = 1
	}
	maps.Copy(weights, m.Weights)
	return weights, groups
}

// isMemberKey reports whether a key belongs to the ensemble's configuration, which may
// be in a file of its own.
func isMemberKey(key string) bool {
	return strings.HasPrefix(key, "server.") || strings.HasPrefix(key, "group") ||
		strings.HasPrefix(key, "weight")
}

// memberID reads the number of server.N, group.N or weight.N.
func memberID(key string) (kind string, id int64, err error) {
	kind, number, ok := strings.Cut(key, ".")
	if !ok || kind != "server" && kind != "group" && kind != "weight" {
		return "", 0, errors.New("not of the form server.N, group.N or weight.N")
	}
	id, err = strconv.ParseInt(number, 10, 64)
	if err != nil || id < 0 {
		return "", 0, fmt.Errorf("%q is not a server's or group's number", number)
	}
	return kind, id, nil
}

// add reads one server, group or weight line.
func (m *Members) add(key, value string, multiAddress bool) error {
	kind, id, err := memberID(key)
	if err != nil {
		return err
	}
	switch kind {
	case "server":
		s, err := parseMember(id, value)
		if err != nil {
			return err
		}
		if len(s.Addresses) > 1 && !multiAddress {
			return errors.New("several addresses need multiAddress.enabled=true")
		}
		return m.insert(s)
	case "group":
		return m.addGroup(id, value)
	}
	return m.addWeight(id, value)
}

// insert keeps Servers in the order of ids.
func (m *Members) insert(s Member) error {
	at, found := slices.BinarySearchFunc(m.Servers, s.ID, func(o Member, id int64) int {
		return compareIDs(o.ID, id)
	})
	switch {
	case found:
		return fmt.Errorf("server %d has another line", s.ID)
	case len(m.Servers) == maxMembers:
		return fmt.Errorf("more than %d servers", maxMembers)
	}
	m.Servers = slices.Insert(m.Servers, at, s)
	return nil
}

// addGroup reads sid:sid:...
func (m *Members) addGroup(id int64, value string) error {
	if m.Groups == nil {
		m.Groups = make(map[int64]int64)
	}
	for part := range strings.SplitSeq(value, ":") {
		sid, err := strconv.ParseInt(part, 10, 64)
		if err != nil || sid < 0 {
			return unreadable{fmt.Errorf("%q is not a server's number", part)}
		}
		if other, ok := m.Groups[sid]; ok {
			return fmt.Errorf("server %d is in group %d already", sid, other)
		}
		if len(m.Groups) == maxMembers {
			return fmt.Errorf("more than %d servers in groups", maxMembers)
		}
		m.Groups[sid] = id
	}
	return nil
}

func (m *Members) addWeight(id int64, value string) error {
	w, err := strconv.ParseInt(value, 10, 64)
	if err != nil || w < 0 || w > maxWeight {
		return unreadable{fmt.Errorf("a weight is a whole number from 0 to %d", maxWeight)}
	}
	if m.Weights == nil {
		m.Weights = make(map[int64]int64)
	}
	if _, ok := m.Weights[id]; ok {
		return fmt.Errorf("the weight of server %d has another line", id)
	}
	if len(m.Weights) == maxMembers {
		return fmt.Errorf("more than %d weights", maxMembers)
	}
	m.Weights[id] = w
	return nil
}

// checkGroups checks the rules of a hierarchical quorum: without them it would be
// undefined which sets of servers are quorums, or no set would be one.
func (m *Members) checkGroups() error {
	if !m.Hierarchical() {
		return nil
	}
	for _, id := range m.Voters() {
		if _, ok := m.Groups[id]; !ok {
			return fmt.Errorf("server.%d is in no group", id)
		}
	}
	weights, groups := m.WeightsAndGroups()
	total := int64(0)
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		w, ok := weights[id]
		if !ok {
			return unreadable{fmt.Errorf("group.%d has the server %d, which is not a participant and has no weight", groups[id], id)}
		}
		total += w
	}
	if total == 0 {
		return noQuorum{errors.New("all weights are 0; no set of servers would be a quorum")}
	}
	return nil
}
