package kerberos

import (
	"context"

	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// InitiatorOptions say how a client logs in.
type InitiatorOptions struct {
	// OneWay leaves out mutual authentication, as Java's clients do: one round trip
	// less. The server's offer of layers proves then that it has the key. With mutual
	// authentication a server of this package gives a fresh key, so that a recorded
	// login is worthless even without a replay cache.
	OneWay bool
	// Identity is the identity to ask for; "" means the client's principal.
	Identity string
}

// An Initiation is one login, on the client's side. One goroutine at a time uses it.
type Initiation struct {
	state    initState
	ticket   ticket
	auth     types.Authenticator
	secret   secret
	identity string
}

type initState uint8

const (
	initReply initState = iota // the server's AP-REP is due
	initOffer                  // the server's offer is due
	initDone                   // the last token is sent
	initFailed
)

// Begin gets a ticket for the service, SERVICE/HOST@REALM, and returns an exchange and its
// first token. Without a realm, the realm is that of HOST in krb5.conf, or else the
// client's. The error does not wrap ErrRefused.
func (l *Login) Begin(ctx context.Context, service string, o InitiatorOptions) (x *Initiation, token []byte, err error) {
	name, realm, err := parsePrincipal(service, l.realmOf(service))
	if err != nil {
		return nil, nil, err
	}
	t, err := l.ticketFor(ctx, name, realm)
	if err != nil {
		return nil, nil, err
	}
	if o.Identity == "" {
		o.Identity = l.client
	}
	return initiate(t, o)
}

// initiate begins an exchange with a ticket.
func initiate(t ticket, o InitiatorOptions) (x *Initiation, token []byte, err error) {
	if !usable(t.key) {
		return nil, nil, refused("encryption type %d of the session key is not accepted: use AES", t.key.KeyType)
	}
	x = &Initiation{ticket: t, identity: o.Identity}
	if x.auth, err = types.NewAuthenticator(t.of, t.name); err != nil {
		return nil, nil, err
	}
	x.auth.SubKey = newKey(t.key.KeyType)
	x.secret = secret{key: x.auth.SubKey}
	token, err = x.request(o.OneWay)
	return x, token, err
}

// realmOf returns the realm of a service without one.
func (l *Login) realmOf(service string) string {
	name := types.NewPrincipalName(principalType, service)
	if r := l.settings.conf.ResolveRealm(name.NameString[len(name.NameString)-1]); r != "" {
		return r
	}
	_, _, realm, _ := Split(l.client)
	return realm
}

// request returns the first token, an AP-REQ.
func (x *Initiation) request(oneWay bool) ([]byte, error) {
	context := uint32(flagReplay | flagSequence | flagIntegrity)
	x.state = initOffer
	if !oneWay {
		context |= flagMutual
		x.state = initReply
	}
	x.auth.Cksum = checksum(context)
	q, err := messages.NewAPReq(x.ticket.Ticket, x.ticket.key, x.auth)
	if err != nil {
		return nil, err
	}
	if !oneWay {
		types.SetFlag(&q.APOptions, flags.APOptionMutualRequired)
	}
	b, err := q.Marshal()
	return frame(idRequest, b), err
}

// Done reports whether the last token of the client is made. The server's answer to it is
// empty or null.
func (x *Initiation) Done() bool { return x.state == initDone }

// Step handles a token of the server and returns the answer, which may be empty. The error
// wraps ErrRefused if the token is wrong. After an error every step fails.
func (x *Initiation) Step(token []byte) (answer []byte, err error) {
	was := x.state
	x.state = initFailed
	switch {
	case was == initDone || was == initFailed:
		return nil, refused("the exchange is over")
	case len(token) > MaxTokenBytes:
		return nil, refused("token of %d bytes, more than %d", len(token), MaxTokenBytes)
	case was == initReply:
		subkey, err := checkReply(token, x.ticket.key, &x.auth)
		if err != nil {
			return nil, err
		}
		if len(subkey.KeyValue) > 0 {
			x.secret = secret{key: subkey, acceptor: true}
		}
		x.state = initOffer
		return []byte{}, nil
	}
	offered, err := x.secret.unwrap(token, true)
	if err != nil {
		return nil, err
	}
	choice, err := choose(offered, x.identity)
	if err != nil {
		return nil, err
	}
	if answer, err = x.secret.wrap(choice, uint64(x.auth.SeqNumber), false); err == nil {
		x.state = initDone
	}
	return answer, err
}
