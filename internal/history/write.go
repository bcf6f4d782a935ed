package history

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A stored is a znode as a snapshot has it.
type stored struct {
	data []byte   // nil is null
	acl  []zk.ACL // none for the list that is open to all
	mode znode.Mode
}

// writeState writes a snapshot without sessions into the directory to, which must have no snapshot and no log, and reads
// it again. names are the paths of all znodes, parents before their children; at is called twice for each.
func writeState(to string, zxid zk.Zxid, maxEntry int, names []string, at func(name string) stored) (err error) {
	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: to, AutoCreate: true, Log: storage.LogOptions{MaxEntryBytes: maxEntry}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	snapshots, err := d.Snapshots()
	logs, err2 := d.Logs()
	if err = errors.Join(err, err2); err != nil {
		return err
	}
	if len(snapshots) > 0 || len(logs) > 0 {
		return fmt.Errorf("%s has data already", to)
	}
	w, err := d.CreateSnapshot(zxid)
	if err != nil {
		return err
	}
	if err := writeBody(w, names, at); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return err
	}
	state, err := Newest(d, maxEntry)
	if want := len(names) + 2; err == nil && state.Tree().Count() != want { // the root twice, and /zookeeper/config
		err = fmt.Errorf("the snapshot has %d znodes, not %d", state.Tree().Count(), want)
	}
	return err
}

// writeBody writes all of the snapshot: no sessions, the lists of ACLs, and the znodes.
func writeBody(w *storage.SnapshotWriter, names []string, at func(name string) stored) error {
	ids, lists := map[string]int64{"": -1}, []string{} // -1 is the open list
	for _, name := range names {
		if acl := aclRecord(at(name).acl); ids[acl] == 0 {
			lists = append(lists, acl)
			ids[acl] = int64(len(lists))
		}
	}
	b := jute.AppendInt(jute.AppendInt(nil, 0), int32(len(lists)))
	for i, acl := range lists {
		b = append(jute.AppendLong(b, int64(i+1)), acl...)
	}
	for _, name := range names {
		s := at(name)
		b = jute.AppendString(b, strings.TrimSuffix(name, "/")) // the root is ""
		b = appendMode(jute.AppendLong(jute.AppendBuffer(b, s.data), ids[aclRecord(s.acl)]), s.mode)
		if _, err := w.Write(b); err != nil {
			return err
		}
		b = b[:0]
	}
	if _, err := w.Write(jute.AppendString(b, "/")); err != nil {
		return err
	}
	return w.Seal()
}

func aclRecord(acl []zk.ACL) string {
	if len(acl) == 0 {
		return ""
	}
	return string(wire.AppendACL(nil, acl))
}

func appendMode(b []byte, m znode.Mode) []byte {
	b = jute.AppendLong(jute.AppendLong(b, int64(m.Czxid)), int64(m.Mzxid))
	b = jute.AppendLong(jute.AppendLong(b, m.Ctime), m.Mtime)
	b = jute.AppendInt(jute.AppendInt(jute.AppendInt(b, m.Version), m.Cversion), m.Aversion)
	return jute.AppendLong(jute.AppendLong(b, m.Owner), int64(m.Pzxid))
}
