package cluster

import (
	"context"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
)

// Ask sends a four-letter word and returns the whole answer, which must be there
// within the patience.
func Ask(addr, word string, patience time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return fourletter.Ask(ctx, addr, word)
}

// A Status is what a member says of itself in answer to srvr.
type Status = fourletter.Status

// Query asks a member for its status. The error is fourletter.ErrNotServing for one that
// looks for a leader, another for one that does not answer within the patience.
func Query(addr string, patience time.Duration) (Status, error) {
	text, err := Ask(addr, "srvr", patience)
	// Apache 3.4.13 on a recent JVM mostly closes the connection before it has answered.
	for try := 1; try < 50 && err == nil && text == ""; try++ {
		text, err = Ask(addr, "srvr", patience)
	}
	if err != nil {
		return Status{}, err
	}
	return fourletter.Parse(text)
}
