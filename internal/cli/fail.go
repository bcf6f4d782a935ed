package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// The statuses that the program ends with.
const (
	statusOK           = 0
	statusFailed       = 1 // an operation failed
	statusUsage        = 2 // the command line is wrong; nothing was done
	statusNoConnection = 3 // no server answered
)

// usageError says that a command was not given what it takes.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

// connectError says that no session could be made.
type connectError struct {
	servers string
	err     error
}

// errClosed is the cause of a connectError after close.
var errClosed = errors.New("not connected")

func (e connectError) Error() string {
	if e.err == errClosed {
		return "Not connected"
	}
	reason := e.err
	var unknown *net.DNSError
	var refused *net.OpError
	switch { // the rest of the text is about the wait
	case errors.Is(e.err, zk.ErrAuthFailed):
		reason = errors.New("the server refuses the credentials of --auth or --login")
	case errors.As(e.err, &unknown):
		reason = unknown
	case errors.As(e.err, &refused):
		reason = refused
	}
	return fmt.Sprintf("Cannot connect to %s: %v", e.servers, reason)
}

func (e connectError) Unwrap() error { return e.err }

// statusError is an error that has been printed already: only the exit status
// remains.
type statusError struct{ status int }

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

// ExitStatus is what the program ends with for an error of Run: 0 for none, 2
// for a wrong command line, 3 if no server answered, 1 for all else.
func ExitStatus(err error) int {
	var status statusError
	var usage usageError
	var connect connectError
	switch {
	case err == nil:
		return statusOK
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &usage):
		return statusUsage
	case errors.As(err, &connect), errors.As(err, new(outageError)), errors.Is(err, zk.ErrConnectionLoss):
		return statusNoConnection
	}
	return statusFailed
}

// Told reports whether an error of Run has been printed.
func Told(err error) bool {
	return errors.As(err, new(statusError))
}

// explain says in words what an error means and, on a line of its own, what can
// be done. The first line is zkCli.sh's where that has one.
func explain(err error) string {
	var opErr *client.Error
	var code zk.Code
	switch {
	case errors.As(err, new(usageError)), errors.As(err, new(outageError)):
		return err.Error()
	case errors.Is(err, errClosed):
		return err.Error() + "\n(connect begins a session)"
	case errors.As(err, new(connectError)) && errors.Is(err, zk.ErrAuthFailed):
		return err.Error()
	case errors.As(err, new(connectError)):
		return err.Error() + "\n(is a server running there? --server says where; --timeout and -waitforconnection wait longer)"
	case errors.Is(err, context.Canceled):
		return "Interrupted" + maybeDone(err)
	case !errors.As(err, &code):
		return err.Error()
	}
	path := ""
	if errors.As(err, &opErr) {
		path = opErr.Path
	}
	var txnErr *client.TxnError
	if errors.As(err, &txnErr) {
		path = txnErr.Path
	}
	if errors.Is(err, zk.ErrBadArguments) && opErr != nil && opErr.Reason != nil {
		return opErr.Reason.Error() // what is wrong with the path
	}
	words, known := codeWords[code]
	if !known {
		return err.Error()
	}
	text, advice := words.text, words.advice
	if strings.HasSuffix(text, " ") {
		text += path
	}
	if opErr != nil && opErr.Reason != nil && (code == zk.ErrUnimplemented || code == zk.ErrNoNode) {
		advice = opErr.Reason.Error() // the release that it needs
	}
	if txnErr != nil {
		text = fmt.Sprintf("Operation %d, %s: %s", txnErr.Index+1, txnErr.Op, text)
	}
	if code == zk.ErrNoAuth {
		if right := rightOf(err); right != "" {
			advice = "it needs " + right + "; " + advice
		}
	}
	text += maybeDone(err)
	if advice != "" {
		text += "\n(" + advice + ")"
	}
	return text
}

// jsonError is an error with --output json: one line on the error stream.
type jsonError struct {
	Error  string `json:"error"`            // the first line of explain
	Advice string `json:"advice,omitempty"` // the second one
	Code   int32  `json:"code,omitempty"`   // the server's; none if no server has refused
	Path   string `json:"path,omitempty"`
	Status int    `json:"status"` // that the program ends with
}

// ErrorInJSON returns what an error means, and what can be done, as a line of JSON without its
// end: what --output json has on the error stream.
func ErrorInJSON(err error) string {
	text, advice, _ := strings.Cut(explain(err), "\n")
	e := jsonError{Error: text, Advice: strings.TrimSuffix(strings.TrimPrefix(advice, "("), ")"), Status: ExitStatus(err)}
	var code zk.Code
	if errors.As(err, &code) {
		e.Code = int32(code)
	}
	var opErr *client.Error
	var txnErr *client.TxnError
	switch {
	case errors.As(err, &txnErr):
		e.Path = txnErr.Path
	case errors.As(err, &opErr):
		e.Path = opErr.Path
	}
	line, err := json.Marshal(e)
	if err != nil {
		return explain(err)
	}
	return string(line)
}

// rightOf says which right the operation of an error lacked; "" if it was none.
func rightOf(err error) string {
	var opErr *client.Error
	var txnErr *client.TxnError
	switch {
	case !errors.Is(err, zk.ErrNoAuth):
	case errors.As(err, &txnErr):
		return missingRight(txnErr.Op, txnErr.Path)
	case errors.As(err, &opErr):
		return missingRight(opErr.Op, opErr.Path)
	}
	return ""
}

// maybeDone returns a warning if a write may or may not have been carried out.
func maybeDone(err error) string {
	var opErr *client.Error
	if errors.As(err, &opErr) && opErr.Maybe {
		return "; whether it was carried out is unknown: look before you repeat it"
	}
	return ""
}

// codeWords has, for an error code, what it means to the user, and what can be done. A
// text that ends with a blank is followed by the path.
var codeWords = map[zk.Code]struct{ text, advice string }{
	zk.ErrNoNode:                  {"Node does not exist: ", ""},
	zk.ErrNodeExists:              {"Node already exists: ", ""},
	zk.ErrNotEmpty:                {"Node not empty: ", "deleteall deletes a node and all below it"},
	zk.ErrNoChildrenForEphemerals: {"Ephemerals cannot have children: ", ""},
	zk.ErrNoAuth:                  {"Insufficient permission : ", "getAcl prints the permissions, whoami your identities; addauth adds one"},
	zk.ErrAuthFailed:              {"Authentication is not valid : ", "the server has refused the credentials and ended the session: connect begins a new session"},
	zk.ErrInvalidACL:              {"Acl is not valid : ", "an ACL is scheme:id:perms, as in digest:user:hash:cdrwa; auth needs addauth first"},
	zk.ErrBadVersion:              {"version No is not valid : ", "the node has changed since: get -s shows its version"},
	zk.ErrSessionExpired:          {"Session has expired", "its ephemeral nodes and watches are gone; the next command begins a new session"},
	zk.ErrConnectionLoss:          {"Connection to the server was lost", ""},
	zk.ErrBadArguments:            {"Arguments are not valid : ", ""},
	zk.ErrNotReadOnly:             {"Not a read-only call: ", "the server has lost its quorum and only serves reads"},
	zk.ErrNoWatcher:               {"No such watcher for ", "watches of other sessions are not yours to remove"},
	zk.ErrQuotaExceeded:           {"Quota has exceeded : ", "listquota shows limits and use"},
	zk.ErrUnimplemented:           {"The server does not know this operation", "it is older, or is not set up for it: TTL nodes need extendedTypesEnabled"},
	zk.ErrReconfigDisabled:        {"Reconfig is disabled", "reconfigEnabled=true in the servers' zoo.cfg allows it"},
	zk.ErrNewConfigNoQuorum:       {"No quorum of new config is connected and up-to-date with the leader of last commmitted config - try invoking reconfiguration after new servers are connected and synced", ""},
	zk.ErrReconfigInProgress:      {"Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)", "try again later"},
	zk.ErrThrottledOp:             {"The server is overloaded and refused the operation", "try again later"},
	zk.ErrEphemeralOnLocalSession: {"A local session cannot have ephemeral nodes: ", "the server has localSessionsEnabled without upgrading"},
}

// count is a number with its noun: "1 argument", "2 arguments".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
