package znode

import (
	"bytes"
	"strconv"
	"strings"
)

// Quota is the content of a limits or stats znode. -1 means not set.
type Quota struct {
	Count, Bytes         int64 // soft limits, or the usage
	CountHard, BytesHard int64
	named                bool // the text has hard limits, even if they are -1
}

// ParseQuota reads "count=1,bytes=2", with hard limits
// "count=-1,bytes=-1=;byteHardLimit=3;countHardLimit=4" (the stray = is Apache's). A
// value that is missing or not a number is not set.
func ParseQuota(b []byte) Quota {
	q := Quota{Count: -1, Bytes: -1, CountHard: -1, BytesHard: -1}
	for _, field := range bytes.FieldsFunc(b, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(string(field), "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "count":
			q.Count = n
		case "bytes":
			q.Bytes = n
		case "countHardLimit":
			q.CountHard, q.named = n, true
		case "byteHardLimit":
			q.BytesHard, q.named = n, true
		}
	}
	return q
}

// append appends q in Apache's form.
func (q Quota) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), q.Count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), q.Bytes, 10)
	if q.named {
		b = strconv.AppendInt(append(b, "=;byteHardLimit="...), q.BytesHard, 10)
		b = strconv.AppendInt(append(b, ";countHardLimit="...), q.CountHard, 10)
	}
	return b
}

// QuotaPath returns the path of the nearest quota that applies to path; "" if there is
// none. A quota of the root does not count, as in Apache.
func (t *Tree) QuotaPath(path string) string {
	if len(t.quotas) == 0 {
		return ""
	}
	for p := path; p != "" && p != "/"; p = Parent(p) {
		if _, ok := t.quotas[p]; ok {
			return p
		}
	}
	return ""
}

// hasQuota reports whether the quota of path is its own.
func (t *Tree) hasQuota(path string) bool { _, ok := t.quotas[path]; return ok }

// QuotaLimits returns the limits and the usage of the quota at path, a result of
// QuotaPath. ok is false if either znode is missing.
func (t *Tree) QuotaLimits(path string) (limits, used Quota, ok bool) {
	l, s := t.Lookup(quotaPath+path+limitsSuffix), t.Lookup(quotaPath+path+statsSuffix)
	if l == 0 || s == 0 {
		return Quota{}, Quota{}, false
	}
	return ParseQuota(t.Data(l)), ParseQuota(t.Data(s)), true
}

// chargeQuota counts a change of path against its quota. It changes the stats znode in
// place, without zxid, version or watches.
func (t *Tree) chargeQuota(path string, bytes, count int64) {
	if q := t.QuotaPath(path); q != "" {
		t.changeStats(q, func(s *Quota) { s.Bytes += bytes; s.Count += count })
	}
}

func (t *Tree) changeStats(quota string, change func(*Quota)) {
	path := quotaPath + quota + statsSuffix
	id := t.Lookup(path)
	if id == 0 {
		return
	}
	n := t.nodes.at(id)
	s := ParseQuota(t.data(n))
	change(&s)
	data := s.append(nil)
	n.sum = Sum(path, data)
	t.storeData(n, data)
}

// quotaNodeCreated starts to count when a limits or stats znode is created.
func (t *Tree) quotaNodeCreated(path string) {
	if target, ok := strings.CutSuffix(path[len(quotaPath):], limitsSuffix); ok {
		t.quotas[strings.Clone(target)] = struct{}{}
	} else if target, ok := strings.CutSuffix(path[len(quotaPath):], statsSuffix); ok {
		t.recount(target)
	}
}

// setupQuotas finds the quotas of a loaded tree and recounts them.
func (t *Tree) setupQuotas() {
	if root := t.Lookup(quotaPath); root != 0 {
		t.findQuotas(root, "")
	}
	t.FinishRecount()
}

func (t *Tree) findQuotas(id ID, path string) {
	for _, k := range t.kids[t.nodes.at(id).kids] {
		name := t.name(t.nodes.at(k))
		if name == limitsName {
			t.quotas[path] = struct{}{}
			t.recounts.due = append(t.recounts.due, path)
		}
		t.findQuotas(k, path+"/"+name)
	}
}
