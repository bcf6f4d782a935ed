package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// How far a member has come.
const (
	stopping = "stopping" // its server was told to stop
	starting = "starting" // it has stopped; the other is, or is to be, started
	done     = "done"
)

// A State is how far a migration has come: the state file.
type State struct {
	To      string            `json:"to"`
	Began   time.Time         `json:"began"`
	Members map[int64]*record `json:"members"`

	file string
}

// A record is how far a member has come.
type record struct {
	State  string    `json:"state"`
	Since  time.Time `json:"since"`
	AwayMS int64     `json:"away_ms,omitempty"` // how long it did not serve
	Felt   *Felt     `json:"felt,omitempty"`    // what the canaries felt meanwhile
}

// ReadState reads the state file; the state is that of no migration if there is none.
func ReadState(file string) (*State, error) {
	s := &State{file: file, Members: map[int64]*record{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil {
		return nil, fmt.Errorf("the state file %s: %w", file, err)
	}
	return s, nil
}

// begin prepares the state for a migration: it goes on with one to the same program, and of
// another keeps what was left half-way.
func (s *State) begin(to string, now time.Time) {
	if s.To == to {
		return
	}
	s.To, s.Began = to, now
	for id, r := range s.Members {
		if r.State == done {
			delete(s.Members, id)
		}
	}
}

// at returns how far a member has come, "" if it has not begun.
func (s *State) at(id int64) string {
	if r := s.Members[id]; r != nil {
		return r.State
	}
	return ""
}

// set enters how far a member has come, and writes the file, in one rename.
func (s *State) set(id int64, r record) error {
	r.Since = time.Now().UTC().Truncate(time.Millisecond)
	s.Members[id] = &r
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	next := s.file + ".next"
	if err := os.WriteFile(next, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("the state file: %w", err)
	}
	return os.Rename(next, s.file)
}
