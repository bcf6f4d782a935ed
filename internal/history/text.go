package history

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// names are Apache's names of the types of transactions, as its tools print them.
var names = map[wire.OpCode]string{
	wire.OpCreate: "create", wire.OpCreate2: "create2", wire.OpCreateContainer: "createContainer", wire.OpCreateTTL: "createTTL",
	wire.OpDelete: "delete", wire.OpDeleteContainer: "deleteContainer", wire.OpSetData: "setData", wire.OpReconfig: "reconfig",
	wire.OpSetACL: "setACL", wire.OpCheck: "check", wire.OpMulti: "multi", wire.OpCreateSession: "createSession",
	wire.OpCloseSession: "closeSession", wire.OpError: "error",
}

// nameOf returns the name of a type.
func nameOf(c wire.OpCode) string {
	if name := names[c]; name != "" {
		return name
	}
	return "unknown " + strconv.Itoa(int(c))
}

// logTime is the time as TxnLogToolkit prints it for an English locale, in UTC.
const logTime = "1/2/06, 3:04:05 PM MST"

// apacheLine returns a transaction as Apache's TxnLogToolkit 3.9 prints it.
func apacheLine(tx *txn.Txn) string {
	at := time.UnixMilli(tx.Time).UTC().Format(logTime)
	return fmt.Sprintf("%s session 0x%x cxid 0x%x zxid 0x%x %s %s",
		at, uint64(tx.Session), uint64(tx.Cxid), uint64(tx.Zxid), nameOf(tx.Header.Type), apacheRecord(tx))
}

func apacheRecord(tx *txn.Txn) string {
	if tx.Header.Type == wire.OpMulti {
		parts := make([]string, len(tx.Multi))
		for i := range tx.Multi {
			op := &tx.Multi[i]
			parts[i] = nameOf(op.Type) + ":" + jute.JavaString(op.AppendRecord(nil))
		}
		return strings.Join(parts, ";")
	}
	o := &tx.Op
	text := jute.JavaString(o.Data)
	switch tx.Header.Type {
	case wire.OpCreate, wire.OpCreate2:
		return fmt.Sprintf("%s,%s,%s,%t,%d", o.Path, text, apacheACL(o.ACL), o.Ephemeral, o.ParentCversion)
	case wire.OpCreateContainer:
		return fmt.Sprintf("%s,%s,%s,%d", o.Path, text, apacheACL(o.ACL), o.ParentCversion)
	case wire.OpCreateTTL:
		return fmt.Sprintf("%s,%s,%s,%d,%d", o.Path, text, apacheACL(o.ACL), o.ParentCversion, o.TTL)
	case wire.OpSetData, wire.OpReconfig:
		return fmt.Sprintf("%s,%s,%d", o.Path, text, o.Version)
	case wire.OpDelete, wire.OpDeleteContainer:
		return csvString(o.Path)
	case wire.OpSetACL:
		acl := make([]string, len(o.ACL))
		for i, a := range o.ACL {
			acl[i] = "s{" + csvACL(a) + "}"
		}
		return fmt.Sprintf("%s,v{%s},%d", csvString(o.Path), strings.Join(acl, ","), o.Version)
	case wire.OpCreateSession:
		return strconv.Itoa(int(o.TimeoutMillis))
	case wire.OpError:
		return strconv.Itoa(int(o.Err))
	case wire.OpCloseSession:
		paths := make([]string, len(o.Paths))
		for i, p := range o.Paths {
			paths[i] = csvString(p)
		}
		return "v{" + strings.Join(paths, ",") + "}"
	}
	return ""
}

// apacheACL is a list of ACLs as Java prints one; each ends with a line feed.
func apacheACL(list []zk.ACL) string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = csvACL(a) + "\n"
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// csvACL is one entry of an ACL in jute's text form.
func csvACL(a zk.ACL) string {
	return fmt.Sprintf("%d,s{%s,%s}", a.Perms, csvString(a.ID.Scheme), csvString(a.ID.ID))
}

var csvEscapes = strings.NewReplacer("\x00", "%00", "\n", "%0A", "\r", "%0D", ",", "%2C", "}", "%7D", "%", "%25")

// csvString is a string in jute's text form.
func csvString(s string) string { return "'" + csvEscapes.Replace(s) }
