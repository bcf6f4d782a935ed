package prep

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// reconfig prepares a change of the membership: the text of the new configuration becomes
// the data of /zookeeper/config, whose version is -1. The order of the checks is Apache's,
// in which the ACL comes last.
func (p *Preparer) reconfig(req *Request, tx *txn.Txn) zk.Code {
	d := jute.NewDecoder(req.Body)
	var r wire.ReconfigRequest
	r.Decode(&d)
	switch {
	case !p.cfg.ReconfigEnabled:
		return zk.ErrReconfigDisabled
	case d.Err() != nil:
		return zk.ErrMarshalling
	}
	if code := p.checkSession(req); code != zk.OK {
		return code
	}
	if p.cfg.Reconfigure == nil {
		return zk.ErrUnimplemented
	}
	text, code := p.cfg.Reconfigure(&r, tx.Header.Zxid)
	if code != zk.OK {
		return code
	}
	c, ok := p.get(znode.ConfigPath)
	switch {
	case !ok:
		return zk.ErrNoNode
	case !p.allowed(req, c.acl, zk.PermWrite):
		return zk.ErrNoAuth
	}
	tx.Op = txn.Op{Type: wire.OpReconfig, Path: znode.ConfigPath, Data: text, Version: -1}
	if p.tooLarge(&tx.Op) {
		return zk.ErrBadArguments
	}
	changed := c
	changed.mode.Version, changed.mode.Mzxid, changed.mode.Mtime = -1, tx.Header.Zxid, tx.Header.Time
	p.addSum(&tx.Op)
	changed.sum, changed.dataLen = tx.Op.Sum, len(text)
	p.put(&tx.Header, znode.ConfigPath, &c, changed)
	return zk.OK
}
