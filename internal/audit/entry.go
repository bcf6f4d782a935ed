package audit

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Result is how an operation has ended.
type Result string

// The results. Unknown exists only here: the server has lost its role, and the next leader
// decides whether the change is made.
const (
	Success Result = "success"
	Failure Result = "failure"
	Invoked Result = "invoked"
	Unknown Result = "unknown"
)

// Operation is what was done, under Apache's name.
type Operation string

// The operations.
const (
	Create          Operation = "create"
	Delete          Operation = "delete"
	SetData         Operation = "setData"
	SetACL          Operation = "setAcl"
	Multi           Operation = "multiOperation"
	Reconfig        Operation = "reconfig"
	DeleteEphemeral Operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
	ServerStart     Operation = "serverStart"
	ServerStop      Operation = "serverStop"

	linesLost Operation = "auditLinesLost"
)

// Entry is a line. Fields that are empty are left out.
type Entry struct {
	Session   zk.SessionID
	Users     string // names of its identities (auth.Authority.UserName), separated by commas
	IP        string
	Operation Operation
	Path      string
	Type      string // of the znode that is created; see ModeName
	ACL       string // see ACLText
	Result    Result
	Lost      int // lines that are missing before this one

	Details *Details // written only if Options.Details is set
}

// Details is what Apache's audit log does not have.
type Details struct {
	Zxid       zk.Zxid
	OldVersion int32 // of the data, or of the ACL for SetACL; -1: there was none
	NewVersion int32 // -1: there is none any more
	Size       int   // of the data afterwards, before it for Delete; -1: unknown
}

// ModeName returns the name that a line has for a kind of znode, "" if there is no such kind.
func ModeName(m zk.CreateMode) string {
	names := [...]string{"persistent", "ephemeral", "persistent_sequential", "ephemeral_sequential",
		"container", "persistent_with_ttl", "persistent_sequential_with_ttl"}
	if !m.Valid() {
		return ""
	}
	return names[m]
}

// ACLText returns an ACL as a line shows it: its entries without anything in between. The
// hash of a password is not shown.
func ACLText(list []zk.ACL) string {
	var b strings.Builder
	for _, a := range list {
		id := a.ID.ID
		if a.ID.Scheme == "digest" {
			user, _, _ := strings.Cut(id, ":")
			id = user + ":***"
		}
		b.WriteString(a.ID.Scheme + ":" + id + ":" + a.Perms.String())
	}
	return b.String()
}

// timeFormat is that of Apache's sample configuration.
const timeFormat = "2006-01-02 15:04:05,000"

func level(r Result) string {
	if r == Failure {
		return "ERROR"
	}
	return "INFO"
}

// append appends the line of an entry.
func (l *Log) append(b []byte, now time.Time, e *Entry) []byte {
	if l.o.JSON {
		return l.appendJSON(b, now, e)
	}
	b = now.AppendFormat(b, timeFormat)
	b = append(b, ' ')
	b = append(b, level(e.Result)...)
	b = append(b, ' ')
	b = append(b, l.o.Class...)
	b = append(b, ": "...)
	from := len(b)
	l.fields(e, func(f field) {
		if len(b) > from {
			b = append(b, '\t')
		}
		b = append(append(b, f.key...), '=')
		if f.base == 0 {
			b = appendEscaped(b, f.text)
		} else {
			b = f.appendNumber(b)
		}
	})
	return append(b, '\n')
}

func (l *Log) appendJSON(b []byte, now time.Time, e *Entry) []byte {
	b = append(b, `{"time":"`...)
	b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(append(b, `","level":"`...), level(e.Result)...)
	b = append(b, '"')
	l.fields(e, func(f field) {
		b = append(append(append(b, ',', '"'), f.key...), '"', ':')
		switch f.base {
		case 0:
			quoted, _ := json.Marshal(f.text) // a string can always be encoded
			b = append(b, quoted...)
		case 10:
			b = f.appendNumber(b)
		default:
			b = append(f.appendNumber(append(b, '"')), '"')
		}
	})
	return append(b, '}', '\n')
}

// field is one field of a line: a text, or a number to the base 10 or 16.
type field struct {
	key, text string
	number    int64
	base      int // 0: it is a text
}

func (f *field) appendNumber(b []byte) []byte {
	if f.base == 16 {
		return strconv.AppendUint(append(b, "0x"...), uint64(f.number), 16)
	}
	return strconv.AppendInt(b, f.number, 10)
}

// fields calls f for each field of the line, in order.
func (l *Log) fields(e *Entry, f func(field)) {
	text := func(key, value string) {
		if value != "" {
			f(field{key: key, text: value})
		}
	}
	if e.Session != 0 {
		f(field{key: "session", number: int64(e.Session), base: 16})
	}
	text("user", e.Users)
	text("ip", e.IP)
	text("operation", string(e.Operation))
	text("znode", e.Path)
	text("znode_type", e.Type)
	text("acl", e.ACL)
	text("result", string(e.Result))
	if e.Lost > 0 {
		f(field{key: "lines", number: int64(e.Lost), base: 10})
	}
	if d := e.Details; d != nil && l.o.Details {
		f(field{key: "zxid", number: int64(d.Zxid), base: 16})
		for _, n := range [...]field{
			{key: "old_version", number: int64(d.OldVersion)}, {key: "new_version", number: int64(d.NewVersion)}, {key: "size", number: int64(d.Size)},
		} {
			if n.base = 10; n.number >= 0 {
				f(n)
			}
		}
	}
}

// appendEscaped appends text from outside, so that it cannot end a field or a line: control
// characters as \t, \n, \r or \u followed by four hexadecimal digits, a backslash as two.
func appendEscaped(b []byte, text string) []byte {
	for i := 0; ; i++ {
		if i == len(text) {
			return append(b, text...)
		}
		if c := text[i]; c < ' ' || c == '\\' || c >= 0x7f {
			b = append(b, text[:i]...)
			text = text[i:]
			break
		}
	}
	for _, r := range text {
		switch {
		case r == '\\':
			b = append(b, `\\`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
			const digits = "0123456789abcdef"
			b = append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return b
}
