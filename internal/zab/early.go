package zab

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// early is a link to a server that still looks for a leader. Who made it knows
// of the end of the election sooner: it has elected this server, most likely.
// Turned away, it would look again, and a leader without followers would wait for
// it in vain.
type early struct {
	link   LinkID
	since  time.Duration
	packet Packet // Type is 0 if none has come
}

// A server that looks keeps at most maxEarly links, with one packet each, which
// has at most maxInfoBytes: anybody may connect.
const (
	maxEarly     = 64
	maxInfoBytes = 256
)

// keepEarly keeps a link. If there are too many, the oldest that has said nothing
// has to go, then the oldest that does not say that it is a voter; if all are, this one.
func (c *Core) keepEarly(l LinkID) {
	if len(c.early) == maxEarly {
		i := slices.IndexFunc(c.early, func(e early) bool { return e.packet.Type == 0 })
		if i < 0 {
			i = slices.IndexFunc(c.early, func(e early) bool { return !c.fromVoter(&e.packet) })
		}
		if i < 0 {
			c.close(l, fmt.Errorf("%w: this server looks for a leader", ErrLost))
			return
		}
		c.close(c.early[i].link, fmt.Errorf("%w: too many links, and no voter said that it is on this one", ErrLost))
		c.dropEarly(i)
	}
	c.early = append(c.early, early{link: l, since: c.now})
}

// fromVoter reports whether a first packet says that a voter has sent it.
func (c *Core) fromVoter(p *Packet) bool {
	return p.Type == FollowerInfo && len(p.Data) >= 8 && c.system.Voter(int64(binary.BigEndian.Uint64(p.Data)))
}

// earlyLink returns the index of a link that is kept, -1 if it is not.
func (c *Core) earlyLink(l LinkID) int {
	for i := range c.early {
		if c.early[i].link == l {
			return i
		}
	}
	return -1
}

func (c *Core) dropEarly(i int) { c.early = slices.Delete(c.early, i, i+1) }

// stepEarly keeps the first packet until it is known who leads. Nobody has a
// reason to send a second.
func (c *Core) stepEarly(i int, ps []Packet) {
	e := &c.early[i]
	for j := range ps {
		if e.packet.Type != 0 || len(ps[j].Data) > maxInfoBytes {
			c.close(e.link, fmt.Errorf("%w: %v before this server leads", ErrLost, ps[j].Type))
			c.dropEarly(i)
			return
		}
		e.packet = Packet{Type: ps[j].Type, Zxid: ps[j].Zxid, Data: slices.Clone(ps[j].Data)}
	}
}

// admitEarly makes learners of the links that are kept.
func (c *Core) admitEarly() {
	kept := c.early
	c.early = nil
	for i := range kept {
		c.LinkUp(c.now, kept[i].link)
		if kept[i].packet.Type != 0 {
			c.Step(c.now, kept[i].link, []Packet{kept[i].packet})
		}
	}
}

// closeEarly turns away those that came before since.
func (c *Core) closeEarly(before time.Duration) {
	for len(c.early) > 0 && c.early[0].since <= before {
		c.close(c.early[0].link, fmt.Errorf("%w: this server does not lead", ErrLost))
		c.dropEarly(0)
	}
}
