package fourletter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// AnswerWithin bounds the answer of one server, to this and to other questions of an operator.
const AnswerWithin = 5 * time.Second

// An Answer is what a server has answered to srvr.
type Answer struct {
	Status
	Err error // why it has not, or has no role; Status is zero then
}

// Answered returns what ask returns within the time that a server has.
func Answered(ctx context.Context, ask func(context.Context) (Status, error)) Answer {
	ctx, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	s, err := ask(ctx)
	return Answer{s, err}
}

// AnswersOf asks all servers of a list at once, and returns their answers in its order.
func AnswersOf[Server any](list []Server, ask func(*Server) Answer) []Answer {
	answers := make([]Answer, len(list))
	var asking sync.WaitGroup
	for i := range list {
		asking.Go(func() { answers[i] = ask(&list[i]) })
	}
	asking.Wait()
	return answers
}

// Gone reports whether there is no server at the port. A connection that did not come about in
// time says nothing.
func (a Answer) Gone() bool {
	var op *net.OpError
	return errors.As(a.Err, &op) && op.Op == "dial" && !op.Timeout() && !errors.Is(op, context.Canceled)
}

// Serves reports whether the server has a role in an ensemble: it is in sync with the
// leader, or is the leader.
func (a Answer) Serves() bool {
	return a.Err == nil && (a.Mode == "leader" || a.Mode == "follower" || a.Mode == "observer")
}

// Behind reports whether a server has not applied a transaction. A new leader says its epoch
// and a counter of 0 until the first transaction of its epoch; a server that serves then has
// all that was before.
func (a Answer) Behind(z zk.Zxid) bool { return z.Counter() != 0 && a.Zxid < z }

// String says what the server does.
func (a Answer) String() string {
	switch {
	case a.Gone():
		return fmt.Sprintf("does not answer: %v", a.Err)
	case errors.Is(a.Err, ErrNotServing):
		return "is up and has no leader"
	case a.Err != nil:
		return fmt.Sprintf("cannot be asked: %v (4lw.commands.whitelist must have srvr, as by default)", a.Err)
	}
	return fmt.Sprintf("is %s, runs %s, is at zxid %v", a.Mode, a.Version, a.Zxid)
}
