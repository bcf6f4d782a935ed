package backup

import (
	"context"
	"io"
	"time"
)

// DefaultRate is how many bytes a second a backup copies unless the caller sets another rate: it costs a server less than
// a twentieth of its writes (docs/bench.md).
const DefaultRate = 16 << 20

// pieceBytes is how much is copied between two rests.
const pieceBytes = 256 << 10

// A pace limits what all its readers read in a second. A backup shares processors, memory and mostly also the disk with a
// server; what it takes of them at full speed, the server's clients miss.
type pace struct {
	rate int64     // bytes a second; 0: no limit
	next time.Time // when the next piece may be read
}

// reader returns a reader of r at this pace. It ends with the context's error when ctx is done.
func (p *pace) reader(ctx context.Context, r io.Reader) io.Reader {
	if p.rate == 0 {
		return r
	}
	return &pacedReader{p, ctx, r}
}

type pacedReader struct {
	pace *pace
	ctx  context.Context
	r    io.Reader
}

// Read implements io.Reader.
func (r *pacedReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b[:min(len(b), pieceBytes)])
	if n == 0 {
		return n, err
	}
	if waited := r.pace.rest(r.ctx, n); waited != nil {
		return 0, waited
	}
	return n, err
}

// rest waits as long as n bytes take. Time that was not used is not made up for.
func (p *pace) rest(ctx context.Context, n int) error {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.rate))
	select {
	case <-time.After(p.next.Sub(now)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
