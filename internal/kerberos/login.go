package kerberos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	krb5 "github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// enctypes are what a client asks for if krb5.conf does not say: what has wrap tokens of
// RFC 4121.
var enctypes = []string{"aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96", "aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128"}

// numbers returns the numbers of those encryption types that this package accepts.
func numbers(names []string) (list []int32) {
	for _, n := range names {
		if id := etypeID.EtypeSupported(n); strong(id) {
			list = append(list, id)
		}
	}
	return list
}

// Credentials are the identity of a client, and where the proof of it is.
type Credentials struct {
	// Principal is NAME@REALM or NAME/HOST@REALM. Without a realm it is of the default
	// realm. Empty with a ticket cache means the cache's.
	Principal string
	// Keytab is a file with keys of the principal. Empty means a ticket cache.
	Keytab string
	// Cache is the file of a ticket cache, which kinit makes. Empty means that of the
	// environment variable KRB5CCNAME, or else /tmp/krb5cc_UID.
	Cache string
	// Config is krb5.conf. Empty means as ReadSettings finds it.
	Config string
	// Realm and KDCs override what krb5.conf says (Settings.Override).
	Realm string
	KDCs  []string
}

// A Login gets tickets for the services that a client talks to. It asks the KDC at the
// first exchange with a service, and again when four fifths of a ticket's lifetime are
// over: so with a key table it is renewed for ever. A ticket cache is read again when its
// tickets end, since kinit renews it. A Login has no goroutine between exchanges. It is
// safe for concurrent use.
type Login struct {
	cred     Credentials
	settings *Settings
	turn     chan struct{} // has one token: one goroutine at a time talks to the KDC
	mu       struct {
		sync.Mutex
		tickets map[string]ticket // by the service's principal
	}
	tgt    ticket // owned by the holder of turn, as is agent
	agent  *krb5.Client
	keys   *keyFile
	client string // the principal
}

// ticket is a ticket with its key.
type ticket struct {
	messages.Ticket
	key  types.EncryptionKey
	name types.PrincipalName // the client
	of   string              // the client's realm
	from time.Time
	till time.Time
}

// fresh reports whether most of the ticket's lifetime is left.
func (t *ticket) fresh(now time.Time) bool { return now.Before(t.from.Add(t.till.Sub(t.from) / 5 * 4)) }

// usable reports whether the ticket is valid for some seconds at least.
func (t *ticket) usable(now time.Time) bool { return now.Add(5 * time.Second).Before(t.till) }

// NewLogin checks the credentials as far as that needs no KDC: krb5.conf, the key table
// or the ticket cache must be readable.
func NewLogin(c Credentials) (*Login, error) {
	settings, err := ReadSettings(c.Config)
	if err != nil {
		return nil, err
	}
	settings.Override(c.Realm, c.KDCs)
	l := &Login{cred: c, settings: settings, turn: make(chan struct{}, 1)}
	l.mu.tickets = map[string]ticket{}
	if c.Keytab != "" {
		name, realm, err := parsePrincipal(c.Principal, settings.Realm())
		if err != nil {
			return nil, err
		}
		l.client = text(name, realm)
		if l.keys, err = openKeys(c.Keytab, slog.New(slog.DiscardHandler)); err != nil {
			return nil, err
		}
		if !holds(l.keys.table(), l.client) {
			return nil, fmt.Errorf("kerberos: keytab: %s has no key of %s: add it with kadmin's ktadd", c.Keytab, l.client)
		}
	} else if err := l.openCache(); err != nil {
		return nil, err
	}
	return l, nil
}

// Principal returns the client's principal.
func (l *Login) Principal() string { return l.client }

// cacheFile finds the ticket cache.
func cacheFile(name string) (string, error) {
	if name == "" {
		name = os.Getenv("KRB5CCNAME")
	}
	if name == "" {
		name = fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())
	}
	kind, rest, found := strings.Cut(name, ":")
	switch {
	case !found || strings.Contains(kind, "/"):
		return name, nil
	case kind == "FILE":
		return rest, nil
	}
	return "", fmt.Errorf("kerberos: ticket cache %s: only files can be read; set KRB5CCNAME=FILE:/path and run kinit again", name)
}

// openCache reads the ticket cache.
func (l *Login) openCache() error {
	file, err := cacheFile(l.cred.Cache)
	if err != nil {
		return err
	}
	b, err := readFile(file)
	if err != nil {
		return fmt.Errorf("kerberos: ticket cache: %w; run kinit", err)
	}
	cache := new(credentials.CCache)
	var agent *krb5.Client
	err = guard("ticket cache", func() error {
		if err := checkCache(b); err != nil {
			return err
		}
		if err := cache.Unmarshal(b); err != nil {
			return err
		}
		if err := l.useCache(cache); err != nil || len(l.tgt.key.KeyValue) == 0 {
			return err
		}
		agent, err = krb5.NewFromCCache(cache, l.settings.conf, krb5.DisablePAFXFAST(true))
		return err
	})
	if err != nil {
		return fmt.Errorf("kerberos: ticket cache %s: %w", file, err)
	}
	l.agent = agent
	return nil
}

// useCache makes the cache's ticket-granting ticket the Login's.
func (l *Login) useCache(cache *credentials.CCache) error {
	realm := cache.GetClientRealm()
	name := cache.GetClientPrincipalName()
	client := text(name, realm)
	want := l.cred.Principal
	if want != "" && !strings.Contains(want, "@") {
		want += "@" + l.settings.Realm()
	}
	switch {
	case !plain(name, realm):
		return errors.New("its principal cannot be written as NAME@REALM")
	case want != "" && want != client:
		return fmt.Errorf("it is of %s, not of %s", client, want)
	}
	tgs := "krbtgt/" + realm + "@" + realm
	for _, e := range cache.GetEntries() {
		service := text(e.Server.PrincipalName, e.Server.Realm)
		known := l.kept(service)
		if service == tgs {
			known = l.tgt
		}
		if text(e.Client.PrincipalName, e.Client.Realm) != client || !usable(e.Key) || e.EndTime.Before(known.till) {
			continue
		}
		t := ticket{key: e.Key, from: e.AuthTime, till: e.EndTime, name: name, of: realm}.started(e.StartTime)
		if err := t.Unmarshal(e.Ticket); err != nil {
			return err
		}
		if service == tgs {
			l.tgt = t
		} else {
			l.keep(service, t)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.tgt.key.KeyValue) == 0 && len(l.mu.tickets) == 0:
		return errors.New("it has no ticket; run kinit")
	case l.client == "":
		// From now on the cache must be of this principal.
		l.client, l.cred.Principal = client, client
	}
	return nil
}

// ticketFor returns a ticket for the service, from memory or from the KDC. When ctx ends
// it returns, but a question to the KDC goes on until the KDC's answer or its time-out; the
// next caller gets the ticket then.
func (l *Login) ticketFor(ctx context.Context, service types.PrincipalName, realm string) (ticket, error) {
	key := text(service, realm)
	if t := l.kept(key); t.fresh(time.Now()) {
		return t, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ticket{}, fmt.Errorf("kerberos: no answer of the KDC: %w", ctx.Err())
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-l.turn }()
		done <- l.refresh(key, service, realm)
	}()
	select {
	case err := <-done:
		if t := l.kept(key); t.usable(time.Now()) {
			return t, nil
		}
		return ticket{}, fmt.Errorf("kerberos: ticket for %s: %w", key, err)
	case <-ctx.Done():
		return ticket{}, fmt.Errorf("kerberos: no answer of the KDC: %w", ctx.Err())
	}
}

// refresh makes the ticket for a service fresh. The caller holds the turn.
func (l *Login) refresh(key string, service types.PrincipalName, realm string) error {
	if t := l.kept(key); t.fresh(time.Now()) {
		return nil
	}
	return guard("the KDC's answer", func() error {
		t, err := l.ask(service, realm)
		if err != nil {
			return advise(err, l.client)
		}
		l.keep(key, t)
		return nil
	})
}

// kept returns the ticket for a service that the Login has; the zero value if it has none.
func (l *Login) kept(key string) ticket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.tickets[key]
}

// maxServices is how many tickets a Login keeps.
const maxServices = 256

func (l *Login) keep(key string, t ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mu.tickets) >= maxServices {
		clear(l.mu.tickets)
	}
	l.mu.tickets[key] = t
}

// ask gets a ticket from the KDC. The caller holds the turn.
func (l *Login) ask(service types.PrincipalName, realm string) (ticket, error) {
	if err := l.logIn(); err != nil {
		return ticket{}, err
	}
	t := l.tgt
	if realm != t.of {
		// The client's KDC gives a ticket for the other one.
		other := types.NewPrincipalName(principalType, "krbtgt/"+realm)
		var err error
		if t, err = l.exchange(t, other, t.of); err != nil {
			return ticket{}, err
		}
	}
	return l.exchange(t, service, realm)
}

// maxRealms is how many KDCs are asked for one ticket.
const maxRealms = 8

// lastReferral is a count of referrals at which gokrb5 follows no other one. Its second request on
// the way would be refused, since it names the realm of the KDC before as the client's.
const lastReferral = 6

// exchange asks the KDC of the realm for a ticket. A KDC that shares no key with the realm of a
// ticket-granting ticket gives one for a realm on the way there, whose KDC is asked next (RFC
// 4120, 3.3.3.2).
func (l *Login) exchange(with ticket, service types.PrincipalName, realm string) (ticket, error) {
	for range maxRealms {
		q, err := l.request(&with, service, realm)
		if err != nil {
			return ticket{}, err
		}
		_, r, err := l.agent.TGSExchange(q, realm, with.Ticket, with.key, lastReferral)
		name := r.Ticket.SName.NameString
		referred := len(name) == 2 && name[0] == "krbtgt" && !r.Ticket.SName.Equal(service)
		if err != nil && referred {
			_, err = r.Verify(l.settings.conf, q) // what is wrong with the answer, apart from being a referral
		}
		if err != nil {
			return ticket{}, err
		}
		d := &r.DecryptedEncPart
		with = ticket{Ticket: r.Ticket, key: d.Key, from: d.AuthTime, till: d.EndTime, name: with.name, of: with.of}.started(d.StartTime)
		switch {
		case r.Ticket.SName.Equal(service):
			return with, nil
		case !referred:
			return ticket{}, fmt.Errorf("the KDC gives a ticket for %s", text(r.Ticket.SName, r.Ticket.Realm))
		}
		realm = name[1]
	}
	return ticket{}, fmt.Errorf("more than %d realms are on the way", maxRealms)
}

// request makes the request for a ticket, in which the client is of its own realm. That of gokrb5
// has the realm of the KDC that gave the ticket-granting ticket there.
func (l *Login) request(with *ticket, service types.PrincipalName, realm string) (messages.TGSReq, error) {
	q, err := messages.NewTGSReq(with.name, realm, l.settings.conf, with.Ticket, with.key, service, false)
	if err != nil || with.Realm == with.of {
		return q, err
	}
	body, err := q.ReqBody.Marshal()
	if err != nil {
		return q, err
	}
	etype, err := crypto.GetEtype(with.key.KeyType)
	if err != nil {
		return q, err
	}
	sum, err := etype.GetChecksumHash(with.key.KeyValue, body, keyusage.TGS_REQ_PA_TGS_REQ_AP_REQ_AUTHENTICATOR_CHKSUM)
	if err != nil {
		return q, err
	}
	auth, err := types.NewAuthenticator(with.of, with.name)
	if err != nil {
		return q, err
	}
	auth.Cksum = types.Checksum{CksumType: etype.GetHashID(), Checksum: sum}
	proof, err := messages.NewAPReq(with.Ticket, with.key, auth)
	if err != nil {
		return q, err
	}
	b, err := proof.Marshal()
	q.PAData = types.PADataSequence{{PADataType: patype.PA_TGS_REQ, PADataValue: b}}
	return q, err
}

// started sets the begin of the lifetime, if the KDC names one.
func (t ticket) started(at time.Time) ticket {
	if !at.IsZero() && at.Unix() != 0 {
		t.from = at
	}
	return t
}

// logIn makes the ticket-granting ticket fresh.
func (l *Login) logIn() error {
	now := time.Now()
	if l.tgt.fresh(now) {
		return nil
	}
	if l.keys == nil {
		err := l.openCache()
		switch {
		case l.tgt.usable(now):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("the ticket-granting ticket of %s has expired, or there is none; run kinit", l.client)
	}
	name, realm, err := parsePrincipal(l.client, "")
	if err != nil {
		return err
	}
	agent := krb5.NewWithKeytab(strings.Join(name.NameString, "/"), realm, l.keys.table(), l.settings.conf, krb5.DisablePAFXFAST(true))
	q, err := messages.NewASReqForTGT(realm, l.settings.conf, agent.Credentials.CName())
	if err != nil {
		return err
	}
	r, err := agent.ASExchange(realm, q, 0)
	switch {
	case err == nil:
	case l.tgt.usable(now):
		return nil
	default:
		return err
	}
	d := &r.DecryptedEncPart
	l.tgt = ticket{Ticket: r.Ticket, key: d.Key, from: d.AuthTime, till: d.EndTime, name: name, of: realm}.started(d.StartTime)
	l.agent = agent
	return nil
}
