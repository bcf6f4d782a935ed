package storage

import (
	"errors"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// A log that discards its entries checks them all the same, and leaves no file.
func TestDiscard(t *testing.T) {
	disk := vfs.NewMem()
	d, err := Open(disk, Options{DataDir: "/data", AutoCreate: true, Log: LogOptions{Discard: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l := d.NewLog(0)
	for z := zk.Zxid(1); z < 2000; z++ {
		if err := errors.Join(l.Append(z, testPayload(z, 100)), l.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	if l.LastZxid() != 1999 {
		t.Errorf("LastZxid is %v", l.LastZxid())
	}
	if err := l.Append(2001, testPayload(2001, 100)); !errors.Is(err, ErrGap) {
		t.Errorf("a gap: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := disk.List("/data/version-2"); err != nil || len(names) > 0 {
		t.Errorf("files %q, %v", names, err)
	}
}
