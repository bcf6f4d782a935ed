package zab

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// pair prints a zxid as the paper does: epoch, counter.
func pair(z zk.Zxid) string {
	if z < 0 {
		return fmt.Sprint(int64(z))
	}
	return fmt.Sprintf("<%d,%d>", z.Epoch(), z.Counter())
}

// describe prints a packet as traces show it.
func describe(p *Packet) string {
	var b strings.Builder
	fmt.Fprint(&b, p.Type)
	switch p.Type {
	case FollowerInfo, ObserverInfo, LeaderInfo, NewLeader:
		fmt.Fprintf(&b, " epoch %d", p.Zxid.Epoch())
	case UpToDate, Sync, Request, Revalidate:
	case AckEpoch:
		current := int32(-2)
		if len(p.Data) >= 4 {
			current = int32(binary.BigEndian.Uint32(p.Data))
		}
		fmt.Fprintf(&b, " current %d last %s", current, pair(p.Zxid))
	default:
		fmt.Fprintf(&b, " %s", pair(p.Zxid))
	}
	return b.String()
}

func describeWrite(w *Write) string {
	switch w.Kind {
	case WriteEntries:
		first, last := w.Entries[0].Zxid, w.Entries[len(w.Entries)-1].Zxid
		if first == last {
			return "the log: " + pair(first)
		}
		return fmt.Sprintf("the log: %s to %s", pair(first), pair(last))
	case WriteAcceptedEpoch:
		return fmt.Sprintf("the accepted epoch: %d", w.Epoch)
	case WriteCurrentEpoch:
		return fmt.Sprintf("the current epoch: %d", w.Epoch)
	case WriteTruncate:
		return "the log, cut to " + pair(w.Zxid)
	case WriteInstall:
		return "the leader's tree at " + pair(w.Zxid)
	case WriteMembers:
		return fmt.Sprintf("the memberships: %s committed, %s seen, unsure %v", pair(w.Members.Committed.version), pair(w.Members.Seen.version), w.Members.Unsure)
	}
	return fmt.Sprintf("kind %d", w.Kind)
}

func describeEvent(e *Event) string {
	switch e.Kind {
	case EventLooking:
		return "looks for a leader (" + e.Reason + ")"
	case EventElected:
		return fmt.Sprintf("has elected %d", e.Peer)
	case EventLeft:
		return "leaves: " + e.Reason
	case EventEpoch:
		return fmt.Sprintf("the new epoch is %d", e.Epoch)
	case EventServing:
		return fmt.Sprintf("serves, led by %d in epoch %d", e.Peer, e.Epoch)
	case EventSyncing:
		return fmt.Sprintf("synchronizes %d from %s: %s", e.Peer, pair(e.Zxid), e.Reason)
	case EventJoined:
		return fmt.Sprintf("%d is up to date", e.Peer)
	case EventGone:
		return fmt.Sprintf("%d has gone: %s", e.Peer, e.Reason)
	case EventRefused:
		return "refuses a peer: " + e.Reason
	case EventResync:
		return "will need a snapshot: " + e.Reason
	case EventDeclined:
		return "declines to lead: " + e.Reason
	case EventDesignation:
		return "a configuration is activated, and ignored"
	}
	return fmt.Sprintf("event %d", e.Kind)
}
