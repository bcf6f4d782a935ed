package kerberos

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The negotiation of the security layer (RFC 4752, section 3.1): the server offers layers,
// the client chooses one and may add an identity. ZooKeeper uses none: what follows the
// login is not signed.
const (
	layerNone   = 1
	layerBytes  = 4
	maxMessage  = 65536 // what Java's servers offer as the largest message of a layer
	maxIdentity = 4096  // bytes of the identity in the client's choice
)

// Flags of a wrap token (RFC 4121, section 4.2.2).
const (
	flagAcceptor = 1
	flagSealed   = 2
	flagSubkey   = 4 // the acceptor's subkey is used
)

// secret is the key of a context and whose subkey it is.
type secret struct {
	key      types.EncryptionKey
	acceptor bool // it is the acceptor's subkey
}

// keySizes are the accepted encryption types, those with wrap tokens of RFC 4121, and the
// lengths of their keys. The older types, DES and RC4, are refused.
var keySizes = map[int32]int{
	etypeID.AES128_CTS_HMAC_SHA1_96:    16,
	etypeID.AES256_CTS_HMAC_SHA1_96:    32,
	etypeID.AES128_CTS_HMAC_SHA256_128: 16,
	etypeID.AES256_CTS_HMAC_SHA384_192: 32,
}

// strong reports whether the encryption type is accepted.
func strong(etype int32) bool { return keySizes[etype] > 0 }

// usable checks a key from outside.
func usable(key types.EncryptionKey) bool {
	return strong(key.KeyType) && len(key.KeyValue) == keySizes[key.KeyType]
}

// newKey returns a random key of an accepted encryption type.
func newKey(etype int32) types.EncryptionKey {
	key := types.EncryptionKey{KeyType: etype, KeyValue: make([]byte, keySizes[etype])}
	rand.Read(key.KeyValue) // never fails
	return key
}

// wrap signs a message of the acceptor or the initiator.
func (s secret) wrap(payload []byte, seq uint64, byAcceptor bool) ([]byte, error) {
	et, err := crypto.GetEtype(s.key.KeyType)
	if err != nil {
		return nil, err
	}
	w := gssapi.WrapToken{EC: uint16(et.GetHMACBitLength() / 8), SndSeqNum: seq, Payload: payload, Flags: s.flags(byAcceptor)}
	if err := w.SetCheckSum(s.key, usage(byAcceptor)); err != nil {
		return nil, err
	}
	return w.Marshal()
}

func (s secret) flags(byAcceptor bool) (flags byte) {
	if byAcceptor {
		flags |= flagAcceptor
	}
	if s.acceptor {
		flags |= flagSubkey
	}
	return flags
}

func usage(byAcceptor bool) uint32 {
	if byAcceptor {
		return keyusage.GSSAPI_ACCEPTOR_SEAL
	}
	return keyusage.GSSAPI_INITIATOR_SEAL
}

// unwrap checks a signed message and returns it.
func (s secret) unwrap(token []byte, byAcceptor bool) (payload []byte, err error) {
	var w gssapi.WrapToken
	if len(token) > gssapi.HdrLen+layerBytes+maxIdentity+64 {
		return nil, refused("wrap token of %d bytes", len(token))
	}
	token = append([]byte(nil), token...)
	if len(token) >= gssapi.HdrLen {
		rotate(token[gssapi.HdrLen:], int(binary.BigEndian.Uint16(token[6:])))
	}
	if err := w.Unmarshal(token, byAcceptor); err != nil {
		return nil, refused("wrap token: %v", err)
	}
	if w.Flags != s.flags(byAcceptor) {
		return nil, refused("wrap token with flags %#x, want %#x", w.Flags, s.flags(byAcceptor))
	}
	if ok, err := w.Verify(s.key, usage(byAcceptor)); !ok || err != nil {
		return nil, refused("the checksum of the wrap token is wrong")
	}
	return w.Payload, nil
}

// rotate undoes a right rotation by n bytes.
func rotate(b []byte, n int) {
	if len(b) == 0 {
		return
	}
	n %= len(b)
	copy(b, append(append([]byte(nil), b[n:]...), b[:n]...))
}

// offer is the server's message: no layer, and the largest message that Java's server
// names.
func offer() []byte { return []byte{layerNone, maxMessage >> 16, 0, 0} }

// choose answers the server's offer.
func choose(offered []byte, identity string) ([]byte, error) {
	if len(offered) != layerBytes || offered[0]&layerNone == 0 {
		return nil, refused("the server wants a security layer")
	}
	return append([]byte{layerNone, 0, 0, 0}, identity...), nil
}

// chosen reads the client's choice.
func chosen(payload []byte) (identity string, err error) {
	switch {
	case len(payload) < layerBytes || len(payload) > layerBytes+maxIdentity:
		return "", refused("choice of a security layer with %d bytes", len(payload))
	case payload[0] != layerNone:
		return "", refused("the client chooses security layer %d, which was not offered", payload[0])
	}
	return string(payload[layerBytes:]), nil
}
