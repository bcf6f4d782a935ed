package zab

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// waitingLink is an accepted link of a server that still looks for a leader. The server
// that connected probably knows the election's result earlier, and has elected this
// server. If it were refused, it would look again, and this server would then lead without
// that follower.
type waitingLink struct {
	link   LinkID
	since  time.Duration
	packet Packet // Type is 0 if none has come
}

// A server that looks keeps at most maxWaiting links, with one packet of at most
// maxInfoBytes each, because any process may connect.
const (
	maxWaiting   = 64
	maxInfoBytes = 256
)

// keepWaiting keeps a link. If there are too many, it closes the oldest one without a
// packet, or else the oldest one that is not of a voter by its first packet. If all are of
// voters, it closes l.
func (c *Core) keepWaiting(l LinkID) {
	if len(c.waiting) == maxWaiting {
		i := slices.IndexFunc(c.waiting, func(e waitingLink) bool { return e.packet.Type == 0 })
		if i < 0 {
			i = slices.IndexFunc(c.waiting, func(e waitingLink) bool { return !c.fromVoter(&e.packet) })
		}
		if i < 0 {
			c.close(l, fmt.Errorf("%w: this server looks for a leader", ErrLost))
			return
		}
		c.close(c.waiting[i].link, fmt.Errorf("%w: too many links, and no voter said that it is on this one", ErrLost))
		c.dropWaiting(i)
	}
	c.waiting = append(c.waiting, waitingLink{link: l, since: c.now})
}

// fromVoter reports whether a first packet names a voter as its sender.
func (c *Core) fromVoter(p *Packet) bool {
	return p.Type == FollowerInfo && len(p.Data) >= 8 && c.system.Voter(int64(binary.BigEndian.Uint64(p.Data)))
}

// waitingIndex returns the index of a link that is kept, -1 if it is not.
func (c *Core) waitingIndex(l LinkID) int {
	for i := range c.waiting {
		if c.waiting[i].link == l {
			return i
		}
	}
	return -1
}

func (c *Core) dropWaiting(i int) { c.waiting = slices.Delete(c.waiting, i, i+1) }

// stepWaiting keeps the first packet until the election is over. A learner sends no second
// packet before it has an answer to the first.
func (c *Core) stepWaiting(i int, ps []Packet) {
	e := &c.waiting[i]
	for j := range ps {
		if e.packet.Type != 0 || len(ps[j].Data) > maxInfoBytes {
			c.close(e.link, fmt.Errorf("%w: %v before this server leads", ErrLost, ps[j].Type))
			c.dropWaiting(i)
			return
		}
		e.packet = Packet{Type: ps[j].Type, Zxid: ps[j].Zxid, Data: slices.Clone(ps[j].Data)}
	}
}

// admitWaiting makes learners of the links that are kept.
func (c *Core) admitWaiting() {
	kept := c.waiting
	c.waiting = nil
	for i := range kept {
		c.LinkUp(c.now, kept[i].link)
		if kept[i].packet.Type != 0 {
			c.Step(c.now, kept[i].link, []Packet{kept[i].packet})
		}
	}
}

// closeWaiting closes the links that were accepted at the given time or earlier.
func (c *Core) closeWaiting(before time.Duration) {
	for len(c.waiting) > 0 && c.waiting[0].since <= before {
		c.close(c.waiting[0].link, fmt.Errorf("%w: this server does not lead", ErrLost))
		c.dropWaiting(0)
	}
}
