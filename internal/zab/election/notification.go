package election

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// State is what a server is doing, with Apache's number.
type State int32

// The states.
const (
	Looking   State = iota // for a leader
	Following              // one
	Leading
	Observing // a leader, without a vote
)

// String returns Apache's name of the state.
func (s State) String() string {
	switch s {
	case Looking:
		return "LOOKING"
	case Following:
		return "FOLLOWING"
	case Leading:
		return "LEADING"
	case Observing:
		return "OBSERVING"
	}
	return fmt.Sprintf("state %d", int32(s))
}

// CurrentVersion is the version of the notifications that Append writes. Those
// of version 2 carry a configuration.
const CurrentVersion int32 = 2

// Sizes of the payload.
const (
	bytesWithoutEpoch  = 28 // state, leader, zxid, election epoch
	bytesWithoutConfig = 40 // and peer epoch, version
)

// MaxPayloadBytes is the longest payload that a server accepts, by Apache's rule.
const MaxPayloadBytes = 512 << 10

// ErrPayload is the error of Parse. The caller drops the message and keeps
// the link, as Apache does (ZOOKEEPER-3769).
var ErrPayload = errors.New("election: not a notification")

// Notification is the message of Fast Leader Election: what From votes for, and
// whether it is still looking (protocol page, section 12.2).
type Notification struct {
	From  int64 // the sender, known from the link
	State State // of From

	// The vote. A server that looks proposes it; another one has settled on it.
	Leader        int64
	Zxid          zk.Zxid // last of Leader's log when it was proposed
	ElectionEpoch int64   // the election in which From votes so; -1 if it knows none
	PeerEpoch     int64   // Leader's current epoch when proposed, once settled its reign's

	Version int32  // of the message: 0 of very old servers, 1 without Config, else 2
	Config  []byte // text of From's configuration, nil if the message has none
	// Seen is the version of the configuration that follows Config, if From has seen one
	// and Config is the one before it; 0 otherwise. Apache's servers neither send nor
	// read it.
	Seen zk.Zxid
	// SeenText is the text of the latest configuration in From's history, if that is not Config: a
	// change that may not be committed yet. Empty and not nil: From's history has no later one than Config. Apache's servers
	// neither send nor read it.
	SeenText []byte
}

// Append appends the payload, without From and without the frame's length,
// always in the form of CurrentVersion.
func (n *Notification) Append(b []byte) []byte {
	b = jute.AppendInt(b, int32(n.State))
	b = jute.AppendLong(b, n.Leader)
	b = jute.AppendLong(b, int64(n.Zxid))
	b = jute.AppendLong(b, n.ElectionEpoch)
	b = jute.AppendLong(b, n.PeerEpoch)
	b = jute.AppendInt(b, CurrentVersion)
	b = jute.AppendInt(b, int32(len(n.Config)))
	b = append(b, n.Config...)
	if n.Seen != 0 || n.SeenText != nil {
		b = jute.AppendLong(b, int64(n.Seen))
	}
	if n.SeenText != nil {
		b = jute.AppendBuffer(b, n.SeenText)
	}
	return b
}

// Parse reads a payload that the server from sent. Three
// forms are known: 28 bytes end before the peer epoch, which is the zxid's then;
// 40 bytes have version 0 whatever they say; longer ones say their version, and
// from 2 on carry a configuration. If exactly 8 bytes follow it, or 8 bytes and a buffer, they are
// Seen and SeenText; any other bytes after it are ignored.
//
// Config and SeenText are parts of b. Any error is an ErrPayload with the reason: a length that is of no form, a
// configuration that is longer than the rest, a state that does not exist.
func Parse(from int64, b []byte) (Notification, error) {
	if len(b) > MaxPayloadBytes {
		return Notification{}, fmt.Errorf("%w: %d bytes", ErrPayload, len(b))
	}
	d := jute.NewDecoder(b)
	n := Notification{
		From:          from,
		State:         State(d.Int()),
		Leader:        d.Long(),
		Zxid:          zk.Zxid(d.Long()),
		ElectionEpoch: d.Long(),
	}
	switch len(b) {
	case bytesWithoutEpoch:
		n.PeerEpoch = int64(n.Zxid) >> 32
	case bytesWithoutConfig:
		n.PeerEpoch = d.Long()
	default:
		n.PeerEpoch = d.Long()
		if n.Version = d.Int(); n.Version >= 2 {
			n.Config = d.Buffer()
			if d.Err() == nil && n.Config == nil {
				d.Fail(jute.ErrLength)
			}
			if d.Err() == nil {
				n.parseSeen(d.Rest())
			}
		}
	}
	if err := d.Err(); err != nil {
		return Notification{}, fmt.Errorf("%w: %d bytes: %w", ErrPayload, len(b), err)
	}
	if n.State < Looking || n.State > Observing {
		return Notification{}, fmt.Errorf("%w: state %d", ErrPayload, int32(n.State))
	}
	return n, nil
}

// parseSeen reads what follows the configuration.
func (n *Notification) parseSeen(b []byte) {
	d := jute.NewDecoder(b)
	seen, text := zk.Zxid(d.Long()), []byte(nil)
	if d.Err() == nil && d.Len() > 0 {
		text = d.Buffer()
	}
	if d.Err() == nil && d.Len() == 0 {
		n.Seen, n.SeenText = seen, text
	}
}
