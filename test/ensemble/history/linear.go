package history

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/pinfold-zk/pinfold/zk"
)

// CheckLinearizable finds registers whose operations are not linearizable, as
// porcupine finds it. Reads count if they followed a sync and reads is true;
// writes count always, with the versions and errors that they were answered
// with. patience is how long porcupine may take for one register.
func CheckLinearizable(ops []Op, reads bool, patience time.Duration) (findings []string) {
	keys, of := byKey(ops)
	for _, k := range keys {
		var counted []Op
		for _, o := range of[k] {
			if counts(o, reads) {
				counted = append(counted, o)
			}
		}
		switch porcupine.CheckOperationsTimeout(model(), operations(counted), patience) {
		case porcupine.Illegal:
			findings = append(findings, fmt.Sprintf("%s is not linearizable:\n%s", k, show(counted)))
		case porcupine.Unknown:
			findings = append(findings, fmt.Sprintf("%s: porcupine has not decided on %d operations within %v", k, len(counted), patience))
		case porcupine.Ok:
		}
	}
	return findings
}

// counts reports whether the operation says something to porcupine.
func counts(o Op, reads bool) bool {
	if o.Kind == Read {
		return reads && o.Synced && o.Outcome == Done
	}
	if o.Outcome == Unknown {
		return true
	}
	switch o.Code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion:
		return true
	}
	return false // refused before it was looked at
}

// operations are the register's for porcupine. One without an answer may take
// effect at any time after its call: it returns at the end of time, and one that
// never took effect stands behind all others.
func operations(ops []Op) []porcupine.Operation {
	var list []porcupine.Operation
	for _, o := range ops {
		end := int64(o.Return)
		if o.Outcome == Unknown {
			end = math.MaxInt64
		}
		list = append(list, porcupine.Operation{ClientId: o.Session, Input: o, Call: int64(o.Call), Return: end})
	}
	return list
}

// value is the state of a register.
type value struct {
	exists  bool
	version int32
	data    string
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return value{} },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(value), input.(Op))
		},
		DescribeOperation: func(input, _ any) string { return input.(Op).String() },
	}
}

// step says whether a register in state v may answer as it did, and what its
// state is then.
func step(v value, o Op) (bool, value) {
	if o.Outcome == Unknown {
		return true, v.after(o)
	}
	fits := o.Want == AnyVersion || o.Want == v.version
	switch o.Kind {
	case Create:
		return v.exists == (o.Code == zk.ErrNodeExists), v.after(o)
	case Read:
		if o.Code == zk.ErrNoNode {
			return !v.exists, v
		}
		return v.exists && v.data == o.Data && v.version == o.Version, v
	default:
		switch o.Code {
		case zk.ErrNoNode:
			return !v.exists, v
		case zk.ErrBadVersion:
			return v.exists && !fits, v
		}
		next := v.after(o)
		return v.exists && fits && (o.Kind == Delete || next.version == o.Version), next
	}
}

// after is the state that o leads to if it is tried in state v.
func (v value) after(o Op) value {
	fits := v.exists && (o.Want == AnyVersion || o.Want == v.version)
	switch {
	case o.Kind == Create && !v.exists:
		return value{exists: true, data: o.Data}
	case o.Kind == Set && fits:
		return value{exists: true, version: v.version + 1, data: o.Data}
	case o.Kind == Delete && fits:
		return value{}
	}
	return v
}
