package kerberos

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The two bytes in front of a Kerberos message (RFC 4121, section 4.1).
var (
	idRequest = []byte{1, 0}
	idReply   = []byte{2, 0}
	idError   = []byte{3, 0}
)

// mechanism is the object identifier of Kerberos 5, encoded.
var mechanism = []byte{0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02}

// framed is the frame of an initial token (RFC 2743, section 3.1).
const framed = 0x60

// Begins reports whether a client's first token is one of this mechanism. It says nothing
// about the rest of the token.
func Begins(token []byte) bool { return len(token) > 0 && token[0] == framed }

// frame puts a message into the frame of an initial token.
func frame(id, message []byte) []byte {
	return asn1tools.AddASNAppTag(bytes.Join([][]byte{mechanism, id, message}, nil), 0)
}

// unframe returns the message of a token with that id.
func unframe(token, id []byte) ([]byte, error) {
	var raw asn1.RawValue
	rest, err := asn1.Unmarshal(token, &raw)
	if err != nil || len(rest) > 0 || len(token) == 0 || token[0] != framed {
		return nil, refused("a token that is none of GSSAPI")
	}
	b, ok := bytes.CutPrefix(raw.Bytes, mechanism)
	if !ok {
		return nil, refused("a token of another mechanism than Kerberos 5")
	}
	if bytes.HasPrefix(b, idError) && !bytes.Equal(id, idError) {
		return nil, peerError(b[len(idError):])
	}
	if b, ok = bytes.CutPrefix(b, id); !ok {
		return nil, refused("a token of Kerberos that is not due")
	}
	return b, nil
}

// peerError is the error that a KRB-ERROR message reports.
func peerError(b []byte) error {
	var e messages.KRBError
	if guard("error message", func() error { return e.Unmarshal(b) }) != nil {
		return refused("the peer reports an error that cannot be decoded")
	}
	return refused("the peer reports error %d of Kerberos", e.ErrorCode)
}

// decodeRequest reads the client's first token.
func decodeRequest(token []byte, q *messages.APReq) error {
	b, err := unframe(token, idRequest)
	if err != nil {
		return err
	}
	if err := guard("AP-REQ", func() error { return q.Unmarshal(b) }); err != nil {
		return refused("the AP-REQ cannot be decoded")
	}
	return nil
}

// Flags of a context, in the authenticator's checksum (RFC 4121, section 4.1.1).
const (
	flagMutual    = 2
	flagReplay    = 4
	flagSequence  = 8
	flagIntegrity = 32
)

// checksum is the authenticator's checksum: no channel is bound, and the flags.
func checksum(flags uint32) types.Checksum {
	b := make([]byte, 24)
	binary.LittleEndian.PutUint32(b, 16)
	binary.LittleEndian.PutUint32(b[20:], flags)
	return types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: b}
}

// contextFlags reads the flags. As with Java and MIT, an authenticator without the checksum is
// none of GSSAPI.
func contextFlags(a *types.Authenticator) (uint32, error) {
	if a.Cksum.CksumType != chksumtype.GSSAPI || len(a.Cksum.Checksum) < 24 {
		return 0, refused("the authenticator has no checksum of GSSAPI")
	}
	return binary.LittleEndian.Uint32(a.Cksum.Checksum[20:]), nil
}

// reply returns the AP-REP to a request that is verified: it proves that the server knows
// its key, and carries a fresh key, so that a recorded answer of the client is worthless
// with another exchange.
func reply(q *messages.APReq) (token []byte, s secret, seq uint64, err error) {
	key := newKey(q.Ticket.DecryptedEncPart.Key.KeyType)
	var b [4]byte
	rand.Read(b[:]) // never fails
	seq = uint64(binary.BigEndian.Uint32(b[:]) >> 2)
	part, err := asn1.Marshal(messages.EncAPRepPart{CTime: q.Authenticator.CTime.UTC(), Cusec: q.Authenticator.Cusec, Subkey: key, SequenceNumber: int64(seq)})
	if err != nil {
		return nil, s, 0, err
	}
	part = asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart)
	sealed, err := crypto.GetEncryptedData(part, q.Ticket.DecryptedEncPart.Key, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, s, 0, err
	}
	message, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, s, 0, err
	}
	return frame(idReply, asn1tools.AddASNAppTag(message, asnAppTag.APREP)), secret{key: key, acceptor: true}, seq, nil
}

// checkReply verifies the server's AP-REP to an authenticator, and returns the subkey in
// it; that has no value if there is none.
func checkReply(token []byte, session types.EncryptionKey, a *types.Authenticator) (subkey types.EncryptionKey, err error) {
	b, err := unframe(token, idReply)
	if err != nil {
		return subkey, err
	}
	var reply messages.APRep
	var part messages.EncAPRepPart
	err = guard("AP-REP", func() error {
		if err := reply.Unmarshal(b); err != nil {
			return err
		}
		plain, err := crypto.DecryptEncPart(reply.EncPart, session, keyusage.AP_REP_ENCPART)
		if err != nil {
			return err
		}
		return part.Unmarshal(plain)
	})
	switch {
	case err != nil:
		return subkey, refused("the AP-REP of the server cannot be decoded")
	case part.Cusec != a.Cusec || !part.CTime.Equal(a.CTime.Truncate(time.Second)):
		return subkey, refused("the AP-REP answers another request")
	case len(part.Subkey.KeyValue) > 0 && !usable(part.Subkey):
		return subkey, refused("encryption type %d of the server's subkey is not accepted", part.Subkey.KeyType)
	}
	return part.Subkey, nil
}
