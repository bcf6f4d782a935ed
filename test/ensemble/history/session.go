package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// An End is how a session ended, as far as its client knows.
type End uint8

// The ends.
const (
	Alive     End = iota
	Closed        // by the client, and acknowledged
	Abandoned     // by the client, which fell silent, or whose close had no answer
	Lost          // the server has said that it knows the session no more
)

// A Life is the time of one session.
type Life struct {
	Session int
	ID      zk.SessionID
	Timeout time.Duration // granted
	End     End
	// When the end came: not before From, and not after To; To counts if the
	// session was closed or lost. For a lost session From is when a server had
	// certainly heard of it for the last time.
	From, To time.Duration
	Zxid     zk.Zxid // of the end, if it was closed
}

// CheckLives finds sessions that the servers have given up although they were
// not silent for as long as their timeout. slack is what a pause of a leader and
// touches on their way may take from it.
func CheckLives(lives []Life, slack time.Duration) (findings []string) {
	for _, l := range lives {
		if silent := l.To - l.From; l.End == Lost && silent < l.Timeout-slack {
			findings = append(findings, fmt.Sprintf("session %v was lost after %v of silence at most; its timeout is %v",
				l.ID, silent, l.Timeout))
		}
	}
	return findings
}

// A Beacon is an ephemeral znode that only the end of its session deletes.
type Beacon struct {
	Path         string
	Session      int
	Call, Return time.Duration // of the create
	Outcome      Outcome
	Zxid         zk.Zxid
}

// A Look is a read of a beacon by any client.
type Look struct {
	Session      int
	Path         string
	Call, Return time.Duration
	Synced       bool
	Zxid         zk.Zxid
	Exists       bool
	Owner        zk.SessionID
}

// CheckBeacons finds looks that saw an ephemeral before or after its session, or
// did not see it during it. synced has looks that followed a sync judged by real
// time too, not by their zxids alone. slack is how long the ephemerals of a
// session may outlive what its client was told of its loss.
func CheckBeacons(lives []Life, beacons []Beacon, looks []Look, synced bool, slack time.Duration) (findings []string) {
	life := map[int]Life{}
	for _, l := range lives {
		life[l.Session] = l
	}
	of := map[string]Beacon{}
	for _, b := range beacons {
		of[b.Path] = b
	}
	for _, k := range looks {
		b := of[k.Path]
		if what := judgeLook(life[b.Session], b, k, synced, slack); what != "" {
			findings = append(findings, fmt.Sprintf("%s: %s:\n  %+v\n  %+v\n  %+v", k.Path, what, k, b, life[b.Session]))
		}
	}
	return findings
}

func judgeLook(l Life, b Beacon, k Look, synced bool, slack time.Duration) string {
	synced = synced && k.Synced
	if k.Exists {
		switch {
		case k.Owner != l.ID:
			return fmt.Sprintf("its owner is %v", k.Owner)
		case b.Outcome == Done && k.Zxid < b.Zxid:
			return "it is there before it was created"
		case l.End == Closed && k.Zxid >= l.Zxid:
			return "it is there after its session was closed"
		case synced && l.End == Closed && k.Call > l.To:
			return "after a sync it is there although its session was closed"
		case synced && l.End == Lost && k.Call > l.To+slack:
			return "after a sync it is there although its session was lost"
		}
		return ""
	}
	if b.Outcome == Unknown {
		return ""
	}
	created := k.Zxid >= b.Zxid || synced && k.Call > b.Return
	ended := l.End != Alive && k.Return >= l.From
	if l.End == Closed {
		ended = ended && k.Zxid >= l.Zxid
	}
	if created && !ended {
		return "it is not there although its session lives"
	}
	return ""
}

// A Sequential is a sequential create that was acknowledged.
type Sequential struct {
	Session      int
	Parent       string
	Number       int64 // the counter at the end of the name
	Zxid         zk.Zxid
	Call, Return time.Duration
}

// CheckSequentials finds numbers given twice below one parent, and numbers that
// do not grow with the zxid.
func CheckSequentials(list []Sequential) (findings []string) {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Sequential) int { return cmp.Compare(a.Zxid, b.Zxid) })
	last := map[string]Sequential{}
	for _, s := range sorted {
		if before, ok := last[s.Parent]; ok && s.Number <= before.Number {
			findings = append(findings, fmt.Sprintf("below %s, number %d was given at zxid %v after %d at %v",
				s.Parent, s.Number, s.Zxid, before.Number, before.Zxid))
		}
		last[s.Parent] = s
	}
	return findings
}
