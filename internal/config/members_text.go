package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxMembersBytes bounds the text that ParseMembers accepts: maxMembers lines, each
// with a long name.
const maxMembersBytes = 128 << 10

// Text returns the members as Apache writes them to /zookeeper/config, into its
// notifications and into NEWLEADER: one line for each server, group and weight, and
// version= in hex at the end, without an end of line.
//
//	server.1=zoo1:2888:3888:participant;0.0.0.0:2181
//	server.2=zoo2:2888:3888:observer
//	group.1=1:2
//	weight.1=1
//	version=0
//
// A client address is included only if the server line has it: an address that comes
// from clientPort is omitted, also for this server itself. A weight is written even if
// no line sets it. The order of lines is that of Apache's hash tables, which is the
// order of ids as long as these are below 16. If two ids share a bucket of such a
// table, Apache's order depends on everything else in its zoo.cfg; here the smaller id
// comes first. Servers do not compare the texts: they compare the versions only.
func (m *Members) Text() []byte {
	var b []byte
	for _, id := range hashOrder(m.serverIDs()) {
		b = append(m.Find(id).appendLine(b), '\n')
	}
	if m.Hierarchical() {
		b = m.appendGroups(b)
	}
	b = append(b, "version="...)
	return strconv.AppendUint(b, uint64(m.Version), 16)
}

func (m *Members) serverIDs() []int64 {
	ids := make([]int64, len(m.Servers))
	for i := range m.Servers {
		ids[i] = m.Servers[i].ID
	}
	return ids
}

// appendGroups writes the group and weight lines. Among groups that share a hash, the
// one whose first server comes first is written first.
func (m *Members) appendGroups(b []byte) []byte {
	weights, groups := m.WeightsAndGroups()
	var ids []int64
	members := make(map[int64][]int64)
	for _, sid := range hashOrder(sortedKeys(groups)) {
		id := groups[sid]
		if members[id] == nil {
			ids = append(ids, id)
		}
		members[id] = append(members[id], sid)
	}
	for _, id := range hashOrder(ids) {
		b = fmt.Appendf(b, "group.%d=", id)
		for i, sid := range members[id] {
			if i > 0 {
				b = append(b, ':')
			}
			b = strconv.AppendInt(b, sid, 10)
		}
		b = append(b, '\n')
	}
	for _, sid := range hashOrder(sortedKeys(weights)) {
		b = fmt.Appendf(b, "weight.%d=%d\n", sid, weights[sid])
	}
	return b
}

func sortedKeys(m map[int64]int64) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// hashOrder sorts ids into the order in which Java's HashMap<Long, ...> iterates over
// them if they are put in the given order. It sorts in place.
func hashOrder(ids []int64) []int64 {
	buckets := uint64(16)
	for uint64(len(ids))*4 > buckets*3 {
		buckets *= 2
	}
	bucket := func(id int64) uint64 {
		hash := uint32(uint64(id)>>32) ^ uint32(id)
		return uint64(hash^hash>>16) & (buckets - 1)
	}
	slices.SortStableFunc(ids, func(a, b int64) int { return int(bucket(a)) - int(bucket(b)) })
	return ids
}

// Line returns the value of the member's server line.
func (m *Member) Line() string { return string(m.appendValue(nil)) }

// appendLine writes server.N=... without an end of line.
func (m *Member) appendLine(b []byte) []byte {
	return m.appendValue(fmt.Appendf(b, "server.%d=", m.ID))
}

func (m *Member) appendValue(b []byte) []byte {
	addresses := slices.Clone(m.Addresses)
	slices.SortStableFunc(addresses, func(x, y MemberAddress) int {
		return strings.Compare(javaHost(x.Host), javaHost(y.Host))
	})
	for i, a := range addresses {
		if i > 0 {
			b = append(b, '|')
		}
		b = fmt.Appendf(b, "%s:%d:%d", javaHost(a.Host), a.QuorumPort, a.ElectionPort)
	}
	role := participant
	if m.Observer {
		role = observer
	}
	b = append(append(b, ':'), role...)
	if m.HasClient {
		b = fmt.Appendf(b, ";%s:%d", javaHost(m.ClientHost), m.ClientPort)
	}
	if m.HasSecure {
		if !m.HasClient {
			b = append(b, ';')
		}
		b = fmt.Appendf(b, ";%s:%d", javaHost(m.SecureHost), m.SecurePort)
	}
	return b
}

// javaHost writes a host as Java does: an IPv6 address in brackets, with every zero
// (0:0:0:0:0:0:0:1). An address with a zone is not changed: Java's form depends on the
// interfaces of the machine.
func javaHost(host string) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || !ip.Is6():
		return host
	case ip.Zone() != "":
		return "[" + host + "]"
	}
	words := ip.As16()
	b := []byte{'['}
	for i := 0; i < len(words); i += 2 {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(words[i])<<8|uint64(words[i+1]), 16)
	}
	return string(append(b, ']'))
}

// ParseMembers reads the text that Text and Apache write: the configuration in a
// notification, in NEWLEADER, in /zookeeper/config or in a file zoo.cfg.dynamic.next.
// It has the syntax of Java's properties. The text comes from the network; ParseMembers
// does not keep it.
//
// It fails if the text is larger than maxMembersBytes or not ASCII, has a line other
// than server, group, weight and version, or has no participant. It accepts several
// addresses of one server without multiAddress.enabled.
func ParseMembers(text []byte) (*Members, error) {
	if len(text) > maxMembersBytes {
		return nil, fmt.Errorf("config: members: larger than %d bytes", maxMembersBytes)
	}
	for _, c := range text {
		if c >= 0x80 {
			return nil, errors.New("config: members: not ASCII")
		}
	}
	lines, err := parseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("config: members, line %w", err)
	}
	m := new(Members)
	for _, p := range lines {
		key, value := strings.TrimSpace(p.key), strings.TrimSpace(p.value)
		if key == "version" {
			m.Version, err = parseVersion(value)
		} else {
			err = m.add(key, value, true)
		}
		if err != nil {
			return nil, fmt.Errorf("config: members, line %d: %s: %w", p.line, printable(key+"="+value), err)
		}
	}
	if len(m.Voters()) == 0 {
		return nil, errors.New("config: members: no participant")
	}
	if err := m.checkGroups(); err != nil {
		return nil, fmt.Errorf("config: members: %w", err)
	}
	return m, nil
}

// parseVersion reads the zxid of a reconfiguration, in hex.
func parseVersion(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 16, 64)
	if err != nil || v < 0 {
		return 0, errors.New("not a zxid in hex")
	}
	return v, nil
}
