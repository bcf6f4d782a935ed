package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// An ExportWriter writes an export of znodes that do not come from a server: the command
// import reads it. The caller adds znodes, parents before their children, and calls End.
type ExportWriter struct {
	out *bufio.Writer
	n   int
}

// NewExportWriter begins an export of the subtree at root, as it was after transaction z.
func NewExportWriter(to io.Writer, root string, z zk.Zxid) (*ExportWriter, error) {
	w := &ExportWriter{out: bufio.NewWriterSize(to, 256<<10)}
	return w, writeLine(w.out, exportHeader{Format: exportFormat, Root: root, Time: isoTime(time.Now().UnixMilli()), Zxid: z.String()})
}

// Add writes a znode. mode is the one that it is created with; ttl is that of
// zk.PersistentWithTTL.
func (w *ExportWriter) Add(path string, data []byte, acl []zk.ACL, stat zk.Stat, mode zk.CreateMode, ttl time.Duration) error {
	e := exportOf(&znode{path: path, data: data, acl: acl, stat: stat})
	k := map[zk.CreateMode]kind{zk.Persistent: persistent, zk.Ephemeral: ephemeral, zk.Container: container, zk.PersistentWithTTL: withTTL}[mode]
	e.Kind, e.TTL = nil, 0
	if k != persistent {
		e.Kind, e.TTL = &k, ttl.Milliseconds()
	}
	w.n++
	return writeLine(w.out, e)
}

// End completes the export, and returns how many znodes it has.
func (w *ExportWriter) End() (int, error) {
	err := errors.Join(writeLine(w.out, exportTrailer{Nodes: &w.n}), w.out.Flush())
	if err != nil {
		err = fmt.Errorf("write an export: %w", err)
	}
	return w.n, err
}
