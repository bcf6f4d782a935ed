package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Quorum is the ensemble: its members and how this server takes part. A
// standalone server reads ReconfigEnabled and ReadOnlyMode of it.
type Quorum struct {
	MyID     int64 // content of the file myid in the data directory
	HasMyID  bool  // the file is there
	Members  Members
	Observer bool // peerType=observer

	InitLimit           int // ticks to connect and synchronize
	SyncLimit           int // ticks that a follower may lag
	ConnectLimit        int // connectToLearnerMasterLimit, ticks; 0 is InitLimit
	ObserverMasterPort  int // 0 is none
	ListenOnAllIPs      bool
	SyncEnabled         bool // observers write log and snapshots
	LocalSessions       bool
	LocalUpgrading      bool
	StandaloneEnabled   bool
	ReconfigEnabled     bool
	ReadOnlyMode        bool // readonlymode.enabled
	LeaderServes        bool
	DynamicFile         string // dynamicConfigFile, "" when the members are in File
	OraclePath          string
	MultiAddress        bool
	ReachabilityCheck   bool
	ReachabilityTimeout time.Duration

	ElectionBindRetry  int           // attempts; 0 is without end
	ConnectTimeout     time.Duration // cnxTimeout: of election connections
	LinkTimeout        time.Duration // quorumCnxnTimeoutMs; < 0 is Tick*SyncLimit
	RetryDelay         time.Duration // leaderConnectDelayDuringRetryMs
	MinNotification    time.Duration
	MaxNotification    time.Duration
	ObserverReconnect  time.Duration
	ObserverElection   time.Duration
	ObserverQueueBytes int // observerMaster.sizeLimit
	MaxSnapSyncs       int
	MaxDiffSyncs       int
	TCPKeepAlive       bool
}

// Members is a configuration of the ensemble: the server, group and weight
// lines. The zero value has no members.
type Members struct {
	Servers []Member        // in the order of their ids
	Groups  map[int64]int64 // server id -> group id; nil is one majority of all
	Weights map[int64]int64 // server id -> weight; absent is 1
	Version int64           // zxid of the reconfiguration that made it; 0 from a static file
}

// Member is a server line.
type Member struct {
	ID        int64
	Addresses []MemberAddress // more than one with multiAddress.enabled
	Observer  bool

	HasClient  bool
	ClientHost string // "0.0.0.0" when the line has only a port
	ClientPort int

	HasSecure  bool
	SecureHost string
	SecurePort int
}

// MemberAddress is where a member's peers reach it.
type MemberAddress struct {
	Host         string
	QuorumPort   int
	ElectionPort int
}

// Voters counts the participants.
func (m *Members) Voters() int {
	n := 0
	for i := range m.Servers {
		if !m.Servers[i].Observer {
			n++
		}
	}
	return n
}

// Find returns the member of that id, nil if there is none.
func (m *Members) Find(id int64) *Member {
	for i := range m.Servers {
		if m.Servers[i].ID == id {
			return &m.Servers[i]
		}
	}
	return nil
}

// Distributed reports whether the configuration is of an ensemble. One
// participant is a standalone server unless standaloneEnabled is false.
func (q *Quorum) Distributed() bool {
	n := q.Members.Voters()
	return n > 1 || n == 1 && !q.StandaloneEnabled
}

// isMemberKey reports whether a key belongs to the ensemble's configuration,
// which may be in a file of its own.
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

// add takes one server, group or weight line.
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
		m.insert(s)
	case "group":
		return m.addGroup(id, value)
	case "weight":
		w, err := strconv.ParseInt(value, 10, 64)
		if err != nil || w < 0 {
			return errors.New("a weight is a whole number, 0 or more")
		}
		if m.Weights == nil {
			m.Weights = make(map[int64]int64)
		}
		m.Weights[id] = w
	}
	return nil
}

// insert keeps Servers in the order of ids; a later line replaces an earlier.
func (m *Members) insert(s Member) {
	at := 0
	for at < len(m.Servers) && m.Servers[at].ID < s.ID {
		at++
	}
	if at < len(m.Servers) && m.Servers[at].ID == s.ID {
		m.Servers[at] = s
		return
	}
	m.Servers = append(m.Servers, Member{})
	copy(m.Servers[at+1:], m.Servers[at:])
	m.Servers[at] = s
}

func (m *Members) addGroup(id int64, value string) error {
	if m.Groups == nil {
		m.Groups = make(map[int64]int64)
	}
	for _, part := range strings.Split(value, ":") {
		sid, err := strconv.ParseInt(part, 10, 64)
		if err != nil || sid < 0 {
			return fmt.Errorf("%q is not a server's number", part)
		}
		if other, ok := m.Groups[sid]; ok {
			return fmt.Errorf("server %d is in group %d already", sid, other)
		}
		m.Groups[sid] = id
	}
	return nil
}

// errMemberForm says what a server line looks like.
var errMemberForm = errors.New("not of the form host:quorumPort:electionPort[:participant|observer]" +
	"[;[clientHost:]clientPort[;[secureHost:]securePort]]")

// parseMember reads the value of a server line.
func parseMember(id int64, value string) (Member, error) {
	s := Member{ID: id}
	parts := strings.Split(value, ";")
	if len(parts) > 3 {
		return s, errMemberForm
	}
	for i, address := range strings.Split(parts[0], "|") {
		if err := s.addAddress(address, i == 0); err != nil {
			return s, err
		}
	}
	var err error
	if len(parts) > 1 && parts[1] != "" {
		s.HasClient = true
		if s.ClientHost, s.ClientPort, err = parseListen(parts[1]); err != nil {
			return s, err
		}
	}
	if len(parts) > 2 && parts[2] != "" {
		s.HasSecure = true
		if s.SecureHost, s.SecurePort, err = parseListen(parts[2]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// addAddress reads host:quorumPort:electionPort[:role].
func (s *Member) addAddress(text string, first bool) error {
	host, fields, err := cutHost(text)
	if err != nil {
		return err
	}
	if len(fields) != 2 && len(fields) != 3 {
		return errMemberForm
	}
	a := MemberAddress{Host: host}
	if a.QuorumPort, err = parsePort(fields[0]); err != nil {
		return err
	}
	if a.ElectionPort, err = parsePort(fields[1]); err != nil {
		return err
	}
	if a.QuorumPort == a.ElectionPort {
		return fmt.Errorf("quorum port and election port are both %d", a.QuorumPort)
	}
	observer := s.Observer
	if len(fields) == 3 {
		if observer, err = parseRole(fields[2]); err != nil {
			return err
		}
	}
	if !first && observer != s.Observer {
		return errors.New("the addresses of one server have different roles")
	}
	s.Observer = observer
	s.Addresses = append(s.Addresses, a)
	return nil
}

// parseRole reads participant or observer, and reports whether it is the latter.
func parseRole(s string) (observer bool, err error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "observer":
		return true, nil
	case "participant":
		return false, nil
	}
	return false, errors.New("not participant or observer")
}

// parseListen reads [host:]port.
func parseListen(text string) (host string, port int, err error) {
	if !strings.Contains(text, ":") {
		port, err = parsePort(text)
		return "0.0.0.0", port, err
	}
	host, fields, err := cutHost(text)
	if err != nil {
		return "", 0, err
	}
	if len(fields) != 1 {
		return "", 0, errMemberForm
	}
	port, err = parsePort(fields[0])
	return host, port, err
}

// cutHost cuts the host, an IPv6 address in brackets, off the fields behind it.
func cutHost(text string) (host string, fields []string, err error) {
	if rest, ok := strings.CutPrefix(text, "["); ok {
		host, rest, ok = strings.Cut(rest, "]")
		if !ok || host == "" || !strings.HasPrefix(rest, ":") {
			return "", nil, errMemberForm
		}
		return host, strings.Split(rest[1:], ":"), nil
	}
	fields = strings.Split(text, ":")
	if fields[0] == "" {
		return "", nil, errMemberForm
	}
	return fields[0], fields[1:], nil
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is not a port number", s)
	}
	return int(n), nil
}

// check applies the rules that concern all lines together.
func (q *Quorum) check() error {
	m := &q.Members
	voters, observers := m.Voters(), len(m.Servers)-m.Voters()
	switch {
	case voters == 0 && observers > 0:
		return errors.New("the ensemble has observers and no participant")
	case voters == 0 && !q.StandaloneEnabled:
		return errors.New("standaloneEnabled=false needs at least one server line")
	case voters == 1 && observers > 0 && q.StandaloneEnabled:
		return errors.New("one participant with observers is no ensemble; " +
			"standaloneEnabled=false allows it")
	}
	if m.Groups == nil && m.Weights == nil {
		return nil
	}
	for _, s := range m.Servers {
		if _, ok := m.Groups[s.ID]; !ok && !s.Observer {
			return fmt.Errorf("server.%d is in no group", s.ID)
		}
	}
	return nil
}
