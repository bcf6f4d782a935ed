package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// The quorum port accepts any connection, and any first packet. The first packet of an
// accepted link decides to which kind the link belongs, and each kind has its own limit:
// links of unknown servers never take the places of members. When a kind is full, the
// transport closes a link that has sent no second packet: the oldest one of the address
// from which most links of this kind have come, so that a peer which opens many, and stops
// half-way in TLS handshakes for example, ends its own. A link with a second packet keeps
// its place: the core closes it if that packet was not due.
const (
	maxSilent    = 64 // links that have sent no packet
	maxUnknown   = 64 // links of servers that are not members
	maxPerMember = 4  // links that name the same member
)

// noID is the id of a link that does not begin with one. No member has it.
const noID = -1

// place says which limit counts an accepted link. Transport.mu guards it. The link's
// reader, which alone writes kind and settled, may read these without the lock.
type place struct {
	kind    linkKind
	member  int64 // of kind ofMember
	settled bool  // the link has sent a second packet
	evicted bool  // the link was closed to make room
}

type linkKind int

const (
	dialled linkKind = iota // not an accepted link
	silent
	unknown
	ofMember
)

// String is the kind in messages.
func (k linkKind) String() string {
	return [...]string{"dialled", "silent", "of servers that are not in the configuration", "of one server"}[k]
}

// admitLearner creates a link for a connection to the quorum port. It returns a channel that is
// closed when the link has ended that has made way for it, nil if none has.
func (t *Transport) admitLearner(nc net.Conn) (ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		nc.Close() // an error changes nothing: nothing was sent
		return nil
	}
	victim, err := t.makeRoomLocked(place{kind: silent}, maxSilent-1)
	if err != nil {
		nc.Close() // an error changes nothing: nothing was sent
		t.logRefused("quorum port", remoteName(nc), err)
		return nil
	}
	l := t.addLinkLocked()
	l.place.kind, l.nc, l.address = silent, nc, addressOf(nc)
	l.attach(socket.New(nc, socket.Options{})) // the link is new, so it cannot have ended
	t.wg.Go(l.runAccepted)
	if victim != nil {
		ended = victim.ended
	}
	return ended
}

// makeRoomLocked makes room for one more link of a kind. If there are more than most, it
// closes one that is not settled, and returns it. The error is ErrCrowded if all are settled.
// REQUIRES: t.mu.
func (t *Transport) makeRoomLocked(at place, most int) (victim *link, err error) {
	var all []*link
	from := map[string]int{} // how many have come from an address
	for _, l := range t.mu.links {
		if l.place.kind == at.kind && l.place.member == at.member && !l.place.evicted {
			all = append(all, l)
			from[l.address]++
		}
	}
	if len(all) <= most {
		return nil, nil
	}
	for _, l := range all {
		if !l.place.settled && (victim == nil || from[l.address] > from[victim.address] || from[l.address] == from[victim.address] && l.id < victim.id) {
			victim = l
		}
	}
	if victim == nil {
		return nil, fmt.Errorf("%w: %d links %v", ErrCrowded, len(all), at.kind)
	}
	victim.place.evicted = true
	victim.fail(fmt.Errorf("%w: %d links %v, and this is the oldest of its address that has sent no second packet", ErrCrowded, len(all), at.kind))
	return victim, nil
}

// notePackets records packets of an accepted link. The first packet gives the link its
// place. The error is ErrCrowded if there is none.
func (l *link) notePackets(ps []zab.Packet) error {
	if l.place.kind == silent {
		_ = l.sock.Load().SetReadDeadline(time.Time{}) // fails only if closed
		if err := l.takePlace(&ps[0]); err != nil {
			return err
		}
		ps = ps[1:]
	}
	if l.place.kind == dialled || l.place.settled || len(ps) == 0 {
		return nil
	}
	l.t.mu.Lock()
	l.place.settled = true
	l.t.mu.Unlock()
	return nil
}

// takePlace gives the link the place for its first packet.
func (l *link) takePlace(first *zab.Packet) error {
	t, at := l.t, place{kind: unknown}
	most, id := maxUnknown-1, int64(noID)
	if (first.Type == zab.FollowerInfo || first.Type == zab.ObserverInfo) && len(first.Data) >= 8 {
		id = int64(binary.BigEndian.Uint64(first.Data))
		if t.member(id) {
			at, most = place{kind: ofMember, member: id}, maxPerMember-1
		}
	}
	if err := t.checkClaim(l.accepted, id); err != nil {
		return err
	}
	t.noteLoginEnd(l.accepted, l.address, nil)
	l.mu.Lock()
	if l.mu.observer = first.Type == zab.ObserverInfo || at.kind != ofMember; l.mu.observer {
		l.backlog.Init(t.backlog.others, socket.FreeBytes) // nothing is queued yet
	}
	l.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.place.evicted {
		return errors.New("transport: the link was closed to make room for another")
	}
	if _, err := t.makeRoomLocked(at, most); err != nil {
		return err
	}
	l.place = at
	return nil
}
