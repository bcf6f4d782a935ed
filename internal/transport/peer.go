package transport

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// Pauses between attempts to connect to a peer.
const (
	peerPause    = 20 * time.Millisecond // after the first failure; it doubles
	maxPeerPause = time.Second
	askPause     = time.Second // for the peer to connect after it was asked to
	youngLink    = time.Second // a younger link is not replaced when the peer asks
)

// maxAttempts is how many attempts are made to reach a peer that is not configured.
const maxAttempts = 3

// peer is another server on the election port. Its goroutine owns its link and
// everything that happens to it; other goroutines leave requests in mu and wake it.
//
// Of two servers, the one with the larger id connects. The other asks it to, by a
// connection that it closes after the first message. So the direction of the link
// between two servers never changes, and links can be ordered: accepted ones by their
// acceptance, dialled ones because one goroutine dials them.
type peer struct {
	t    *Transport
	id   int64
	wake chan struct{} // holds one

	mu struct {
		sync.Mutex
		slot    []byte        // the next frame to send; nil: none
		posted  bool          // a frame was posted since the peer's goroutine has last looked
		offered *electionLink // an accepted connection that run has not picked up yet
		asked   bool          // the peer has asked this server to connect
		targets []target      // announced addresses of a peer that is not a member
		moved   *peerEntry    // the membership has changed; nil: no, or run has picked it up
		over    bool          // the goroutine has ended
		address string        // of the host at the other end of the latest connection; "" before the first
	}

	// Owned by run.
	stranger bool // not a member: removed when its link ends
	link     *electionLink
	targets  []target
	last     []byte          // the last frame that was sent, on any link
	dialing  chan dialResult // nil while no attempt is in progress
	giveUp   func()          // makes the attempt in progress end, if it has not reached the peer
	wanted   bool            // a link is needed, even if there is nothing to send
	renewing bool            // the link is to be replaced
	lastTry  time.Time       // start of the last attempt
	notYet   time.Time       // no attempt before this time
	pause    time.Duration   // the pause after the next failure
	attempts int             // failed attempts since there was a link
}

// peerEntry is what the membership says of a peer.
type peerEntry struct {
	known   bool // the peer is a member
	targets []target
}

// dialResult is the result of an attempt: an error, a link, or neither if the peer was
// asked to connect.
type dialResult struct {
	link *electionLink
	err  error
}

// sawAt notes the address from which the peer has connected, or at which it was reached.
func (p *peer) sawAt(nc net.Conn) {
	host := addressOf(nc)
	p.mu.Lock()
	p.mu.address = host
	p.mu.Unlock()
}

// isAt reports whether the peer was seen last at an address.
func (p *peer) isAt(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.address == address
}

// lastAddress returns the address at which a server was seen last on the election port; ""
// if it was not. A server whose name does not resolve here, or not any more, may be there. It
// proves its identity there as at any other address, if it has to (TLS and SASL).
func (t *Transport) lastAddress(id int64) string {
	t.mu.RLock()
	p := t.mu.peers[id]
	t.mu.RUnlock()
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.address
}

// post puts a notification into the slot.
func (p *peer) post(payload []byte) {
	frame := make([]byte, 0, 4+len(payload))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	frame = append(frame, payload...)
	p.mu.Lock()
	if !p.mu.over {
		p.mu.slot, p.mu.posted = frame, true
	}
	p.mu.Unlock()
	p.notice()
}

// offer hands an accepted connection to the peer's goroutine. It replaces an older one
// that was not picked up.
func (p *peer) offer(link *electionLink) {
	p.mu.Lock()
	old := p.mu.offered
	switch {
	case p.mu.over, old != nil && old.order > link.order:
		old = link
	default:
		p.mu.offered = link
	}
	p.mu.Unlock()
	if old != nil {
		old.nc.Close() // an error changes nothing: it was not used
	}
	p.notice()
}

// ask makes the goroutine connect to the peer, and replace an existing link: the peer
// would not ask if it had one.
func (p *peer) ask(targets []target) {
	p.mu.Lock()
	p.mu.asked, p.mu.targets = true, targets
	p.mu.Unlock()
	p.notice()
}

// move tells the peer what the membership says of it from now on.
func (p *peer) move(known bool, targets []target) {
	p.mu.Lock()
	p.mu.moved = &peerEntry{known, targets}
	p.mu.Unlock()
	p.notice()
}

func (p *peer) notice() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// run is the peer's goroutine.
func (p *peer) run() {
	defer p.leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p.pickUp()
		p.send()
		wait := p.tryConnect()
		if p.stranger && p.forgettable() && p.t.forgetStranger(p) {
			return
		}
		timer.Stop()
		if wait > 0 {
			timer.Reset(wait)
		}
		var lost <-chan struct{}
		if p.link != nil {
			lost = p.link.done
		}
		select {
		case <-p.wake:
		case <-timer.C:
		case <-lost:
			p.linkLost()
		case r := <-p.dialing:
			p.dialing = nil
			p.dialEnded(r)
		case <-p.t.ctx.Done():
			return
		}
	}
}

// pickUp picks up the requests of other goroutines.
func (p *peer) pickUp() {
	p.mu.Lock()
	offered, asked, posted := p.mu.offered, p.mu.asked, p.mu.posted
	p.mu.offered, p.mu.asked, p.mu.posted = nil, false, false
	moved := p.mu.moved
	p.mu.moved = nil
	expelled := false
	switch {
	case moved == nil:
	case moved.known:
		p.stranger, p.targets = false, moved.targets
	case !p.stranger:
		expelled = true
	}
	if p.stranger && asked {
		p.targets = p.mu.targets
	}
	p.mu.Unlock()
	if expelled {
		p.expel()
	}
	if asked {
		p.wanted = true
		if p.dialing != nil && time.Since(p.lastTry) >= askPause {
			p.giveUp() // the peer is there, but not where it was dialled: its name may lead elsewhere by now
		}
		p.renewing = p.link != nil && time.Since(p.link.since) >= youngLink
	}
	if (posted || asked) && p.link == nil && p.attempts > 0 {
		// There is a new frame, or the peer is back: start again with a short
		// pause.
		p.pause = peerPause
		if soon := p.lastTry.Add(peerPause); soon.Before(p.notYet) {
			p.notYet = soon
		}
	}
	if offered != nil {
		if p.link != nil && offered.order < p.link.order {
			offered.nc.Close() // an error changes nothing: it was not used
			return
		}
		p.linkUp(offered)
	}
}

// expel handles that a peer is not a member any more: its link is closed.
func (p *peer) expel() {
	p.stranger, p.targets, p.wanted, p.renewing = true, nil, false, false
	p.mu.Lock()
	p.mu.slot = nil
	p.mu.Unlock()
	if p.link != nil {
		p.t.log.Info("election link is closed: the server is not a member of the ensemble any more", "peer", p.id)
		p.dropLink()
		p.t.h.PeerDown(p.id)
	}
}

// linkUp makes link the peer's link, in place of the present one.
func (p *peer) linkUp(link *electionLink) {
	p.dropLink()
	link.since = time.Now()
	p.link = link
	p.wanted, p.renewing, p.attempts, p.pause = false, false, 0, peerPause
	p.sawAt(link.nc)
	limitUnsent(link.nc, p.t.o.ElectionTimeout)
	p.t.log.Info("connected to a server for elections", "peer", p.id, "remote", link.remote)
	p.t.h.PeerUp(p.id)
	stranger := p.stranger
	p.t.wg.Go(func() { link.read(p, stranger) })
	p.mu.Lock()
	if p.mu.slot == nil {
		p.mu.slot = p.last // it may have been lost with the previous link
	}
	p.mu.Unlock()
}

// dropLink closes the link, if there is one, and waits until its reader has ended.
func (p *peer) dropLink() {
	if p.link == nil {
		return
	}
	p.link.nc.Close() // an error changes nothing: its reader ends
	p.link.frame.Close()
	<-p.link.done
	p.link = nil
}

// linkLost handles a link whose reader has ended. The link to a member is made again, even
// if there is nothing to send: the member may have lost it to a connection that only claims
// to be this server, and would not hear of this server as long as that one is silent.
func (p *peer) linkLost() {
	p.t.log.Info("the connection to a server for elections is lost; it is made again", "peer", p.id, "remote", p.link.remote, "err", p.link.err)
	p.wanted = p.wanted || !p.stranger
	p.notYet = p.lastTry.Add(peerPause) // in case links never last
	if lasted := time.Since(p.link.since); p.wanted && lasted < youngLink {
		p.notYet = time.Now().Add(youngLink - lasted) // unless there is a new frame, or the peer is back
		p.attempts++
	}
	p.dropLink()
	p.renewing = false
	p.t.h.PeerDown(p.id)
}

// send sends the frame in the slot.
func (p *peer) send() {
	if p.link == nil {
		return
	}
	p.mu.Lock()
	frame := p.mu.slot
	p.mu.slot = nil
	p.mu.Unlock()
	if frame == nil {
		return
	}
	p.last = frame
	_ = p.link.nc.SetWriteDeadline(time.Now().Add(p.t.o.ConnectTimeout)) // fails only if closed; then the write fails too
	if _, err := p.link.nc.Write(frame); err != nil {
		p.link.nc.Close() // an error changes nothing: its reader ends
		p.wanted = true   // the new link sends last again
	}
}

// tryConnect starts an attempt to connect if one is needed now. If it is too early, it
// returns how long to wait, otherwise 0.
func (p *peer) tryConnect() time.Duration {
	if p.dialing != nil || p.link != nil && !p.renewing {
		return 0
	}
	p.mu.Lock()
	waiting := p.mu.slot != nil
	p.mu.Unlock()
	if !waiting && !p.wanted || len(p.targets) == 0 {
		return 0
	}
	now := time.Now()
	if wait := p.notYet.Sub(now); wait > 0 {
		return wait
	}
	p.lastTry = now
	ch := make(chan dialResult, 1)
	p.dialing = ch
	targets := p.targets
	ctx, cancel := context.WithCancel(p.t.ctx)
	p.giveUp = cancel
	p.t.wg.Go(func() {
		defer cancel()
		ch <- p.t.dialPeer(ctx, p.id, targets)
	})
	return 0
}

// dialPeer connects and sends this server's first message. If the peer's id is larger,
// the peer then connects to this server, and the connection is closed. The end of ctx ends the
// attempt to connect.
func (t *Transport) dialPeer(ctx context.Context, id int64, targets []target) dialResult {
	nc, err := t.open(ctx, targets, t.lastAddress(id))
	if err == nil {
		nc, err = t.secureDialled(t.ctx, nc, id, targets)
	}
	if err != nil {
		return dialResult{err: err}
	}
	link := t.newElectionLink(nc, 0)
	deadline := time.Now().Add(t.o.ConnectTimeout)
	_ = nc.SetWriteDeadline(deadline) // fails only if closed; then the write fails too
	t.mu.RLock()
	hello := t.mu.hello
	t.mu.RUnlock()
	if _, err = nc.Write(hello); err == nil {
		err = t.provePeer(id, link, targets)
	}
	if err != nil || id > t.o.ID {
		if secure, ok := nc.(secureConn); ok && err == nil {
			defer context.AfterFunc(t.ctx, func() { nc.Close() })() // an error changes nothing: finish ends
			err = secure.finish(deadline)
		}
		nc.Close() // an error changes nothing: the message was sent
		return dialResult{err: err}
	}
	return dialResult{link: link}
}

// dialEnded handles the result of an attempt.
func (p *peer) dialEnded(r dialResult) {
	switch {
	case r.link != nil:
		p.linkUp(r.link)
	case r.err == nil:
		p.renewing = false
		p.notYet = time.Now().Add(askPause)
		p.attempts = 0
	default:
		p.t.log.Debug("cannot connect to a server for elections; trying again", "peer", p.id, "err", r.err)
		p.renewing = false
		p.attempts++
		p.notYet = time.Now().Add(p.pause)
		p.pause = min(2*p.pause, maxPeerPause)
		if p.link == nil {
			p.t.h.PeerDown(p.id)
		}
	}
}

// forgettable reports whether a peer that is not configured has neither a link nor
// attempts left.
func (p *peer) forgettable() bool {
	return p.link == nil && p.dialing == nil &&
		(!p.wanted || len(p.targets) == 0 || p.attempts >= maxAttempts)
}

// forgetStranger removes a peer from the table, unless it has a new request.
func (t *Transport) forgetStranger(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.offered != nil || p.mu.asked || p.mu.moved != nil {
		return false
	}
	p.mu.over = true
	delete(t.mu.peers, p.id)
	t.mu.strangers--
	return true
}

// leave cleans up; the peer's goroutine calls it last.
func (p *peer) leave() {
	p.dropLink()
	if p.dialing != nil {
		if r := <-p.dialing; r.link != nil {
			r.link.nc.Close() // an error changes nothing: it was not used
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.over = true
	if p.mu.offered != nil {
		p.mu.offered.nc.Close() // an error changes nothing: it was not used
	}
}
