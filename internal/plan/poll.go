package plan

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the time between two looks at something that is waited for.
const pollEvery = 100 * time.Millisecond

// The time between two lines of progress: that differ, and that are the same.
const (
	tellEvery = 2 * time.Second
	tellAgain = 15 * time.Second
)

// A Final error is one that waiting does not help against: it ends Poll.
type Final struct{ Err error }

// Error is that of Err.
func (e Final) Error() string { return e.Err.Error() }

// Poll calls f until it returns nil, for as long as wait, and reports its error by say from
// time to time. A Final error ends it.
func Poll(ctx context.Context, wait time.Duration, say func(text string), f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	told, last := time.Now(), ""
	for {
		err := f(ctx)
		var end Final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &end):
			return end.Err
		case ctx.Err() != nil:
			return fmt.Errorf("not within %v: %w", wait, err)
		}
		since := time.Since(told)
		if text := err.Error(); since >= tellEvery && text != last || since >= tellAgain {
			told, last = time.Now(), text
			say("waiting: " + text)
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", wait, err)
		}
	}
}
