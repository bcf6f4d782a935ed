package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A SlowDisk is an ext4 file system on a loop device, mounted at a member's data
// directory. It can be made to finish no write at all, or few. The owner calls
// Remove after the member has ended. A process of its own, the guard, undoes everything
// also if the test program is killed.
type SlowDisk struct {
	dir   string
	log   string // what the guard has printed
	guard *exec.Cmd
	life  io.Closer // the guard's input: the guard waits for its end
}

// iopsLimits is the file of the block controller (cgroup v1) that limits the writes of
// a device, by lines of the form "major:minor writes-per-second". 0 removes a limit.
const iopsLimits = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device"

// guardScript waits for the end of its input and then undoes what a SlowDisk has
// done: $1 is the mount point, $2 is iopsLimits. The server on it may still be about
// to end.
const guardScript = `
cat >/dev/null
device=$(mountpoint -d "$1") || exit 0
fsfreeze --unfreeze "$1" || echo "it was not frozen"
[ ! -e "$2" ] || echo "$device 0" >"$2"
for i in $(seq 100); do
	umount "$1" && exit 0
	sleep 0.1
done
umount --lazy "$1"
exit 1
`

// SlowDiskMissing returns why this machine allows no SlowDisk, "" if it does.
func SlowDiskMissing() string {
	if os.Getuid() != 0 {
		return "only root may mount a file system and freeze it"
	}
	for _, name := range []string{"mkfs.ext4", "mount", "umount", "mountpoint", "losetup", "fsfreeze"} {
		if _, err := exec.LookPath(name); err != nil {
			return "the program " + name + " is not installed"
		}
	}
	if out, err := exec.Command("losetup", "--find").CombinedOutput(); err != nil {
		return fmt.Sprintf("there is no loop device: %v: %s", err, out)
	}
	return ""
}

// NewSlowDisk gives a member that has not been started yet a disk of so many
// megabytes, of which the machine's disk holds what is used.
func NewSlowDisk(m *Member, megabytes int) (*SlowDisk, error) {
	image := filepath.Join(m.Dir, "disk")
	myid := filepath.Join(m.DataDir, "myid")
	text, err := os.ReadFile(myid)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	d := &SlowDisk{dir: m.DataDir, log: filepath.Join(m.Dir, "disk-log")}
	if err := d.startGuard(); err != nil {
		return nil, err
	}
	for _, command := range [][]string{
		{"truncate", "-s", fmt.Sprintf("%dM", megabytes), image},
		{"mkfs.ext4", "-q", "-F", "-N", "1024", "-E", "lazy_itable_init=0,lazy_journal_init=0", image},
		{"mount", "-o", "loop", image, m.DataDir},
	} {
		if err := do(command...); err != nil {
			return nil, fmt.Errorf("%w; %w", err, d.Remove())
		}
	}
	return d, os.WriteFile(myid, text, 0o644)
}

// do runs a command.
func do(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster: %s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// startGuard starts the guard in a process group of its own, so that the keyboard's
// interrupt ends the test program and not the guard.
func (d *SlowDisk) startGuard() error {
	log, err := os.Create(d.log)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer log.Close() // the guard has its own
	d.guard = exec.Command("sh", "-c", guardScript, "guard", d.dir, iopsLimits)
	d.guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.guard.Stdout, d.guard.Stderr = log, log
	if d.life, err = d.guard.StdinPipe(); err != nil {
		return fmt.Errorf("cluster: guard: %w", err)
	}
	if err := d.guard.Start(); err != nil {
		return fmt.Errorf("cluster: guard: %w", err)
	}
	return nil
}

// Freeze makes every write wait until Thaw. A process that waits cannot be killed.
func (d *SlowDisk) Freeze() error { return do("fsfreeze", "--freeze", d.dir) }

// Thaw ends Freeze.
func (d *SlowDisk) Thaw() error { return do("fsfreeze", "--unfreeze", d.dir) }

// CanLimit reports whether the machine can limit the writes of a device.
func CanLimit() bool {
	_, err := os.Stat(iopsLimits)
	return err == nil
}

// Limit lets the disk finish so many writes a second, of all processes and of the file
// system itself. 0 removes the limit.
func (d *SlowDisk) Limit(writes int) error {
	device, err := exec.Command("mountpoint", "-d", d.dir).Output()
	if err != nil {
		return fmt.Errorf("cluster: mountpoint: %w", err)
	}
	line := fmt.Sprintf("%s %d\n", strings.TrimSpace(string(device)), writes)
	if err := os.WriteFile(iopsLimits, []byte(line), 0o644); err != nil {
		return fmt.Errorf("cluster: limit of writes: %w", err)
	}
	return nil
}

// Remove has the guard thaw and unmount the disk and waits for that.
func (d *SlowDisk) Remove() error {
	_ = d.life.Close() // an error means that the guard has ended, which Wait tells
	if err := d.guard.Wait(); err != nil {
		text, _ := os.ReadFile(d.log)
		return fmt.Errorf("cluster: guard of %s: %w: %s", d.dir, err, text)
	}
	return nil
}
