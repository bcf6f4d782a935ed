package client

import "strings"

// Error is the error of every operation. Use errors.Is with a zk.Code
// (zk.ErrNoNode), a context's error, ErrClosed or ErrReplyTooLarge to tell what
// happened.
type Error struct {
	Op   string // "get", "create", …
	Path string // as the caller gave it; "" if the operation has none
	Err  error  // a zk.Code, a *TxnError, a context's error, ErrClosed or ErrReplyTooLarge

	// Maybe says that the request may have been carried out although no answer
	// came: the connection broke, or the wait ended, after it had left. When it
	// is false the request was not, and will not be, carried out.
	Maybe bool

	Reason error // why there was no answer; nil if unknown
}

// Error reads "get /a: zookeeper: no node".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	b.WriteString(": " + e.Err.Error())
	if e.Reason != nil {
		b.WriteString(" (" + e.Reason.Error() + ")")
	}
	if e.Maybe {
		b.WriteString("; it may have been carried out")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() []error {
	if e.Reason == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Reason}
}
