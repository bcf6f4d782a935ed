package cli

import (
	"io"
	"sync"
)

// A screen is an output that commands and watches share. What is written at
// once stays together. Errors of writing are kept: flush returns the first.
type screen struct {
	mu struct {
		sync.Mutex
		to  io.Writer
		err error
	}
}

func newScreen(to io.Writer) *screen {
	s := &screen{}
	s.mu.to = to
	return s
}

// Write writes all of p, or nothing after an earlier failure.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return 0, s.mu.err
	}
	n, err := s.mu.to.Write(p)
	s.mu.err = err
	return n, err
}

// flush returns what went wrong since the last call.
func (s *screen) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.mu.err
	s.mu.err = nil
	return err
}

// redirect sends what is written from now on elsewhere, and returns where it
// went before.
func (s *screen) redirect(to io.Writer) (before io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.mu.to = s.mu.to, to
	return before
}
