package kerberos

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// DefaultSkew is by how much the clocks of client and server may differ, if krb5.conf
// does not say otherwise.
const DefaultSkew = 5 * time.Minute

// AcceptorOptions are the identity of a server and the file with its keys.
type AcceptorOptions struct {
	// Principal is SERVICE/HOST@REALM. "*" accepts tickets for every principal of the
	// key table.
	Principal string
	// DefaultRealm completes a Principal without a realm.
	DefaultRealm string
	// Keytab is the file with the keys. It is read again when it changes.
	Keytab string
	// Skew is by how much clocks may differ; 0 means DefaultSkew.
	Skew time.Duration
	// Replays is a file in which logins are remembered over a restart; a second one has
	// .old after its name. Empty means that a restart forgets them.
	Replays string
	// Logger gets a line when the key table has changed; nil means none.
	Logger *slog.Logger
}

// An Acceptor checks logins to one service. It is safe for concurrent use.
type Acceptor struct {
	every bool // "*"
	name  types.PrincipalName
	realm string
	keys  *keyFile
	skew  time.Duration
	seen  *replays
	slots chan struct{} // bounds the exchanges that compute at a time
}

// NewAcceptor reads the key table, which must have a key of the principal.
func NewAcceptor(o AcceptorOptions) (*Acceptor, error) {
	if o.Skew <= 0 {
		o.Skew = DefaultSkew
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Acceptor{every: o.Principal == "*", skew: o.Skew, seen: newReplays(o.Skew, maxReplays, o.Replays, o.Logger)}
	a.slots = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	var err error
	if !a.every {
		if a.name, a.realm, err = parsePrincipal(o.Principal, o.DefaultRealm); err != nil {
			return nil, err
		}
	}
	if a.keys, err = openKeys(o.Keytab, o.Logger); err != nil {
		return nil, err
	}
	if !a.every && !holds(a.keys.table(), text(a.name, a.realm)) {
		return nil, fmt.Errorf("kerberos: keytab: %s has no key of %s: add it with kadmin's ktadd", o.Keytab, text(a.name, a.realm))
	}
	return a, nil
}

// An Acceptance is one login, on the server's side. One goroutine at a time uses it.
type Acceptance struct {
	acceptor *Acceptor
	state    acceptState
	secret   secret
	seq      uint64 // of the server's wrap token
	name     string
	identity string
}

type acceptState uint8

const (
	acceptIdle     acceptState = iota
	acceptReplied              // the AP-REP is sent; an empty token is due
	acceptOffered              // the layers are offered; the client's choice is due
	acceptLoggedIn             // the last token was good
	acceptFailed               // every token fails
)

// Begin returns a new exchange.
func (a *Acceptor) Begin() *Acceptance { return &Acceptance{acceptor: a} }

// Principal returns the name of the client that has logged in, NAME@REALM or
// NAME/HOST@REALM. ok is false if none has.
func (x *Acceptance) Principal() (name string, ok bool) { return x.name, x.state == acceptLoggedIn }

// Identity returns the identity (authzid) that the client that has logged in asked for.
// It is not checked.
func (x *Acceptance) Identity() string { return x.identity }

// Step handles a token of the client and returns the answer. The last answer is nil, which
// Java's clients need. Step computes for about 0.1 ms; only so many exchanges compute at a
// time as the machine has processors to spare, and Step waits for its turn.
//
// The error wraps ErrRefused. After an error, and after a login, every step fails.
func (x *Acceptance) Step(token []byte) (answer []byte, err error) {
	was := x.state
	x.state = acceptFailed
	switch {
	case was == acceptLoggedIn || was == acceptFailed:
		x.name, x.identity = "", ""
		return nil, refused("the exchange is over")
	case len(token) > MaxTokenBytes:
		return nil, refused("token of %d bytes, more than %d", len(token), MaxTokenBytes)
	}
	x.acceptor.slots <- struct{}{}
	defer func() { <-x.acceptor.slots }()
	next := was
	switch was {
	case acceptIdle:
		answer, next, err = x.begin(token)
	case acceptReplied:
		if len(token) > 0 {
			return nil, refused("a token of %d bytes where an empty one is due", len(token))
		}
		answer, err = x.secret.wrap(offer(), x.seq, true)
		next = acceptOffered
	case acceptOffered:
		err = x.finish(token)
		next = acceptLoggedIn
	}
	if err != nil {
		x.name, x.identity = "", ""
		return nil, err
	}
	x.state = next
	return answer, nil
}

// begin checks the AP-REQ. With mutual authentication it answers by an AP-REP, otherwise
// by the offer of layers.
func (x *Acceptance) begin(token []byte) (answer []byte, next acceptState, err error) {
	var q messages.APReq
	if err := decodeRequest(token, &q); err != nil {
		return nil, 0, err
	}
	if err := x.acceptor.verify(&q); err != nil {
		return nil, 0, err
	}
	part, auth := &q.Ticket.DecryptedEncPart, &q.Authenticator
	x.name = text(part.CName, part.CRealm)
	x.secret = secret{key: part.Key}
	if len(auth.SubKey.KeyValue) > 0 {
		x.secret.key = auth.SubKey
	}
	if !usable(x.secret.key) {
		return nil, 0, refused("encryption type %d is not accepted: use AES", x.secret.key.KeyType)
	}
	x.seq = uint64(uint32(auth.SeqNumber))
	flags, err := contextFlags(auth)
	if err != nil {
		return nil, 0, err
	}
	if flags&flagMutual == 0 {
		answer, err = x.secret.wrap(offer(), x.seq, true)
		return answer, acceptOffered, err
	}
	answer, x.secret, x.seq, err = reply(&q)
	return answer, acceptReplied, err
}

// verify checks ticket and authenticator, and remembers the authenticator.
func (a *Acceptor) verify(q *messages.APReq) error {
	t := &q.Ticket
	switch {
	case !plain(t.SName, t.Realm):
		return refused("a ticket for a service without a usable name")
	case !a.every && (!t.SName.Equal(a.name) || t.Realm != a.realm):
		return refused("a ticket for %.100q, not for %s: clients must use the host of this principal", text(t.SName, t.Realm), text(a.name, a.realm))
	case !strong(t.EncPart.EType):
		return refused("encryption type %d of the ticket is not accepted: use AES", t.EncPart.EType)
	}
	if err := guard("ticket", func() error { return t.DecryptEncPart(a.keys.table(), &t.SName) }); err != nil {
		return a.keys.closed(text(t.SName, t.Realm), t.EncPart.KVNO, t.EncPart.EType)
	}
	if ok, err := t.Valid(a.skew); !ok || err != nil {
		return invalid(&t.DecryptedEncPart, time.Now(), a.skew)
	}
	part := &t.DecryptedEncPart
	if !usable(part.Key) {
		return refused("encryption type %d of the session key is not accepted: use AES", part.Key.KeyType)
	}
	if err := guard("authenticator", func() error { return q.DecryptAuthenticator(part.Key) }); err != nil {
		return refused("%v", err)
	}
	return a.judge(q)
}

// invalid says why a ticket is not valid, and what to do.
func invalid(part *messages.EncTicketPart, now time.Time, skew time.Duration) error {
	who := text(part.CName, part.CRealm)
	switch {
	case now.After(part.EndTime.Add(skew)):
		return refused("the ticket of %.100q has expired at %v: the client needs a new one, see kinit", who, part.EndTime.Format(time.RFC3339))
	case now.Before(part.StartTime.Add(-skew)):
		return refused("the ticket of %.100q is valid from %v on: compare the clocks of this server and the KDC", who, part.StartTime.Format(time.RFC3339))
	}
	return refused("the ticket of %.100q is marked as invalid: the client needs a new one, see kinit", who)
}

// judge compares what the ticket and the authenticator say.
func (a *Acceptor) judge(q *messages.APReq) error {
	part, auth, now := &q.Ticket.DecryptedEncPart, &q.Authenticator, time.Now()
	made := auth.CTime.Add(time.Duration(auth.Cusec) * time.Microsecond)
	switch {
	case !auth.CName.Equal(part.CName) || auth.CRealm != part.CRealm:
		return refused("the authenticator is not of the client whom the ticket names")
	case !plain(part.CName, part.CRealm):
		return refused("the client's name cannot be written as NAME@REALM")
	case part.CRealm != q.Ticket.Realm && len(part.Transited.Contents) > 0 && !types.IsFlagSet(&part.Flags, flags.TransitedPolicyChecked):
		return refused("realm %.100q is reached through other realms, which the KDC has not checked: name them in the section capaths of the KDC's krb5.conf", part.CRealm)
	case now.Sub(made) > a.skew || made.Sub(now) > a.skew:
		return refused("clock skew: the clock of %.100q differs by %v, more than %v: set both clocks by NTP",
			text(part.CName, part.CRealm), made.Sub(now).Round(time.Millisecond), a.skew)
	}
	return a.seen.add(q.EncryptedAuthenticator.Cipher, now)
}

// finish checks the client's choice of a layer, which proves that it has the session key.
func (x *Acceptance) finish(token []byte) error {
	payload, err := x.secret.unwrap(token, false)
	if err != nil {
		return err
	}
	x.identity, err = chosen(payload)
	return err
}
