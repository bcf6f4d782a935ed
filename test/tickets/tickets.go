// Package tickets issues Kerberos tickets for tests, without a KDC: a key table for a
// server, and ticket caches for its clients.
package tickets

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// The server that has the keys.
const (
	Realm   = "EXAMPLE.COM"
	Service = "zookeeper/host.example.com"
	Version = 3 // of its keys
)

// Etypes are the encryption types of the keys: AES, and RC4 as the last one.
var Etypes = []int32{17, 18, 19, 20, 23}

var keySizes = map[int32]int{17: 16, 18: 32, 19: 16, 20: 32, 23: 16}

// Issue says what a ticket contains, and how it is sealed.
type Issue struct {
	Client, Realm        string
	Service, ServerRealm string
	Etype                int32
	Keys                 *keytab.Keytab
	Version              int
	From, Till           time.Duration // since now
	Transited            string
	Flags                []int
}

// A Ticket is what a client gets from a KDC.
type Ticket struct {
	messages.Ticket
	Issue
	Key  types.EncryptionKey
	Name types.PrincipalName // the client
	From time.Time
	Till time.Time
}

// serviceKeys are made once: each takes thousands of hashes.
var serviceKeys = sync.OnceValue(func() *keytab.Keytab {
	keys := keytab.New()
	for _, e := range Etypes {
		if err := keys.AddEntry(Service, Realm, "secret", time.Now(), Version, e); err != nil {
			panic(err)
		}
	}
	return keys
})

// Keys returns the server's keys, which the caller may change.
func Keys() *keytab.Keytab {
	keys := keytab.New()
	keys.Entries = append(keys.Entries, serviceKeys().Entries...)
	return keys
}

// Read returns the keys of a key table's file.
func Read(t testing.TB, file string) *keytab.Keytab {
	t.Helper()
	keys, err := keytab.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Write writes a key table to a file.
func Write(t testing.TB, file string, keys *keytab.Keytab) {
	t.Helper()
	b, err := keys.Marshal()
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Keytab writes the server's key table to a file of the test and returns its name.
func Keytab(t testing.TB) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keytab")
	Write(t, file, Keys())
	return file
}

// New issues a ticket for bob/admin, as change alters it; nil changes nothing.
func New(t testing.TB, change func(*Issue)) Ticket {
	t.Helper()
	i := Issue{
		Client: "bob/admin", Realm: Realm, Service: Service, ServerRealm: Realm,
		Etype: 18, Keys: serviceKeys(), Version: Version, From: -time.Minute, Till: time.Hour,
	}
	if change != nil {
		change(&i)
	}
	now := time.Now().UTC()
	k := Ticket{
		Issue: i, Name: types.NewPrincipalName(1, i.Client), From: now.Add(i.From), Till: now.Add(i.Till),
		Key: types.EncryptionKey{KeyType: i.Etype, KeyValue: make([]byte, keySizes[i.Etype])},
	}
	rand.Read(k.Key.KeyValue) // never fails
	part := messages.EncTicketPart{
		Flags: types.NewKrbFlags(), Key: k.Key, CRealm: i.Realm, CName: k.Name,
		AuthTime: k.From, StartTime: k.From, EndTime: k.Till, RenewTill: k.Till,
	}
	types.SetFlags(&part.Flags, i.Flags)
	if i.Transited != "" {
		part.Transited = messages.TransitedEncoding{TRType: 1, Contents: []byte(i.Transited)}
	}
	b, err := asn1.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	service := types.NewPrincipalName(1, i.Service)
	key, _, err := i.Keys.GetEncryptionKey(service, i.ServerRealm, i.Version, i.Etype)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(b, asnAppTag.EncTicketPart), key, keyusage.KDC_REP_TICKET, i.Version)
	if err != nil {
		t.Fatal(err)
	}
	k.Ticket = messages.Ticket{TktVNO: 5, Realm: i.ServerRealm, SName: service, EncPart: sealed}
	return k
}

// Request returns the first token of a login with the ticket, without mutual authentication,
// by a client whose clock shows at.
func (k Ticket) Request(t testing.TB, at time.Time) []byte {
	t.Helper()
	auth, err := types.NewAuthenticator(k.Issue.Realm, k.Name)
	if err != nil {
		t.Fatal(err)
	}
	auth.CTime, auth.Cusec = at.UTC().Truncate(time.Second), at.Nanosecond()/1000
	const gssapi, sequence = 0x8003, 8 // RFC 4121, section 4.1.1
	auth.Cksum = types.Checksum{CksumType: gssapi, Checksum: append([]byte{16, 19: 0}, sequence, 0, 0, 0)}
	q, err := messages.NewAPReq(k.Ticket, k.Key, auth)
	if err != nil {
		t.Fatal(err)
	}
	b, err := q.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	mechanism := []byte{0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x12, 0x01, 0x02, 0x02}
	return asn1tools.AddASNAppTag(append(append(mechanism, 1, 0), b...), 0)
}

// Cache writes a ticket cache with these tickets, of one client, to a file of the test and
// returns its name.
func Cache(t testing.TB, tickets ...Ticket) (file string) {
	t.Helper()
	b := []byte{5, 4, 0, 0}
	number := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	data := func(s string) {
		number(len(s))
		b = append(b, s...)
	}
	principal := func(name, realm string) {
		parts := strings.Split(name, "/")
		number(1)
		number(len(parts))
		data(realm)
		for _, p := range parts {
			data(p)
		}
	}
	principal(tickets[0].Client, tickets[0].Issue.Realm)
	for _, k := range tickets {
		sealed, err := k.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		principal(k.Client, k.Issue.Realm)
		principal(k.Service, k.ServerRealm)
		b = binary.BigEndian.AppendUint16(b, uint16(k.Key.KeyType))
		data(string(k.Key.KeyValue))
		for _, at := range []time.Time{k.From, k.From, k.Till, k.Till} {
			number(int(at.Unix()))
		}
		b = append(b, 0, 0, 0, 0, 0) // no user-to-user, no flags
		number(0)                    // addresses
		number(0)                    // authorization data
		data(string(sealed))
		data("")
	}
	file = filepath.Join(t.TempDir(), "krb5cc")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Config writes a krb5.conf whose KDC does not answer to a file of the test and returns
// its name.
func Config(t testing.TB) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "krb5.conf")
	text := fmt.Sprintf("[libdefaults]\n default_realm = %s\n dns_lookup_kdc = false\n[realms]\n %s = {\n  kdc = 127.0.0.1:1\n }\n", Realm, Realm)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
