// Package zk is the vocabulary of ZooKeeper: the numbers and small records that
// the wire, the disk, the tree and a client's API have in common. It holds no
// behaviour beyond naming and formatting, and imports nothing of the project.
package zk

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"strconv"
)

// Zxid identifies a transaction and orders it among all others: the leader's
// epoch in the high 32 bits, a counter within the epoch in the low 32.
type Zxid int64

// MakeZxid joins an epoch and a counter.
func MakeZxid(epoch, counter uint32) Zxid { return Zxid(int64(epoch)<<32 | int64(counter)) }

// Epoch returns the high 32 bits: the leader's reign that proposed z.
func (z Zxid) Epoch() uint32 { return uint32(uint64(z) >> 32) }

// Counter returns the low 32 bits: the position of z within its epoch.
func (z Zxid) Counter() uint32 { return uint32(z) }

// String prints z as operators grep for it: 0x100000002.
func (z Zxid) String() string { return "0x" + strconv.FormatUint(uint64(z), 16) }

// Hex prints z as file names carry it: 100000002.
func (z Zxid) Hex() string { return strconv.FormatUint(uint64(z), 16) }

// SessionID names a client session. The high byte is the id of the server that
// made it. Zero is never a session.
type SessionID int64

// String prints the id as ZooKeeper's logs and four-letter words do.
func (s SessionID) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }

// Stat is what a client may know of a znode beside its data. Times are
// milliseconds since 1970 by the leader's clock.
type Stat struct {
	Czxid          Zxid  // transaction that created the znode
	Mzxid          Zxid  // transaction that last set its data
	Ctime          int64 // when it was created
	Mtime          int64 // when its data was last set
	Version        int32 // number of changes of the data
	Cversion       int32 // number of changes of the list of children
	Aversion       int32 // number of changes of the ACL
	EphemeralOwner int64 // session that it lives with, 0 if it is not ephemeral
	DataLength     int32 // bytes of data
	NumChildren    int32
	Pzxid          Zxid // transaction that last created or deleted a child
}

// Perms is a set of permissions.
type Perms int32

// The permissions. Create and Delete are asked of the parent, the others of
// the znode itself.
const (
	PermRead Perms = 1 << iota
	PermWrite
	PermCreate
	PermDelete
	PermAdmin
	PermAll = PermRead | PermWrite | PermCreate | PermDelete | PermAdmin
)

// String prints the letters in zkCli's order, cdrwa.
func (p Perms) String() string {
	var b []byte
	for _, l := range [...]struct {
		bit    Perms
		letter byte
	}{{PermCreate, 'c'}, {PermDelete, 'd'}, {PermRead, 'r'}, {PermWrite, 'w'}, {PermAdmin, 'a'}} {
		if p&l.bit != 0 {
			b = append(b, l.letter)
		}
	}
	return string(b)
}

// ID is an identity under an authentication scheme.
type ID struct {
	Scheme string
	ID     string
}

// String prints scheme:id.
func (i ID) String() string { return i.Scheme + ":" + i.ID }

// AnyoneUnsafe is the identity of every client.
var AnyoneUnsafe = ID{"world", "anyone"}

// ACL grants permissions to an identity.
type ACL struct {
	Perms Perms
	ID    ID
}

// String prints scheme:id:perms.
func (a ACL) String() string { return a.ID.String() + ":" + a.Perms.String() }

// OpenACLUnsafe grants all permissions to every client. The caller owns the slice.
func OpenACLUnsafe() []ACL { return []ACL{{PermAll, AnyoneUnsafe}} }

// CreatorAllACL grants everything to the identities that the creator has
// authenticated. The caller owns the slice.
func CreatorAllACL() []ACL { return []ACL{{PermAll, ID{"auth", ""}}} }

// ReadACLUnsafe lets every client read. The caller owns the slice.
func ReadACLUnsafe() []ACL { return []ACL{{PermRead, AnyoneUnsafe}} }

// WorldACL grants permissions to every client. The caller owns the slice.
func WorldACL(perms Perms) []ACL { return []ACL{{perms, AnyoneUnsafe}} }

// AuthACL grants permissions to the identities that the creator has authenticated. The
// caller owns the slice.
func AuthACL(perms Perms) []ACL { return []ACL{{perms, ID{"auth", ""}}} }

// DigestACL grants permissions to clients that authenticate as the user with the password
// (scheme digest). Servers use SHA-1 unless DigestAuthenticationProvider.digestAlg says
// otherwise. The caller owns the slice.
func DigestACL(perms Perms, user, password string) []ACL {
	sum := sha1.Sum([]byte(user + ":" + password))
	return []ACL{{perms, ID{"digest", user + ":" + base64.StdEncoding.EncodeToString(sum[:])}}}
}

// CreateMode is the flags field of a create request.
type CreateMode int32

// The create modes.
const (
	Persistent CreateMode = iota
	Ephemeral
	PersistentSequential
	EphemeralSequential
	Container
	PersistentWithTTL
	PersistentSequentialWithTTL
)

// Valid reports whether m is one of the create modes.
func (m CreateMode) Valid() bool { return m >= Persistent && m <= PersistentSequentialWithTTL }

// IsEphemeral reports whether the znode lives and ends with its session.
func (m CreateMode) IsEphemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// IsSequential reports whether the server appends a counter to the name.
func (m CreateMode) IsSequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialWithTTL
}

// IsTTL reports whether the znode carries a time to live.
func (m CreateMode) IsTTL() bool { return m == PersistentWithTTL || m == PersistentSequentialWithTTL }

// EventType says what happened to a znode.
type EventType int32

// The event types. The last three are made by clients, never sent.
const (
	EventNone                   EventType = -1
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7
)

// String names the event as ZooKeeper's documents do.
func (e EventType) String() string {
	switch e {
	case EventNone:
		return "None"
	case EventNodeCreated:
		return "NodeCreated"
	case EventNodeDeleted:
		return "NodeDeleted"
	case EventNodeDataChanged:
		return "NodeDataChanged"
	case EventNodeChildrenChanged:
		return "NodeChildrenChanged"
	case EventDataWatchRemoved:
		return "DataWatchRemoved"
	case EventChildWatchRemoved:
		return "ChildWatchRemoved"
	case EventPersistentWatchRemoved:
		return "PersistentWatchRemoved"
	}
	return fmt.Sprintf("EventType(%d)", int32(e))
}

// KeeperState is the state of a session as an event reports it. A server sends
// only StateSyncConnected.
type KeeperState int32

// The keeper states.
const (
	StateDisconnected      KeeperState = 0
	StateSyncConnected     KeeperState = 3
	StateAuthFailed        KeeperState = 4
	StateConnectedReadOnly KeeperState = 5
	StateSaslAuthenticated KeeperState = 6
	StateExpired           KeeperState = -112
	StateClosed            KeeperState = 7
)

// Event tells a client that a watch fired.
type Event struct {
	Type  EventType
	State KeeperState
	Path  string
	Zxid  Zxid // of the change; -1 where the server does not say
}

// AddWatchMode is the mode of an addWatch request.
type AddWatchMode int32

// The modes of addWatch.
const (
	AddWatchPersistent          AddWatchMode = 0
	AddWatchPersistentRecursive AddWatchMode = 1
)

// WatcherType selects watches in removeWatches and checkWatches.
type WatcherType int32

// The watcher types. The last two exist since 3.9.
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)
