package prep

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A change of the membership is refused for the first reason in Apache's order, and else
// becomes the data of /zookeeper/config, with the version -1.
func TestReconfig(t *testing.T) {
	super := []zk.ID{{Scheme: "super", ID: ""}}
	valid := (&wire.ReconfigRequest{LeavingServers: "1", CurConfigID: -1}).Append(nil)
	tests := []struct {
		name     string
		disabled bool
		alone    bool
		session  zk.SessionID
		ids      []zk.ID
		body     []byte
		judged   zk.Code
		want     zk.Code
	}{
		{name: "disabled", disabled: true, session: 99, body: []byte{1}, judged: zk.ErrBadVersion, want: zk.ErrReconfigDisabled},
		{name: "not a record", body: []byte{1}, judged: zk.ErrBadVersion, want: zk.ErrMarshalling},
		{name: "no session", session: 99, body: valid, judged: zk.ErrBadVersion, want: zk.ErrSessionExpired},
		{name: "standalone", alone: true, body: valid, want: zk.ErrUnimplemented},
		{name: "judged", body: valid, judged: zk.ErrBadVersion, want: zk.ErrBadVersion},
		{name: "no right", body: valid, want: zk.ErrNoAuth},
		{name: "done", ids: super, body: valid, want: zk.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{ReconfigEnabled: !tt.disabled, DigestEnabled: true}
			if !tt.alone {
				cfg.Reconfigure = func(req *wire.ReconfigRequest, z zk.Zxid) ([]byte, zk.Code) {
					if req.LeavingServers != "1" || z != 2 {
						t.Errorf("%+v is to be %v", req, z)
					}
					return []byte("the new members"), tt.judged
				}
			}
			r := newRig(t, cfg)
			id := r.prepare(Request{Op: wire.OpCreateSession, Body: []byte{0, 0, 0x10, 0}}).Session
			if tt.session != 0 {
				id = tt.session
			}
			tx := r.prepare(Request{Session: id, Op: wire.OpReconfig, Body: tt.body, IDs: tt.ids})
			if tx.Op.Err != tt.want {
				t.Fatalf("got %v, want %v", tx.Op.Err, tt.want)
			}
			if tt.want != zk.OK {
				return
			}
			set := wire.SetDataRequest{Path: znode.ConfigPath, Version: -1}
			if next := r.prepare(Request{Session: id, Op: wire.OpSetData, Body: set.Append(nil), IDs: super}); next.Version != 0 {
				t.Errorf("a setData after it has the version %d, want 0", next.Version)
			}
			r.apply(2)
			var stat zk.Stat
			config := r.tree.Lookup(znode.ConfigPath)
			r.tree.Stat(config, &stat)
			if got := string(r.tree.Data(config)); got != "the new members" || stat.Version != -1 || stat.Mzxid != 2 || stat.Czxid != 0 {
				t.Errorf("%q, %+v", got, stat)
			}
			r.settle()
		})
	}
}
