package peerauth

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
)

// A packet of a login, in both directions:
//
//	long magic | int status | buffer token
//
// It has no length of its own. The token is null, -1, where a mechanism has nothing to
// say; that is not the same as an empty one.
type packet struct {
	status status
	token  []byte // nil: null
}

// magic begins every packet. No packet of the quorum protocol and no frame of the
// election protocol begins with it.
const magic = 0x5F243501_3501EDCC

type status int32

// The status of a login.
const (
	refused    status = -1
	inProgress status = 0
	success    status = 1
)

// maxTokenBytes is the longest token that is read, of any mechanism.
const maxTokenBytes = kerberos.MaxTokenBytes

// headBytes is the length of magic, status and the token's length.
const headBytes = 8 + 4 + 4

// IsLogin reports whether the bytes with which a connection begins are those of a login.
// REQUIRES: at least 8 bytes.
func IsLogin(head []byte) bool { return binary.BigEndian.Uint64(head) == magic }

// ErrOff is the reason to refuse a login where none is expected.
var ErrOff = errors.New("the other server logs in, which is not expected here: this server needs quorum.auth.enableSasl=true")

// MayBeLogin reports whether the first four bytes of a connection may be those of a login.
func MayBeLogin(first uint32) bool { return first == magic>>32 }

// write sends the packet in one piece.
func (p packet) write(w io.Writer) error {
	b := jute.AppendLong(make([]byte, 0, headBytes+len(p.token)), magic)
	b = jute.AppendInt(b, int32(p.status))
	if _, err := w.Write(jute.AppendBuffer(b, p.token)); err != nil {
		return fmt.Errorf("peerauth: write: %w", err)
	}
	return nil
}

// readPacket reads one packet and nothing after it. The announced length alone allocates
// nothing.
func readPacket(r io.Reader) (packet, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return packet{}, fmt.Errorf("peerauth: read: %w", err)
	}
	if !IsLogin(head[:]) {
		return packet{}, fmt.Errorf("%w: %x is not the start of a packet of a login", ErrRefused, head[:8])
	}
	p := packet{status: status(int32(binary.BigEndian.Uint32(head[8:])))}
	size := int32(binary.BigEndian.Uint32(head[12:]))
	switch {
	case size == -1:
		return p, nil
	case size < -1 || size > maxTokenBytes:
		return packet{}, fmt.Errorf("%w: a token of %d bytes, the limit is %d", ErrRefused, size, maxTokenBytes)
	}
	var token bytes.Buffer
	if _, err := io.CopyN(&token, r, int64(size)); err != nil {
		return packet{}, fmt.Errorf("peerauth: read a token of %d bytes: %w", size, err)
	}
	if p.token = token.Bytes(); p.token == nil {
		p.token = []byte{}
	}
	return p, nil
}
