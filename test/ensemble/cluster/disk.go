package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// A Disk is a small file system of its own under a member's data directory.
type Disk struct {
	dir    string
	filler string
}

// LimitDisk gives a member that has not been started yet a disk of so many
// megabytes. Only root may.
func LimitDisk(m *Member, megabytes int) (*Disk, error) {
	myid := filepath.Join(m.DataDir, "myid")
	text, err := os.ReadFile(myid)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	size := fmt.Sprintf("size=%dm", megabytes)
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "tmpfs", m.DataDir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cluster: mount: %w: %s", err, out)
	}
	d := &Disk{dir: m.DataDir, filler: filepath.Join(m.DataDir, "filler")}
	return d, os.WriteFile(myid, text, 0o644)
}

// Fill takes all that is left of the disk.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cluster: fill: %w", err)
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(fmt.Errorf("cluster: fill: %w", err), f.Close())
	}
	return f.Close()
}

// Free gives the space back.
func (d *Disk) Free() error { return os.Remove(d.filler) }

// Unmount removes the disk with all that is on it. The member must not run.
func (d *Disk) Unmount() error {
	if out, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: umount: %w: %s", err, out)
	}
	return nil
}
