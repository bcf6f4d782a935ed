// Package choices makes choices from the input of a fuzz target, so that bytes become a
// sequence of acts.
package choices

import (
	"math"
	"math/rand/v2"
)

// Input is an input that is not used up yet. After its end every choice is the first one.
type Input struct{ rest []byte }

// New returns the choices of an input, which it does not change.
func New(input []byte) *Input { return &Input{input} }

// Random returns an input of 1 to most bytes, which the seed determines.
func Random(seed uint64, most int) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 1+rng.IntN(most))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Done reports whether the input is at its end.
func (s *Input) Done() bool { return len(s.rest) == 0 }

// N returns a number below most, which is at most 256. It takes a byte.
func (s *Input) N(most int) int {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return int(b) % most
}

// Rarely is true for 1 of the 16 values of half a byte.
func (s *Input) Rarely() bool { return s.N(16) == 15 }

// Of returns one of the values.
func Of[T any](s *Input, values ...T) T { return values[s.N(len(values))] }

// Int returns a number that may mean something else: a limit, a length or a special xid.
func (s *Input) Int() int32 {
	return Of[int32](s, 0, -1, 1, 2, -2, -4, -8, 3, math.MaxInt32, math.MinInt32, 1<<20, 1<<30, 100, 7, -11, 1<<16)
}

// Long is Int for longer fields.
func (s *Input) Long() int64 {
	return Of[int64](s, -1, 0, 1, 2, 5, 1000, math.MaxInt64, math.MinInt64, 1<<32, 1<<40, 1<<62, -2)
}

// Bytes takes at most n bytes of the input as they are.
func (s *Input) Bytes(n int) []byte {
	n = min(n, len(s.rest))
	b := s.rest[:n:n]
	s.rest = s.rest[n:]
	return b
}
