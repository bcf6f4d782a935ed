package bench

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Transaction ids of frames that answer no request of a script.
const (
	xidEvent int32 = -1
	xidPing  int32 = -2
)

const (
	frameXid    = 4  // offset of a request's xid: after the frame's length
	requestHead = 12 // length, xid, type
	replyHead   = 20 // length, xid, zxid, err
	statBytes   = 68

	// addWatch is answered with an error code in the body, beside the header's.
	errorResponseBytes = 4

	keyDigits = 9 // width of the number at the end of a numbered path
)

// A frame is a whole request, encoded once and sent many times. Its xid is
// filled in where it is copied to; its key, the decimal number at the end of
// its path, is overwritten in place between two sends.
type frame struct {
	b   []byte
	key int // where the number starts; 0 if the path has none
}

// number writes n into the path. Higher digits than keyDigits are dropped.
func (f frame) number(n uint64) {
	digits := f.b[f.key : f.key+keyDigits]
	for i := keyDigits - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
}

// A path names the znode of a request: prefix itself or, if numbered, prefix
// and keyDigits digits.
type path struct {
	prefix   string
	numbered bool
}

// at returns the path that a frame for p has after number(n).
func (p path) at(n uint64) string {
	if !p.numbered {
		return p.prefix
	}
	return fmt.Sprintf("%s%0*d", p.prefix, keyDigits, n)
}

// makeFrame encodes a request with header and length around what body appends.
// The body begins with the path p.
func makeFrame(op wire.OpCode, p path, body func(b []byte, path string) []byte) frame {
	b := wire.RequestHeader{Op: op}.Append(make([]byte, 4))
	f := frame{b: body(b, p.at(0))}
	jute.PutInt(f.b, int32(len(f.b)-4))
	if p.numbered {
		f.key = requestHead + 4 + len(p.prefix)
	}
	return f
}

func readFrame(op wire.OpCode, p path, watch bool) frame {
	return makeFrame(op, p, func(b []byte, path string) []byte {
		r := wire.PathWatch{Path: path, Watch: watch}
		return r.Append(b)
	})
}

func setDataFrame(p path, data []byte) frame {
	return makeFrame(wire.OpSetData, p, func(b []byte, path string) []byte {
		r := wire.SetDataRequest{Path: path, Data: data, Version: -1}
		return r.Append(b)
	})
}

func createFrame(p path, data []byte) frame {
	return makeFrame(wire.OpCreate, p, func(b []byte, path string) []byte {
		r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe()}
		return r.Append(b, wire.OpCreate)
	})
}

func deleteFrame(p path) frame {
	return makeFrame(wire.OpDelete, p, func(b []byte, path string) []byte {
		r := wire.PathVersion{Path: path, Version: -1}
		return r.Append(b)
	})
}

func syncFrame(p path) frame { return makeFrame(wire.OpSync, p, jute.AppendString) }

func addWatchFrame(p path, mode zk.AddWatchMode) frame {
	return makeFrame(wire.OpAddWatch, p, func(b []byte, path string) []byte {
		r := wire.PathInt{Path: path, Value: int32(mode)}
		return r.Append(b)
	})
}

// bareFrame is a request that is only a header: ping and closeSession.
func bareFrame(op wire.OpCode, xid int32) frame {
	b := jute.AppendInt(nil, requestHead-4)
	return frame{b: wire.RequestHeader{Xid: xid, Op: op}.Append(b)}
}

// fixedValue returns n bytes that look random and are the same in every run, so
// that neither side gains by compressing them and runs are alike.
func fixedValue(n int) []byte {
	b := make([]byte, n)
	r := rng(0x9e3779b97f4a7c15)
	for i := range b {
		b[i] = byte(r.next() >> 32)
	}
	return b
}

// An rng is a xorshift generator: a choice costs a nanosecond. It must not be 0.
type rng uint64

func (r *rng) next() uint64 {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = rng(x)
	return x
}

// below returns a number in [0, n); n must fit 32 bits.
func (r *rng) below(n uint64) uint64 { return (r.next() >> 32) * n >> 32 }
