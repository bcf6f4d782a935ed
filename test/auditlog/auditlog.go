// Package auditlog makes changes that an audit log shows, and reads the lines, for tests that
// compare a server's with those of Apache ZooKeeper.
package auditlog

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// Settings are the lines of zoo.cfg that a server needs for Scenario.
var Settings = []string{"audit.enable=true", "extendedTypesEnabled=true"}

// Property makes the loggers of a Java server with slf4j-simple print the audit log.
const Property = "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.audit=info"

// Scenario makes every kind of change that a standalone server without data knows, with and
// without success, and ends its session. The error is one of the connection.
func Scenario(nc net.Conn) error {
	c := frames.New(nc)
	if _, err := c.Connect(wire.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}); err != nil {
		return err
	}
	auth := wire.AuthPacket{Scheme: "digest", Auth: []byte("bob:builder")}
	if r, err := c.Call(wire.XidAuth, wire.OpAuth, auth.Append(nil)); err != nil || r.Err != zk.OK {
		return fmt.Errorf("auth: %v, %w", r.Err, err)
	}
	for i, q := range requests() {
		if _, err := c.Call(int32(i+1), q.op, q.body); err != nil {
			return fmt.Errorf("request %d, %v: %w", i, q.op, err)
		}
	}
	return nil
}

type request struct {
	op   wire.OpCode
	body []byte
}

func requests() []request {
	create := func(path, data string, mode zk.CreateMode) []byte { return frames.Create(path, []byte(data), mode) }
	world := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	two := append(world, zk.ACL{Perms: zk.PermRead | zk.PermAdmin, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}})
	acl := func(path string, list []zk.ACL, version int32) []byte {
		return (&wire.SetACLRequest{Path: path, ACL: list, Version: version}).Append(nil)
	}
	return []request{
		{wire.OpCreate, create("/a", "x", zk.Persistent)},
		{wire.OpCreate, create("/a/e", "", zk.Ephemeral)},
		{wire.OpCreate2, create("/a/s-", "", zk.PersistentSequential)},
		{wire.OpCreate, create("/a/t-", "", zk.EphemeralSequential)},
		{wire.OpCreateContainer, create("/c", "", zk.Container)},
		{wire.OpCreateTTL, jute.AppendLong(create("/ttl", "", zk.PersistentWithTTL), 100000)},
		{wire.OpCreateTTL, jute.AppendLong(create("/ttl-", "", zk.PersistentSequentialWithTTL), 100000)},
		{wire.OpCreate, create("/a", "", zk.Persistent)},
		{wire.OpCreate, create("/no/parent", "", zk.EphemeralSequential)},
		{wire.OpCreate, create("/a/mode", "", 77)},
		{wire.OpSetData, frames.Set("/a", []byte("yy"))},
		{wire.OpSetData, frames.Set("/none", nil)},
		{wire.OpSetACL, acl("/a", two, -1)},
		{wire.OpSetACL, acl("/none", world, -1)},
		{wire.OpSetACL, acl("/a", world, 9)},
		{wire.OpGetData, frames.Path("/a", false)},
		{wire.OpExists, frames.Path("/none", false)},
		{wire.OpSync, frames.Path("/", false)[:5]},
		{wire.OpMulti, Multi(wire.OpCreate, "/m", wire.OpSetData, "/m", wire.OpCheck, "/m", wire.OpCreate2, "/n", wire.OpDelete, "/m")},
		{wire.OpMulti, Multi(wire.OpCreate, "/m", wire.OpDelete, "/none")},
		{wire.OpMulti, Multi()},
		{wire.OpDelete, frames.Delete("/n")},
		{wire.OpDelete, frames.Delete("/a")},
		{wire.OpDelete, frames.Delete("/nope")},
		{wire.OpReconfig, Reconfig("server.2=h:1:2;3")},
		{wire.OpCloseSession, nil},
	}
}

// Reconfig is the body of a reconfig that lets servers join.
func Reconfig(joining string) []byte {
	b := jute.AppendString(nil, joining)
	b = jute.AppendString(b, "")
	b = jute.AppendString(b, "")
	return jute.AppendLong(b, -1)
}

// Multi is the body of a multi; each operation is followed by its path.
func Multi(ops ...any) (b []byte) {
	for i := 0; i < len(ops); i += 2 {
		op, path := ops[i].(wire.OpCode), ops[i+1].(string)
		b = wire.MultiHeader{Type: op, Err: -1}.Append(b)
		switch op {
		case wire.OpSetData:
			b = append(b, frames.Set(path, []byte("z"))...)
		case wire.OpDelete, wire.OpCheck:
			b = append(b, frames.Delete(path)...)
		default:
			b = append(b, frames.Create(path, nil, zk.Persistent)...)
		}
	}
	return wire.AppendMultiEnd(b)
}

// Lines returns the lines of an audit log in what a server has printed, each with its level
// and without what differs from run to run: what is before the first field, the session, the
// address, and the user that the server runs as. The users of a connection are sorted.
func Lines(printed string) (lines []string) {
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "operation=") {
			lines = append(lines, bare(strings.TrimRight(line, "\n")))
		}
	}
	return lines
}

var (
	begin   = regexp.MustCompile(`(^|[\s])(session|user)=`)
	session = regexp.MustCompile(`session=0x[0-9a-f]+`)
	address = regexp.MustCompile(`ip=[^\t]+`)
	users   = regexp.MustCompile(`user=[^\t]+`)
)

func bare(line string) string {
	level := "INFO"
	if at := begin.FindStringSubmatchIndex(line); at != nil {
		if strings.Contains(line[:at[4]], "ERROR") {
			level = "ERROR"
		}
		line = line[at[4]:]
	}
	line = session.ReplaceAllString(line, "session=S")
	line = address.ReplaceAllString(line, "ip=A")
	return level + " " + users.ReplaceAllStringFunc(line, func(s string) string {
		names := strings.Split(s[len("user="):], ",")
		for i, u := range names {
			if strings.Count(u, ".") == 3 {
				names[i] = "A"
			} else if len(names) == 1 {
				names[i] = "SERVER"
			}
		}
		slices.Sort(names)
		return "user=" + strings.Join(names, ",")
	})
}
