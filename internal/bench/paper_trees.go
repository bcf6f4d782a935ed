package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// treePoints measure what a tree costs: its memory, the start of a server that
// has it on disk, and that of one that has nothing and gets it from the leader.
func treePoints(znodes int) []point {
	return []point{{values{"znodes": float64(znodes)}, func(ctx context.Context, v *paperVisit) (values, error) {
		o := v.load()
		fill := Fill{Options: o, Connections: 8, Outstanding: 200, Path: "/pinfold-tree", Count: znodes, Size: 100, Parents: 1}
		r, err := fill.Run(ctx)
		got, err := valuesOf(r, err)
		if err != nil {
			return nil, err
		}
		followers, err := v.followers(ctx)
		if err != nil {
			return nil, err
		}
		member := v.members[followers[0]]
		rss, err := Options{Pids: []int{member.cmd.Process.Pid}}.rss(ctx, member.settle)
		if err != nil {
			return nil, err
		}
		got["server_mb"] = float64(rss) / (1 << 20)
		if got["start_s"], err = v.again(ctx, followers[0], false); err != nil {
			return nil, err
		}
		got["join_s"], err = v.again(ctx, followers[0], true)
		return got, err
	}}}
}

// again kills a member and returns the seconds from its start until it serves all
// that there is; wiped starts it with an empty disk.
func (v *paperVisit) again(ctx context.Context, i int, wiped bool) (float64, error) {
	v.kill(i)
	if wiped {
		if err := os.RemoveAll(filepath.Join(v.memberDir(i), "data", "version-2")); err != nil {
			return 0, fmt.Errorf("bench: %w", err)
		}
	}
	start := time.Now()
	if err := v.restart(i); err != nil {
		return 0, err
	}
	if err := v.awaitSync(ctx, i); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds(), nil
}

// hugeTree is so many znodes that only this program is asked to hold them.
const hugeTree = 10_000_000

// hugeCreates is the number of creates that make a snapshot due, which the next start
// reads.
const hugeCreates = 2000

// hugePoints measure on one server what very many znodes cost: its memory, its
// start with a snapshot of them, and what snapshots of them cost clients that write.
// They need 20 GB of disk.
func hugePoints() []point {
	return []point{{values{"znodes": hugeTree}, func(ctx context.Context, v *paperVisit) (values, error) {
		fill := Fill{Options: v.load(), Connections: 8, Outstanding: 200, Path: "/pinfold-tree", Count: hugeTree, Size: 100, Parents: 1}
		got, err := valuesOf(fill.Run(ctx))
		if err != nil {
			return nil, err
		}
		rss, err := v.load().rss(ctx, v.members[0].settle)
		if err != nil {
			return nil, err
		}
		got["server_mb"] = float64(rss) / (1 << 20)
		if err := v.snapshotNow(ctx); err != nil {
			return nil, err
		}
		if got["start_s"], err = v.againWith(ctx, noSnapshots()...); err != nil {
			return nil, err
		}
		return got, v.hugeWrites(ctx, got)
	}}}
}

// noSnapshots are lines of zoo.cfg with which a snapshot is never due.
func noSnapshots() []string { return []string{"snapCount=2000000000", "snapSizeLimitInKb=0"} }

// manySnapshots has the next snapshot due when one is done.
const manySnapshots = "snapCount=1000"

// againWith is again for a server alone, with other lines of zoo.cfg.
func (v *paperVisit) againWith(ctx context.Context, lines ...string) (float64, error) {
	if err := writeConfig(v.system, v.memberDir(0), v.port, append(v.config(1), lines...)...); err != nil {
		return 0, err
	}
	return v.again(ctx, 0, false)
}

// snapshotNow leaves the server with a snapshot of the complete tree, and a short log
// after it.
func (v *paperVisit) snapshotNow(ctx context.Context) error {
	if _, err := v.againWith(ctx, manySnapshots); err != nil {
		return err
	}
	before := v.members[0].snapshots()
	few := Fill{Options: v.load(), Connections: 1, Outstanding: 100, Path: "/pinfold-few", Count: hugeCreates, Size: 100, Parents: 1}
	if _, err := valuesOf(few.Run(ctx)); err != nil {
		return err
	}
	return v.awaitSnapshots(ctx, before+1)
}

// awaitSnapshots waits until the first member has made so many.
func (v *paperVisit) awaitSnapshots(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for v.members[0].snapshots() < n {
		if err := rest(ctx, tick); err != nil {
			return fmt.Errorf("bench: wait for a snapshot: %w", err)
		}
	}
	return nil
}

// hugeWrites measures writes without snapshots, and then while they follow each
// other, for longer than one of them takes.
func (v *paperVisit) hugeWrites(ctx context.Context, got values) error {
	writes := v.mixOf(v.load(), 0, 20, 100)
	writes.Duration = max(v.Duration, hugeSnapshot/3)
	quiet, err := valuesOf(writes.Run(ctx))
	if err != nil {
		return err
	}
	if _, err := v.againWith(ctx, manySnapshots); err != nil {
		return err
	}
	before := v.members[0].snapshots()
	writes = v.mixOf(v.load(), 0, 20, 100)
	writes.Duration = max(v.Duration, hugeSnapshot)
	busy, err := valuesOf(writes.Run(ctx))
	if err != nil {
		return err
	}
	made := v.members[0].snapshots() - before
	if made == 0 {
		return errors.New("bench: no snapshot was finished while writing")
	}
	got["snapshots"], got["quiet_write_rate"], got["busy_write_rate"] = float64(made), quiet["rate"], busy["rate"]
	got["snapshot_loss"] = 100 * (1 - busy["rate"]/quiet["rate"])
	return nil
}

// hugeSnapshot is how long writes are measured beside snapshots of very many
// znodes: one rests more than it works until the log after it has 4 GB, and then
// it hurries.
const hugeSnapshot = 30 * time.Second
