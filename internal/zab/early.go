package zab

import (
	"fmt"
	"time"
)

// early is a link to a server that still looks for a leader. Who made it knows
// of the end of the election sooner: it has elected this server, most likely.
// Turned away, it would look again, and a leader without followers would wait for
// it in vain.
type early struct {
	link    LinkID
	since   time.Duration
	packets []Packet
}

// A server that looks keeps at most maxEarly links, with maxEarlyPackets each.
const (
	maxEarly        = 64
	maxEarlyPackets = 2
)

func (c *Core) keepEarly(l LinkID) {
	if len(c.early) == maxEarly {
		c.close(l, fmt.Errorf("%w: this server looks for a leader", ErrLost))
		return
	}
	c.early = append(c.early, early{link: l, since: c.now})
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

func (c *Core) dropEarly(i int) { c.early = append(c.early[:i:i], c.early[i+1:]...) }

// stepEarly keeps packets until it is known who leads.
func (c *Core) stepEarly(i int, ps []Packet) {
	e := &c.early[i]
	if len(e.packets)+len(ps) > maxEarlyPackets {
		c.close(e.link, fmt.Errorf("%w: packets before this server leads", ErrLost))
		c.dropEarly(i)
		return
	}
	e.packets = append(e.packets, ps...)
}

// admitEarly makes learners of the links that are kept.
func (c *Core) admitEarly() {
	kept := c.early
	c.early = nil
	for i := range kept {
		c.LinkUp(c.now, kept[i].link)
		c.Step(c.now, kept[i].link, kept[i].packets)
	}
}

// closeEarly turns away those that came before since.
func (c *Core) closeEarly(before time.Duration) {
	for len(c.early) > 0 && c.early[0].since <= before {
		c.close(c.early[0].link, fmt.Errorf("%w: this server does not lead", ErrLost))
		c.dropEarly(0)
	}
}
