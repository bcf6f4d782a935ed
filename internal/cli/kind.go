package cli

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// A kind is the lifetime of a znode. A znode's Stat distinguishes ephemerals from all
// others and no more: servers do not say what is a container, what has a time to
// live, or what was made sequential.
type kind int

const (
	persistent kind = iota
	ephemeral
	container
	withTTL
)

var kindNames = [...]string{"persistent", "ephemeral", "container", "ttl"}

func (k kind) String() string { return kindNames[k] }

// MarshalText names the kind in JSON.
func (k kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if name == string(text) {
			*k = kind(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no kind of znode", text)
}

// kindOf is the kind that a Stat shows.
func kindOf(stat zk.Stat) kind {
	if stat.EphemeralOwner != 0 {
		return ephemeral
	}
	return persistent
}

// mode is that of a create that makes such a znode.
func (k kind) mode() zk.CreateMode {
	return [...]zk.CreateMode{zk.Persistent, zk.Ephemeral, zk.Container, zk.PersistentWithTTL}[k]
}
