package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrUnreadable is wrapped by errors about the text of a reconfiguration that Apache
// answers as a request that cannot be read, in place of bad arguments: a number that is
// none, members without a participant, and a group with a server that is not known.
var ErrUnreadable = errors.New("cannot be read")

// unreadable is an error that is ErrUnreadable too, without saying so.
type unreadable struct{ error }

// Is reports whether target is ErrUnreadable.
func (unreadable) Is(target error) bool { return target == ErrUnreadable }

// ErrNoQuorum is wrapped by errors about members of which no set is a quorum: Apache answers that no quorum of
// them is connected.
var ErrNoQuorum = errors.New("no quorum is possible")

// noQuorum is an error that is ErrNoQuorum too, without saying so.
type noQuorum struct{ error }

// Is reports whether target is ErrNoQuorum.
func (noQuorum) Is(target error) bool { return target == ErrNoQuorum }

// Change is a reconfiguration as a client asks for it.
type Change struct {
	// Joining lists server lines, "server.4=host:2888:3888;2181,…". A server that is a
	// member already is replaced.
	Joining string
	Leaving string  // lists ids, "2,3"; those of no member are ignored
	Members *string // if not nil, all lines of the new configuration; Joining and Leaving do not count
}

// Reconfigured returns the members after a change, with the given version. q has the
// present members' rules: whether several addresses, and a lone participant, are allowed.
//
// The rules are those of Apache's leader, in its order. In addition it refuses members
// with which a server could not start: two servers with one port, an address for TLS, more
// participants than votes can be counted.
func (q *Quorum) Reconfigured(from *Members, change Change, version int64) (*Members, error) {
	var to *Members
	var err error
	if change.Members != nil {
		to, err = q.replaced(*change.Members)
	} else {
		to, err = q.edited(from, change)
	}
	if err != nil {
		return nil, fmt.Errorf("config: reconfiguration: %w", err)
	}
	to.Version = version
	if err := q.checkNew(to); err != nil {
		return nil, fmt.Errorf("config: reconfiguration: %w", err)
	}
	return to, nil
}

// replaced reads the whole text of a new configuration. Commas are ends of lines.
func (q *Quorum) replaced(text string) (*Members, error) {
	if len(text) > maxMembersBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxMembersBytes)
	}
	lines, err := parseProperties([]byte(strings.ReplaceAll(text, ",", "\n")))
	if err != nil {
		return nil, fmt.Errorf("%w: line %v", ErrUnreadable, err)
	}
	to := new(Members)
	for _, p := range lines {
		key, value := strings.TrimSpace(p.key), strings.TrimSpace(p.value)
		if key == "version" {
			continue // the new version is the transaction's
		}
		if _, number, ok := strings.Cut(key, "."); ok && isMemberKey(key) && !isNumber(number) {
			return nil, fmt.Errorf("%w: %q is not a number", ErrUnreadable, printable(number))
		}
		if err := to.add(key, value, q.MultiAddress); err != nil {
			return nil, fmt.Errorf("%s: %w", printable(key+"="+value), err)
		}
	}
	voters := len(to.Voters())
	if voters == 0 && (len(to.Servers) > 0 || !q.StandaloneEnabled) || voters == 1 && len(to.Servers) > 1 && q.StandaloneEnabled {
		return nil, fmt.Errorf("%w: %d participants and %d observers", ErrUnreadable, voters, len(to.Servers)-voters)
	}
	return to, nil
}

func isNumber(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil
}

// edited removes the leaving and adds the joining servers.
func (q *Quorum) edited(from *Members, change Change) (*Members, error) {
	if from.Hierarchical() {
		return nil, errors.New("the members have groups or weights: such a configuration is only replaced as a whole")
	}
	to := &Members{Servers: slices.Clone(from.Servers)}
	for _, text := range items(change.Leaving) {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: leaving: %q is not a server's number", ErrUnreadable, printable(text))
		}
		to.remove(id)
	}
	for _, text := range items(change.Joining) {
		key, value, _ := strings.Cut(strings.TrimRight(text, "="), "=") // as Java splits
		if value == "" || strings.Contains(value, "=") {
			return nil, fmt.Errorf("joining: %q is not of the form server.N=address", printable(text))
		}
		number := strings.TrimSpace(key[strings.LastIndexByte(key, '.')+1:])
		id, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: joining: %q is not a server's number", ErrUnreadable, printable(number))
		}
		if err := q.join(to, id, strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("joining: server %d: %w", id, err)
		}
	}
	return to, nil
}

// items splits a list at its commas, and drops empty items.
func items(list string) (all []string) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// remove removes a server, if it is a member.
func (m *Members) remove(id int64) {
	m.Servers = slices.DeleteFunc(m.Servers, func(s Member) bool { return s.ID == id })
}

// join adds a server, or replaces it.
func (q *Quorum) join(to *Members, id int64, value string) error {
	s, err := parseMember(id, value)
	switch {
	case id < 0:
		return errors.New("is not a server's number")
	case err != nil:
		return err
	case !s.HasClient:
		return errors.New("has no client address")
	case len(s.Addresses) > 1 && !q.MultiAddress:
		return errors.New("several addresses need multiAddress.enabled=true")
	}
	for i := range to.Servers {
		if other := &to.Servers[i]; other.ID != id && s.collides(other) {
			return fmt.Errorf("shares an address with server %d", other.ID)
		}
	}
	to.remove(id)
	return to.insert(s)
}

// ports returns the addresses of a member at which something listens.
func (m *Member) ports() map[string]bool {
	all := map[string]bool{}
	for _, a := range m.Addresses {
		all[fmt.Sprintf("%s %d", a.Host, a.QuorumPort)] = true
		all[fmt.Sprintf("%s %d", a.Host, a.ElectionPort)] = true
	}
	if m.HasClient {
		all[fmt.Sprintf("%s %d", m.ClientHost, m.ClientPort)] = true
	}
	return all
}

// collides reports whether two members have one address. An address that means another
// machine on each machine does not count.
func (m *Member) collides(other *Member) bool {
	mine := m.ports()
	for p := range maps.Keys(other.ports()) {
		host, _, _ := strings.Cut(p, " ")
		if mine[p] && !isWildcard(host) {
			return true
		}
	}
	return false
}

// checkNew checks what holds for every new configuration.
func (q *Quorum) checkNew(to *Members) error {
	least, voters := 1, len(to.Voters())
	if q.StandaloneEnabled {
		least = 2
	}
	switch {
	case voters < least:
		return fmt.Errorf("%d participants; standaloneEnabled=%v needs %d", voters, q.StandaloneEnabled, least)
	case voters > maxVoters:
		return fmt.Errorf("%d participants, more than %d", voters, maxVoters)
	}
	for i := range to.Servers {
		if to.Servers[i].HasSecure {
			return fmt.Errorf("server %d has an address for TLS, which is not supported there", to.Servers[i].ID)
		}
	}
	return errors.Join(to.checkGroups(), to.checkPorts())
}
