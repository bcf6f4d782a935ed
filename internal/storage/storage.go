// Package storage keeps the data directory of a server, in the formats of Apache
// ZooKeeper: the transaction log, the snapshots and the epoch files. docs/formats.md
// has the layouts, byte by byte.
//
// A transaction is opaque to this package except for its TxnHeader (session id 8, cxid
// 4, zxid 8, time 8, type 4: 32 bytes), of which it reads the zxid. A snapshot is a
// stream of bytes with checksums. Other packages know what they mean.
//
//	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: dir, AutoCreate: true})
//	// load the newest snapshot that d.Snapshots lists and that reads well, then
//	r, err := d.ReadLog(snapshotZxid)
//	for { payload, err := r.Next(); … }  // to io.EOF
//	err = d.CutTail(r.Tail())            // before anything is appended
//	log := d.NewLog(r.LastZxid())
//	err = log.Append(zxid, payload)
//	err = log.Flush()                    // durable: acknowledge
//
// Invariants, each with a test:
//
//  1. What Flush or Commit has acknowledged is read back after any crash.
//  2. What is read back was appended before; no other bytes are.
//  3. Any one flipped bit in a log or snapshot is either without effect or refused
//     with an *Error of ErrCorrupt that says where.
//  4. After an error of a write or sync the log accepts nothing more.
//  5. No file without a transaction is ever visible under the name of a log, and
//     no unfinished file under the name of a snapshot.
//  6. Truncate, Retire and Install leave, whenever the machine crashes, a history
//     that this server had, up to some zxid, or the one that was installed: never
//     the transactions of one after the state of another.
//  7. A log that ends before what it had synced is refused (synced.go).
//  8. Nothing is read over missing transactions, but between neighbours in a file
//     of Apache at the start.
//
// A leader reads its log concurrently with the goroutine that writes it: Locate finds
// the place of a learner, ReadRange reads from there.
package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Errors that callers tell apart, by errors.Is.
var (
	// ErrCorrupt reports damage: bytes that no crash explains.
	ErrCorrupt = errors.New("corrupt")
	// ErrGap reports a transaction that does not follow the previous one.
	ErrGap = errors.New("zxids are not contiguous")
	// ErrNoZxid reports a zxid that the log does not hold.
	ErrNoZxid = errors.New("no such zxid in the log")
)

// Error describes damage in a file, and its place.
type Error struct {
	Name   string // of the file, with its directory
	Offset int64  // of the first wrong byte
	Reason string
	Kind   error // ErrCorrupt or ErrGap
}

// Error prints `storage: /data/version-2/log.1: corrupt at byte 16: reason`.
func (e *Error) Error() string {
	return fmt.Sprintf("storage: %s: %v at byte %d: %s", e.Name, e.Kind, e.Offset, e.Reason)
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Names in the directories. A temporary name begins with tmp, because Apache treats
// every name that begins with "log." or "snapshot." and a hexadecimal number as a log
// or snapshot, whatever suffix follows.
const (
	versionDir     = "version-2"
	logPrefix      = "log."
	snapshotPrefix = "snapshot."
	tmpPrefix      = "tmp."
	lockName       = "pinfold.lock"
)

// The magic numbers and the version of both kinds of file, and the bytes around the
// payload of a log entry: checksum (8), length (4), end byte (1).
const (
	logMagic      = 0x5A4B4C47 // "ZKLG"
	snapshotMagic = 0x5A4B534E // "ZKSN"
	fileVersion   = 2
	headerBytes   = 16 // magic 4, version 4, dbid 8
	prefixBytes   = 12 // checksum 8, length 4
	frameBytes    = prefixBytes + 1
	entryEnd      = 'B'
	txnHeadBytes  = 32
	txnCxidOffset = 8
	txnZxidOffset = 12
	txnTypeOffset = 28
)

// appendFileHeader appends the 16 bytes at the start of a file.
func appendFileHeader(b []byte, magic uint32, dbid int64) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, fileVersion)
	return binary.BigEndian.AppendUint64(b, uint64(dbid))
}

// payloadZxid returns the zxid in the TxnHeader of a payload of at least
// txnHeadBytes.
func payloadZxid(payload []byte) zk.Zxid {
	return zk.Zxid(binary.BigEndian.Uint64(payload[txnZxidOffset:]))
}

// follows reports whether next may come right after last: it has the next counter, or
// is the first of a newer epoch. After 0 anything may follow.
func follows(last, next zk.Zxid) bool {
	if next.Epoch() > last.Epoch() {
		return next.Counter() == 1
	}
	return next == last+1
}

// numbered is a file whose name carries a zxid.
type numbered struct {
	name string // without directory
	zxid zk.Zxid
}

// parseHex reads the zxid of a file name: lower-case hexadecimal digits without
// padding, at most 16. ok is false for anything else.
func parseHex(s string) (z zk.Zxid, ok bool) {
	v, err := strconv.ParseUint(s, 16, 63)
	if err != nil || zk.Zxid(v).Hex() != s {
		return 0, false
	}
	return zk.Zxid(v), true
}

// listLogs returns the log files of a directory, oldest first.
func listLogs(fsys vfs.FS, dir string) ([]numbered, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("storage: list %s: %w", dir, err)
	}
	var logs []numbered
	for _, name := range names {
		if hex, ok := strings.CutPrefix(name, logPrefix); ok {
			if z, ok := parseHex(hex); ok {
				logs = append(logs, numbered{name, z})
			}
		}
	}
	slices.SortFunc(logs, func(a, b numbered) int {
		switch {
		case a.zxid < b.zxid:
			return -1
		case a.zxid > b.zxid:
			return 1
		}
		return 0
	})
	return logs, nil
}
