// Package history holds what clients saw while servers were broken, and says
// whether ZooKeeper allows it. It knows no server and no clock: times are since
// an origin that all clients share.
//
// Two kinds of evidence are used. Real time: an operation takes effect between
// its call and its return. Zxids: a reply carries the last transaction that the
// answering server had applied, so a write's own zxid says where it stands in the
// order of all writes, and a read's says which of them it must show.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A Kind is an operation on a register, which is a znode that everybody writes.
type Kind uint8

// The kinds.
const (
	Create Kind = iota
	Set
	Delete
	Read
)

// String names the kind.
func (k Kind) String() string { return [...]string{"create", "set", "delete", "read"}[k] }

// An Outcome is what a client knows of its operation.
type Outcome uint8

// The outcomes.
const (
	Done    Outcome = iota // answered: Code says how
	Unknown                // no answer came
)

// AnyVersion is the version of an operation that does not ask for one.
const AnyVersion = -1

// An Op is an operation on one register.
type Op struct {
	Session int // the client's number, for reports
	Kind    Kind
	Key     string
	Data    string // written, or read; what is written is unique
	Want    int32  // the version that a set or delete asks for
	Version int32  // after a set that was done, or read
	Synced  bool   // a read that followed a sync

	Call, Return time.Duration
	Outcome      Outcome
	Code         zk.Code
	Zxid         zk.Zxid // of the reply
	Mzxid        zk.Zxid // read
}

// String prints the operation on one line.
func (o Op) String() string {
	what := fmt.Sprintf("%v %s", o.Kind, o.Key)
	switch o.Kind {
	case Create:
		what += fmt.Sprintf(" %q", o.Data)
	case Set:
		what += fmt.Sprintf(" %q if version %d", o.Data, o.Want)
	case Delete:
		what += fmt.Sprintf(" if version %d", o.Want)
	}
	result := "no answer"
	if o.Outcome == Done {
		result = fmt.Sprintf("%v at %v", o.Code, o.Zxid)
		if o.Code == zk.OK && o.Kind == Set {
			result += fmt.Sprintf(", version %d", o.Version)
		}
		if o.Code == zk.OK && o.Kind == Read {
			result += fmt.Sprintf(", %q version %d mzxid %v", o.Data, o.Version, o.Mzxid)
		}
	}
	if o.Synced {
		what = "sync, " + what
	}
	return fmt.Sprintf("[%v %v] client %d: %s: %s", o.Call, o.Return, o.Session, what, result)
}

// changed reports whether the operation is known to have changed its register.
func (o Op) changed() bool { return o.Kind != Read && o.Outcome == Done && o.Code == zk.OK }

// byKey sorts operations into registers, each by the time of the call.
func byKey(ops []Op) (keys []string, of map[string][]Op) {
	of = map[string][]Op{}
	for _, o := range ops {
		if of[o.Key] == nil {
			keys = append(keys, o.Key)
		}
		of[o.Key] = append(of[o.Key], o)
	}
	for _, k := range keys {
		slices.SortStableFunc(of[k], func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	}
	return keys, of
}

// show prints operations for a report.
func show(ops []Op) string {
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "  %v\n", o)
	}
	return b.String()
}

// A Write is any write that was acknowledged, of whatever znode.
type Write struct {
	Session      int
	Zxid         zk.Zxid
	Call, Return time.Duration
}

// CheckOrder finds acknowledged writes whose zxids are not in the order of real
// time: one that had returned before another was called must have the smaller
// zxid, and no two have the same.
func CheckOrder(writes []Write) (findings []string) {
	calls := slices.Clone(writes)
	slices.SortFunc(calls, func(a, b Write) int { return cmp.Compare(a.Call, b.Call) })
	returns := slices.Clone(writes)
	slices.SortFunc(returns, func(a, b Write) int { return cmp.Compare(a.Return, b.Return) })
	zxids := map[zk.Zxid]Write{}
	var latest Write // of those that had returned, the one with the largest zxid
	for _, w := range calls {
		for len(returns) > 0 && returns[0].Return < w.Call {
			if returns[0].Zxid > latest.Zxid {
				latest = returns[0]
			}
			returns = returns[1:]
		}
		if w.Zxid <= latest.Zxid {
			findings = append(findings, fmt.Sprintf("a write called at %v has zxid %v, one that had returned at %v has %v",
				w.Call, w.Zxid, latest.Return, latest.Zxid))
		}
		if other, ok := zxids[w.Zxid]; ok {
			findings = append(findings, fmt.Sprintf("two writes, of clients %d and %d, have zxid %v", w.Session, other.Session, w.Zxid))
		}
		zxids[w.Zxid] = w
	}
	return findings
}

// CheckReads finds reads that do not show the state at their zxid: it must be
// what the last acknowledged write up to there has written, or what one whose
// answer never came has written since.
func CheckReads(ops []Op) (findings []string) {
	keys, of := byKey(ops)
	for _, k := range keys {
		r := newRegister(of[k])
		for _, o := range of[k] {
			if o.Kind != Read || o.Outcome != Done {
				continue
			}
			if what := r.judge(o); what != "" {
				findings = append(findings, fmt.Sprintf("%s:\n  %v", what, o))
			}
		}
	}
	return findings
}

// A register is what is known of one key.
type register struct {
	writes  []Op            // known to be done, by zxid
	unknown map[string]bool // data of creates and sets without an answer
	deletes bool            // some delete is without an answer
}

func newRegister(ops []Op) *register {
	r := &register{unknown: map[string]bool{}}
	for _, o := range ops {
		switch {
		case o.changed():
			r.writes = append(r.writes, o)
		case o.Outcome == Unknown && o.Kind == Delete:
			r.deletes = true
		case o.Outcome == Unknown:
			r.unknown[o.Data] = true
		}
	}
	slices.SortFunc(r.writes, func(a, b Op) int { return cmp.Compare(a.Zxid, b.Zxid) })
	return r
}

// judge says what is wrong with a read, "" if nothing is.
func (r *register) judge(o Op) string {
	i, found := slices.BinarySearchFunc(r.writes, o.Zxid, func(w Op, z zk.Zxid) int { return cmp.Compare(w.Zxid, z) })
	if found {
		i++
	}
	var last Op // the last write that the read must show, or what came after
	if i > 0 {
		last = r.writes[i-1]
	}
	switch {
	case o.Code == zk.ErrNoNode:
		if i > 0 && last.Kind != Delete && !r.deletes {
			return fmt.Sprintf("a read at zxid %v does not show the znode, which was written at %v and not deleted", o.Zxid, last.Zxid)
		}
	case o.Code != zk.OK:
		return "a read failed"
	case o.Mzxid > o.Zxid:
		return fmt.Sprintf("a read at zxid %v shows a write at %v", o.Zxid, o.Mzxid)
	case o.Mzxid < last.Zxid:
		return fmt.Sprintf("a read at zxid %v shows a write at %v; the one at %v was acknowledged", o.Zxid, o.Mzxid, last.Zxid)
	case o.Mzxid == last.Zxid && o.Data != last.Data:
		return fmt.Sprintf("a read shows %q, written was %q", o.Data, last.Data)
	case o.Mzxid > last.Zxid && !r.unknown[o.Data]:
		return "a read shows data that nobody has written there"
	}
	return ""
}
