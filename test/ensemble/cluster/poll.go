package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is how often a condition is looked at. A look costs a member one
// short connection.
const pollEvery = 20 * time.Millisecond

// stop wraps an error that waiting longer does not cure.
type stop struct{ error }

func (s stop) Unwrap() error { return s.error }

// poll calls look until it returns nil or a stop, or until ctx ends; then the
// error is that of the last look.
func poll(ctx context.Context, look func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := look()
		var end stop
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
