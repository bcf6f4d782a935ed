package config

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// members reads the server, group and weight lines, from zoo.cfg or the dynamic file,
// and the id of this server.
//
// REQUIRES: file has been called.
func (l *loader) members() {
	q := &l.config.Quorum
	dynamic := q.DynamicFile != ""
	for _, p := range l.ensemble {
		if dynamic {
			l.fail(l.places[p.key], p.key, p.value, "must be in the dynamic file, because dynamicConfigFile is set")
			continue
		}
		l.member(l.places[p.key], p.key, p.value)
	}
	if dynamic {
		l.dynamicFile(q.DynamicFile)
	}
	if l.config.File != "" && (dynamic || q.ReconfigEnabled) && !l.badMembers {
		l.nextFile(l.config.File + NextSuffix)
	}
	switch {
	case l.id != nil && *l.id < 0:
		l.fail(l.name, "myid", strconv.FormatInt(*l.id, 10), "is not a server's number")
	case l.id != nil:
		q.MyID, q.HasMyID = *l.id, true
	case len(q.Members.Servers) > 0 && l.config.Data.Dir != "":
		l.myID(l.myIDFile())
	}
}

func (l *loader) myIDFile() string { return filepath.Join(l.config.Data.Dir, "myid") }

// idPlace returns where the server's number comes from, for warnings and errors.
func (l *loader) idPlace() string {
	if l.id != nil {
		return l.name
	}
	return l.myIDFile()
}

// member reads one line of the ensemble's configuration.
func (l *loader) member(where, key, value string) {
	q := &l.config.Quorum
	if err := q.Members.add(key, value, q.MultiAddress); err != nil {
		l.fail(where, key, value, err.Error())
		l.badMembers = true
	}
}

// dynamicFile reads the members from a file of their own. The suffix of its name after
// the last dot is the version, if it is a number in hex; it overrides a version in
// zoo.cfg.
func (l *loader) dynamicFile(name string) {
	l.config.Quorum.Members.Version = 0
	text, err := readFile(name)
	if err != nil {
		l.fail(l.places["dynamicConfigFile"], "dynamicConfigFile", name, err.Error())
		l.badMembers = true
		return
	}
	lines, err := parseProperties(text)
	if err != nil {
		l.errs = append(l.errs, syntaxError(name, err))
		l.badMembers = true
		return
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if v, err := parseVersion(name[i+1:]); err == nil {
			l.config.Quorum.Members.Version = v
		}
	}
	for _, p := range lines {
		where := fmt.Sprintf("%s:%d", name, p.line)
		key, value := strings.TrimSpace(p.key), strings.TrimSpace(p.value)
		switch {
		case key == "version":
			l.fail(where, key, value, "must not be in the file: the version is the suffix of its name")
		case !isMemberKey(key):
			l.fail(where, key, value, "is not allowed: a dynamic file has server, group and weight lines only")
		default:
			l.places[key] = where
			l.member(where, key, value)
		}
	}
}

// What the names of the files that a reconfiguration writes have after that of zoo.cfg.
const (
	DynamicSuffix = ".dynamic."     // the version in hex follows
	NextSuffix    = ".dynamic.next" // the members that were proposed
)

// nextFile looks for the file that a server leaves if it stops during a reconfiguration:
// the future members. It matters only if reconfigEnabled is true.
func (l *loader) nextFile(name string) {
	q := &l.config.Quorum
	text, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if !q.ReconfigEnabled {
		l.warn(name, "dynamicConfigFile", "an unfinished reconfiguration left this file; it is ignored, because reconfigEnabled is false")
		return
	}
	var next *Members
	if err == nil {
		next, err = ParseMembers(text)
	}
	switch {
	case err != nil:
		l.fail(name, "dynamicConfigFile", "", err.Error())
	case next.Version > q.Members.Version:
		q.Next = next
	}
}

// myID reads the server's id. A missing file is an error only in an ensemble.
func (l *loader) myID(name string) {
	text, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.fail(name, "myid", "", err.Error())
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	first = strings.TrimSpace(first)
	id, err := strconv.ParseInt(first, 10, 64)
	switch {
	case first == "":
		l.fail(name, "myid", "", "is empty; it must contain the server's number")
	case err != nil || id < 0:
		l.fail(name, "myid", first, "is not a server's number")
	default:
		l.config.Quorum.MyID, l.config.Quorum.HasMyID = id, true
	}
}

// serverPlace returns the place of a server's line.
func (l *loader) serverPlace(id int64) (where, key string) {
	key = fmt.Sprintf("server.%d", id)
	return l.places[key], key
}

func (l *loader) finishQuorum() {
	if l.badMembers {
		return // without these lines the others mean nothing
	}
	q := &l.config.Quorum
	where, first := l.name, "server"
	if len(q.Members.Servers) > 0 {
		where, first = l.serverPlace(q.Members.Servers[0].ID)
	}
	if err := l.checkMembers(); err != nil {
		l.fail(where, "server", "", err.Error())
		return
	}
	if q.LinkTimeout <= 0 {
		q.LinkTimeout = l.config.Session.Tick * time.Duration(q.SyncLimit)
	}
	if !q.Distributed() {
		if len(q.Members.Servers) > 0 {
			l.warn(where, first, "the only server; it is ignored, the server runs standalone")
		}
		if q.Observer {
			l.warn(l.places["peerType"], "peerType", "has no effect: no server line has this role")
		}
		q.Observer = false
		return
	}
	l.checkLimits()
	l.checkOwn()
	l.warnOfEnsemble(where)
}

// maxVoters equals zab.MaxVoters, which this package cannot import.
const maxVoters = 64

// checkMembers checks the rules that concern all server lines together.
func (l *loader) checkMembers() error {
	q := &l.config.Quorum
	voters, observers := len(q.Members.Voters()), len(q.Members.Observers())
	switch {
	case voters == 0 && observers > 0:
		return errors.New("the ensemble has observers and no participant")
	case voters == 0 && !q.StandaloneEnabled:
		return errors.New("standaloneEnabled=false needs at least one server line")
	case voters > maxVoters:
		return fmt.Errorf("the ensemble has %d participants, but this server can count the votes of %d at most: "+
			"make the others observers", voters, maxVoters)
	case voters == 1 && observers > 0 && q.StandaloneEnabled:
		return errors.New("one participant with observers is not an ensemble; " +
			"standaloneEnabled=false allows it")
	}
	if q.OraclePath != "" && q.Members.Hierarchical() {
		return errors.New("oraclePath counts votes by majority; remove it, or the lines of groups and weights")
	}
	return errors.Join(q.Members.checkGroups(), q.Members.checkPorts())
}

// checkPorts refuses two servers with the same address. Addresses that mean a different
// machine on each machine (such as localhost) do not count.
func (m *Members) checkPorts() error {
	type port struct {
		host string
		port int
	}
	owner := make(map[port]int64)
	for i := range m.Servers {
		for _, a := range m.Servers[i].Addresses {
			if isWildcard(a.Host) {
				continue
			}
			for _, p := range []port{{a.Host, a.QuorumPort}, {a.Host, a.ElectionPort}} {
				if other, taken := owner[p]; taken {
					return fmt.Errorf("server.%d and server.%d both use port %d of %s", other, m.Servers[i].ID, p.port, p.host)
				}
				owner[p] = m.Servers[i].ID
			}
		}
	}
	return nil
}

// isWildcard reports whether a host is every address of a machine.
func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsUnspecified()
}

// checkLimits requires the limits that an ensemble needs. A limit of more milliseconds
// than fit into an int of Java makes Apache fail in unexpected ways.
func (l *loader) checkLimits() {
	q := &l.config.Quorum
	for _, limit := range []struct {
		key   string
		ticks int
		need  bool
	}{
		{"initLimit", q.InitLimit, true}, {"syncLimit", q.SyncLimit, true}, {"connectToLearnerMasterLimit", q.ConnectLimit, false},
	} {
		where := l.places[limit.key]
		switch {
		case l.failedAt(where): // already reported
		case limit.ticks == 0 && limit.need && where == "":
			l.fail(l.name, limit.key, "", "is not set; an ensemble needs it")
		case limit.ticks == 0 && limit.need:
			l.fail(where, limit.key, "0", "must be 1 or more in an ensemble")
		case int64(limit.ticks)*l.config.Session.Tick.Milliseconds() > math.MaxInt32:
			l.fail(where, limit.key, strconv.Itoa(limit.ticks),
				fmt.Sprintf("times tickTime is more than %d ms", math.MaxInt32))
		}
	}
	if q.MinNotification > q.MaxNotification {
		const key = "fastleader.minNotificationInterval"
		where := l.places["zookeeper."+key]
		if where == "" {
			where = l.places["zookeeper.fastleader.maxNotificationInterval"]
		}
		l.fail(where, key, "", fmt.Sprintf("%d ms is above fastleader.maxNotificationInterval, %d ms",
			q.MinNotification.Milliseconds(), q.MaxNotification.Milliseconds()))
	}
}

// maxSessionServer is the largest id that fits into the byte of session ids that holds
// it.
const maxSessionServer = 255

// checkOwn finds this server among the members and copies its role.
func (l *loader) checkOwn() {
	q := &l.config.Quorum
	if l.config.Data.Dir == "" || l.failedAt(l.idPlace()) {
		return // already reported
	}
	own := q.Own()
	switch {
	case !q.HasMyID:
		l.fail(l.idPlace(), "myid", "", "the file is missing; an ensemble needs it")
		return
	case own == nil:
		l.fail(l.idPlace(), "myid", strconv.FormatInt(q.MyID, 10), "there is no server line with this number")
		return
	case own.HasSecure:
		where, key := l.serverPlace(own.ID)
		l.fail(where, key, "", "has a secure client port, which is not supported there; use secureClientPort")
	}
	if own.ID > maxSessionServer {
		l.warn(l.idPlace(), "myid", "%d is above %d: its session ids look like those of server %d",
			own.ID, maxSessionServer, own.ID&maxSessionServer)
	}
	if where := l.places["peerType"]; where != "" && q.Observer != own.Observer {
		_, key := l.serverPlace(own.ID)
		l.warn(where, "peerType", "differs from %s; %s counts", key, key)
	}
	q.Observer = own.Observer
}

// failedAt reports whether an error was found at that place, unless the place is empty.
func (l *loader) failedAt(where string) bool {
	if where == "" {
		return false
	}
	for _, err := range l.errs {
		if e, ok := errors.AsType[*Error](err); ok && e.Where == where {
			return true
		}
	}
	return false
}

// warnOfEnsemble warns about ensembles that tolerate fewer failures than expected.
func (l *loader) warnOfEnsemble(where string) {
	q := &l.config.Quorum
	switch n := len(q.Members.Voters()); {
	case n == 1:
		l.warn(where, "server", "1 participant: the service stops if it fails; with three it survives the loss of one")
	case n == 2 && q.OraclePath != "":
		l.warn(l.places["oraclePath"], "oraclePath", "a majority of two participants is both: if the oracle is wrong, acknowledged writes are lost; three participants need no oracle")
	case n == 2:
		l.warn(where, "server", "2 participants: the service stops if either fails; with three it survives the loss of one")
	case n%2 == 0 && !q.Members.Hierarchical():
		l.warn(where, "server", "%d participants survive the loss of %d, and so do %d participants", n, (n-1)/2, n-1)
	}
}

// ownAddress sets the client address from the server's own line. It must agree with
// zoo.cfg if that has an address: in host and port, or only in the port if zoo.cfg says
// every address. Two different hosts may be the same if one of them is a name.
func (l *loader) ownAddress(own *Member, set bool) {
	c := &l.config.Client
	if set && (c.Port != own.ClientPort || !sameHost(c.Host, own.ClientHost)) {
		where, key := l.serverPlace(own.ID)
		l.fail(where, key, "", fmt.Sprintf("client address %s:%d differs from clientPort and clientPortAddress, %s",
			own.ClientHost, own.ClientPort, c.Addr()))
		return
	}
	c.Host, c.Port = own.ClientHost, own.ClientPort
	if c.Host == "0.0.0.0" {
		c.Host = ""
	}
}

// sameHost reports whether the address of zoo.cfg and that of a server line may be the
// same.
func sameHost(file, line string) bool {
	if file == "" || file == line {
		return true
	}
	a, err := netip.ParseAddr(file)
	if err != nil {
		return true
	}
	b, err := netip.ParseAddr(line)
	return err != nil || a.IsUnspecified() || a.Unmap() == b
}
