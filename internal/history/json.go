package history

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// jsonTime is how JSON has a time: RFC 3339 in UTC, with milliseconds.
const jsonTime = "2006-01-02T15:04:05.000Z"

func timeText(millis int64) string { return time.UnixMilli(millis).UTC().Format(jsonTime) }

// jsonData is data in JSON: a text as it is, anything else in base64. Neither is there if
// the data is null.
type jsonData struct {
	Data   *string `json:"data,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

func dataOf(b []byte) (d jsonData) {
	switch {
	case b == nil:
	case utf8.Valid(b):
		text := string(b)
		d.Data = &text
	default:
		text := base64.StdEncoding.EncodeToString(b)
		d.Base64 = &text
	}
	return d
}

func aclOf(list []zk.ACL) []string {
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = a.String()
	}
	return texts
}

// jsonTxn is a line of the log in JSON.
type jsonTxn struct {
	Zxid    string `json:"zxid"`
	Time    string `json:"time"`
	Session string `json:"session"`
	Cxid    int32  `json:"cxid"`
	jsonOp
	Ops    []jsonOp `json:"ops,omitempty"`
	Digest string   `json:"digest,omitempty"`
	Damage string   `json:"damage,omitempty"`
	File   string   `json:"file"`
	Offset int64    `json:"offset"`
}

// jsonOp is one change. Only the fields of its type are there.
type jsonOp struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
	jsonData
	ACL       []string `json:"acl,omitempty"`
	Ephemeral *bool    `json:"ephemeral,omitempty"`
	Cversion  *int32   `json:"parentCversion,omitempty"`
	TTL       int64    `json:"ttl,omitempty"`
	Version   *int32   `json:"version,omitempty"`
	Timeout   int32    `json:"timeout,omitempty"`
	Error     string   `json:"error,omitempty"`
	Paths     []string `json:"paths,omitempty"`
}

func jsonOpOf(o *txn.Op, kind wire.OpCode) jsonOp {
	j := jsonOp{Type: nameOf(kind), Path: o.Path}
	switch kind {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		j.jsonData, j.ACL, j.Cversion, j.TTL = dataOf(o.Data), aclOf(o.ACL), &o.ParentCversion, o.TTL
		if kind == wire.OpCreate || kind == wire.OpCreate2 {
			j.Ephemeral = &o.Ephemeral
		}
	case wire.OpSetData, wire.OpReconfig:
		j.jsonData, j.Version = dataOf(o.Data), &o.Version
	case wire.OpSetACL:
		j.ACL, j.Version = aclOf(o.ACL), &o.Version
	case wire.OpCheck:
		j.Version = &o.Version
	case wire.OpCreateSession:
		j.Timeout = o.TimeoutMillis
	case wire.OpCloseSession:
		j.Paths = o.Paths
	case wire.OpError:
		j.Error = strings.TrimPrefix(o.Err.Error(), "zookeeper: ")
	}
	return j
}

func jsonTxnOf(tx *txn.Txn) jsonTxn {
	j := jsonTxn{
		Zxid: tx.Zxid.String(), Time: timeText(tx.Time), Session: fmt.Sprintf("0x%x", uint64(tx.Session)), Cxid: tx.Cxid,
		jsonOp: jsonOpOf(&tx.Op, tx.Header.Type),
	}
	for i := range tx.Multi {
		j.Ops = append(j.Ops, jsonOpOf(&tx.Multi[i], tx.Multi[i].Type))
	}
	if tx.HasDigest {
		j.Digest = strconv.FormatUint(tx.Digest, 10)
	}
	return j
}
