package transport

import (
	"encoding/binary"
	"sync"
	"time"
)

// Pauses between attempts to connect to a peer.
const (
	peerPause    = 20 * time.Millisecond // after the first failure; it doubles
	maxPeerPause = time.Second
	askPause     = time.Second // for the peer to connect, which was asked to
	youngLink    = time.Second // so old a link is not replaced because the peer asks
)

// maxAttempts is how often a stranger is tried.
const maxAttempts = 3

// peer is another server on the election port. Its goroutine owns its link and
// all that happens to it; others leave word in mu and wake it.
//
// Of the two servers of a pair the one with the larger id connects. The other
// asks it to, by a connection that it closes behind the first message. Thus a
// link has one direction for as long as the two exist, and what comes over it can
// be put in order: accepted links by their acceptance, dialled ones as one
// goroutine makes them.
type peer struct {
	t        *Transport
	id       int64
	stranger bool          // not in the configuration: it goes when its link goes
	wake     chan struct{} // holds one

	mu struct {
		sync.Mutex
		slot    []byte        // the frame to be sent next, nil for none
		posted  bool          // since the peer's goroutine has looked
		offered *electionLink // accepted, not taken yet
		asked   bool          // it has asked to be connected to
		targets []target      // where a stranger says it is
		over    bool          // the goroutine takes nothing any more
	}

	// Owned by run.
	link     *electionLink
	targets  []target
	last     []byte          // the last frame that was sent, ever
	dialing  chan dialResult // nil while nobody dials
	wanted   bool            // there shall be a link, whether there is something to send or not
	renewing bool            // there shall be another link
	lastTry  time.Time       // when the last attempt began
	notYet   time.Time       // before this there is no attempt
	pause    time.Duration   // after the next failure
	attempts int             // that failed, since there was a link
}

// dialResult is what came of an attempt: an error, a link, or neither if the peer
// has been asked to connect.
type dialResult struct {
	link *electionLink
	err  error
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

// offer hands over an accepted connection. A newer one replaces one that is not
// taken yet.
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
		old.nc.Close() // an error changes nothing: nobody uses it
	}
	p.notice()
}

// ask has the peer connected to, in place of the link that it may have: it would
// not ask if it had one.
func (p *peer) ask(targets []target) {
	p.mu.Lock()
	p.mu.asked, p.mu.targets = true, targets
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
		p.takeWord()
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

// takeWord takes what others have left.
func (p *peer) takeWord() {
	p.mu.Lock()
	offered, asked, posted := p.mu.offered, p.mu.asked, p.mu.posted
	p.mu.offered, p.mu.asked, p.mu.posted = nil, false, false
	if p.stranger && asked {
		p.targets = p.mu.targets
	}
	p.mu.Unlock()
	if asked {
		p.wanted = true
		p.renewing = p.link != nil && time.Since(p.link.since) >= youngLink
	}
	if (posted || asked) && p.link == nil && p.attempts > 0 {
		// Something new to say, or it is back: the pause need not be so long.
		p.pause = peerPause
		if soon := p.lastTry.Add(peerPause); soon.Before(p.notYet) {
			p.notYet = soon
		}
	}
	if offered != nil {
		if p.link != nil && offered.order < p.link.order {
			offered.nc.Close() // an error changes nothing: nobody uses it
			return
		}
		p.linkUp(offered)
	}
}

// linkUp makes link the peer's, in place of the one that it has.
func (p *peer) linkUp(link *electionLink) {
	p.dropLink()
	link.since = time.Now()
	p.link = link
	p.wanted, p.renewing, p.attempts, p.pause = false, false, 0, peerPause
	limitUnsent(link.nc, p.t.o.ElectionTimeout)
	p.t.log.Info("election link is up", "peer", p.id, "remote", link.remote)
	p.t.h.PeerUp(p.id)
	p.t.wg.Go(func() { link.read(p) })
	p.mu.Lock()
	if p.mu.slot == nil {
		p.mu.slot = p.last // it may have been lost with the link before
	}
	p.mu.Unlock()
}

// dropLink closes the link, if there is one, and waits until nothing comes from
// it any more.
func (p *peer) dropLink() {
	if p.link == nil {
		return
	}
	p.link.nc.Close() // an error changes nothing: its reader ends
	<-p.link.done
	p.link = nil
}

// linkLost cleans up after a link whose reader has ended.
func (p *peer) linkLost() {
	p.t.log.Info("election link is lost", "peer", p.id, "remote", p.link.remote, "err", p.link.err)
	p.dropLink()
	p.renewing = false
	p.notYet = p.lastTry.Add(peerPause) // a link that never lasts
	p.t.h.PeerDown(p.id)
}

// send sends what is in the slot.
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
	_ = p.link.nc.SetWriteDeadline(time.Now().Add(p.t.o.ConnectTimeout)) // fails only if closed, as the write will
	if _, err := p.link.nc.Write(frame); err != nil {
		p.link.nc.Close() // an error changes nothing: its reader ends
		p.wanted = true   // last is sent again
	}
}

// tryConnect starts an attempt to connect if there shall be one now. It returns
// how long to wait if it is too early, else 0.
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
	p.t.wg.Go(func() { ch <- p.t.dialPeer(p.id, targets) })
	return 0
}

// dialPeer connects and says who we are. If the peer's id is the larger one, that
// was all: it connects to us now.
func (t *Transport) dialPeer(id int64, targets []target) dialResult {
	nc, err := t.open(t.ctx, targets)
	if err != nil {
		return dialResult{err: err}
	}
	_ = nc.SetWriteDeadline(time.Now().Add(t.o.ConnectTimeout)) // fails only if closed, as the write will
	_, err = nc.Write(t.hello)
	if err != nil || id > t.o.ID {
		nc.Close() // an error changes nothing: it has been told all
		return dialResult{err: err}
	}
	return dialResult{link: newElectionLink(nc, 0)}
}

// dialEnded takes the result of an attempt.
func (p *peer) dialEnded(r dialResult) {
	switch {
	case r.link != nil:
		p.linkUp(r.link)
	case r.err == nil:
		p.renewing = false
		p.notYet = time.Now().Add(askPause)
		p.attempts = 0
	default:
		p.t.log.Debug("peer is not reached", "peer", p.id, "err", r.err)
		p.renewing = false
		p.attempts++
		p.notYet = time.Now().Add(p.pause)
		p.pause = min(2*p.pause, maxPeerPause)
		if p.link == nil {
			p.t.h.PeerDown(p.id)
		}
	}
}

// forgettable reports whether a stranger has nothing left to hope for.
func (p *peer) forgettable() bool {
	return p.link == nil && p.dialing == nil &&
		(!p.wanted || len(p.targets) == 0 || p.attempts >= maxAttempts)
}

// forgetStranger takes a peer off the table, unless somebody has just come.
func (t *Transport) forgetStranger(p *peer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.offered != nil || p.mu.asked {
		return false
	}
	p.mu.over = true
	delete(t.mu.peers, p.id)
	t.mu.strangers--
	return true
}

// leave is the last that the peer's goroutine does.
func (p *peer) leave() {
	p.dropLink()
	if p.dialing != nil {
		if r := <-p.dialing; r.link != nil {
			r.link.nc.Close() // an error changes nothing: nobody uses it
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.over = true
	if p.mu.offered != nil {
		p.mu.offered.nc.Close() // an error changes nothing: nobody uses it
	}
}
