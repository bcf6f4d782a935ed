package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// logEnd is the meaning of a place without a valid entry.
type logEnd int

const (
	endClean   logEnd = iota // zeros or nothing follow: the file ends here
	endTorn                  // a crash has interrupted the last write
	endDamaged               // no crash explains it
)

// breakage is a place in a log file where no valid entry (or header) begins.
//
// A crash that interrupts a write leaves each of its sectors either written or as it
// was, which in a log is zero; or it leaves a shorter file. So a hole (a sector of
// zeros within an entry) marks a torn write. The same is true if the data ends within
// the entry, because a write that is cut short without a power failure leaves its front
// part. A flipped bit leaves no hole.
//
// A hole alone proves nothing, since a payload may contain zeros: if one flipped bit
// would make the entry valid, it is damage in any case. And since at most maxWriteBytes
// are ever unsynced, a torn write leaves nothing far after the first hole. A hole in
// what had been synced looks the same; LogReader.endOfLog detects that.
type breakage struct {
	file     io.ReaderAt
	at       int64
	size     int64 // of the file
	maxEntry int
	last     bool    // it is the last file of the log
	foreign  bool    // another program wrote the log: what it synced is not known
	before   zk.Zxid // of the last valid entry before it, 0 if there is none
}

// judge returns what the breakage means and, unless it is a clean end, the reason.
func (b breakage) judge() (end logEnd, reason string, err error) {
	tail, lastByte, ones, err := b.scan()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return endDamaged, "the file became shorter while it was read: a server has ended it, and may have written to it before", nil
	case err != nil:
		return 0, "", err
	case b.at == 0:
		return b.judgeHeader(tail, lastByte)
	case lastByte < 0:
		return endClean, "", nil
	case !b.last:
		return endDamaged, "no valid entry begins here, the log goes on in the next file", nil
	case lastByte-b.at >= b.window():
		return endDamaged, fmt.Sprintf("no valid entry begins here, but there is data up to byte %d, "+
			"more than one write can have left unfinished", lastByte), nil
	case ones == 1:
		return endTorn, fmt.Sprintf("a single bit is set in the zeros after the last entry, at byte %d", lastByte), nil
	}
	if offset, what := b.flippedBit(tail); what != "" {
		return endDamaged, fmt.Sprintf("the entry is valid but for one flipped bit in its %s, at byte %d",
			what, b.at+offset), nil
	}
	if offset := b.hole(tail, lastByte); offset >= 0 {
		return b.judgeHole(tail, b.at+offset)
	}
	return endDamaged, "the entry is complete but its checksum, length or end is wrong", nil
}

// judgeHole is judge for an entry that lacks the byte at hole. Valid entries after it
// belong to the same write as the hole, or to a later write, which began after the hole
// was synced. The mark of Dir tells which. A log that another program wrote has no
// mark: there, entries after a hole mean damage, because cutting them off could lose
// acknowledged transactions.
func (b breakage) judgeHole(tail []byte, hole int64) (logEnd, string, error) {
	reason := fmt.Sprintf("the last write is incomplete from byte %d on", hole)
	next, zxid := b.nextEntry(tail[hole-b.at:])
	if zxid == 0 {
		return endTorn, reason, nil
	}
	next += hole
	if !b.foreign {
		return endTorn, fmt.Sprintf("%s; it went on with %v at byte %d", reason, zxid, next), nil
	}
	return endDamaged, fmt.Sprintf("byte %d begins a sector that is zero, and valid transactions follow, the first is %v at byte %d. "+
		"Restore the file; or, if the machine lost power while the server was writing, cut the file off: truncate -s %d",
		hole, zxid, next, b.at), nil
}

// nextEntry looks for a valid entry that may belong to the log. It returns its offset
// in tail and its zxid; the zxid is 0 if there is none.
func (b breakage) nextEntry(tail []byte) (offset int64, zxid zk.Zxid) {
	for i := 0; i+frameBytes+txnHeadBytes <= len(tail); i++ {
		e := tail[i:]
		if binary.BigEndian.Uint32(e) != 0 { // the upper half of the checksum
			continue
		}
		n := binary.BigEndian.Uint32(e[8:])
		p, ok := b.framed(e, n)
		if !ok || e[prefixBytes+n] != entryEnd {
			continue
		}
		z := payloadZxid(p)
		if z <= b.before || uint64(sumAdler(adlerInit, p)) != binary.BigEndian.Uint64(e) {
			continue
		}
		return int64(i), z
	}
	return 0, 0
}

// judgeHeader is judge for a file that does not begin with a log's header. Apache
// writes the header before it syncs anything, so a crash may leave the last file empty,
// cut within the header, or with zeros in place of the header.
func (b breakage) judgeHeader(tail []byte, lastByte int64) (logEnd, string, error) {
	header := appendFileHeader(nil, logMagic, 0)
	switch {
	case lastByte < 0 && b.last:
		return endTorn, "the file has no content", nil
	case lastByte < 0:
		return endDamaged, "the file has no content, the log goes on in the next file", nil
	case b.last && b.size < headerBytes && string(tail) == string(header[:len(tail)]):
		return endTorn, "the file ends within its header", nil
	case b.last && lastByte < b.window() && allZero(tail[:min(len(tail), vfs.SectorBytes)]):
		return endTorn, "the first sector of the file was never written", nil
	}
	return endDamaged, "this is not the header of a transaction log of version 2", nil
}

// window is how many bytes, from the first invalid entry on, one write may cover.
func (b breakage) window() int64 { return max(maxWriteBytes, int64(b.maxEntry)+frameBytes) }

// scan reads the file from the breakage on. It returns the part that one write may
// cover, the offset of the last byte that is not zero (-1 if there is none), and the
// number of bits that are set (counted only far enough to tell one from many). The error is io.ErrUnexpectedEOF if the
// file is shorter than it was.
func (b breakage) scan() (tail []byte, lastByte int64, ones int, err error) {
	lastByte = -1
	tail = make([]byte, 0, min(b.window(), b.size-b.at))
	chunk := make([]byte, min(windowBytes, b.size-b.at))
	for off := b.at; off < b.size; {
		n, err := b.file.ReadAt(chunk[:min(int64(len(chunk)), b.size-off)], off)
		if n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, 0, 0, err
		}
		part := chunk[:n]
		tail = append(tail, part[:min(n, cap(tail)-len(tail))]...)
		if !allZero(part) {
			for i, x := range part {
				if x != 0 {
					lastByte = off + int64(i)
					ones += bits.OnesCount8(x)
				}
			}
		}
		off += int64(n)
	}
	return tail, lastByte, ones, nil
}

func allZero(p []byte) bool {
	for len(p) >= 8 {
		if binary.LittleEndian.Uint64(p) != 0 {
			return false
		}
		p = p[8:]
	}
	for _, x := range p {
		if x != 0 {
			return false
		}
	}
	return true
}

// flippedBit looks for a single bit whose change makes the entry at the front of tail
// valid. It returns the offset of its byte, and the field that the byte belongs to; ""
// if there is no such bit.
func (b breakage) flippedBit(tail []byte) (offset int64, what string) {
	if len(tail) < prefixBytes {
		return 0, ""
	}
	want, n := binary.BigEndian.Uint64(tail), binary.BigEndian.Uint32(tail[8:])
	for i := range 32 {
		m := n ^ 1<<i
		if p, ok := b.framed(tail, m); ok && tail[prefixBytes+m] == entryEnd &&
			uint64(sumAdler(adlerInit, p)) == want {
			return 11 - int64(i/8), "length"
		}
	}
	p, ok := b.framed(tail, n)
	if !ok {
		return 0, ""
	}
	sum := sumAdler(adlerInit, p)
	end := tail[prefixBytes+n]
	if uint64(sum) == want {
		return int64(prefixBytes + n), oneBit("end byte", uint64(end^entryEnd))
	}
	if end != entryEnd {
		return 0, ""
	}
	if diff := uint64(sum) ^ want; bits.OnesCount64(diff) == 1 {
		return 7 - int64(bits.TrailingZeros64(diff)/8), "checksum"
	}
	if i := flippedByte(p, sum, want); i >= 0 {
		return int64(prefixBytes + i), "payload"
	}
	return 0, ""
}

func oneBit(what string, diff uint64) string {
	if bits.OnesCount64(diff) == 1 {
		return what
	}
	return ""
}

// framed returns the payload of n bytes in tail; ok is false if it does not fit.
func (b breakage) framed(tail []byte, n uint32) ([]byte, bool) {
	if n < txnHeadBytes || int64(n) > int64(b.maxEntry) || int64(n)+frameBytes > int64(len(tail)) {
		return nil, false
	}
	return tail[prefixBytes : prefixBytes+n], true
}

// flippedByte returns the index of a byte of p that has one bit whose change turns the
// checksum sum into want; -1 if there is none. p has the Adler-32 sum. To change byte i
// by d adds d to the first half of the checksum and d·(len(p)-i) to the second.
func flippedByte(p []byte, sum uint32, want uint64) int {
	if want > 0xffffffff {
		return -1
	}
	mod := func(v int64) int64 { return (v%adlerMod + adlerMod) % adlerMod }
	d1 := mod(int64(want&0xffff) - int64(sum&0xffff))
	d2 := mod(int64(want>>16) - int64(sum>>16))
	for i, x := range p {
		for bit := range 8 {
			d := int64(1) << bit
			if x&(1<<bit) != 0 {
				d = -d
			}
			if mod(d) == d1 && mod(d*int64(len(p)-i)) == d2 {
				return i
			}
		}
	}
	return -1
}

// hole returns the offset in tail of the first bytes that the entry at its front lacks:
// a sector, or the entry's part of one, that is zero; or everything from the end of the
// file's data on. It returns -1 if the entry lacks nothing.
func (b breakage) hole(tail []byte, lastByte int64) int64 {
	end := int64(prefixBytes)
	if len(tail) >= prefixBytes {
		n := binary.BigEndian.Uint32(tail[8:])
		if n >= txnHeadBytes && int64(n) <= int64(b.maxEntry) {
			end = int64(n) + frameBytes
		}
	}
	// A write that is cut short by a full disk or a kill need not end at a sector.
	if written := lastByte + 1 - b.at; written < end {
		return written
	}
	for off := int64(0); off < end; {
		next := off + vfs.SectorBytes - (b.at+off)%vfs.SectorBytes
		// The first four bytes of an entry are always zero.
		if next > 4 && allZero(tail[off:min(next, int64(len(tail)))]) {
			return off
		}
		off = next
	}
	return -1
}
