package admin

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
)

// A limiter admits one call in each interval, and the first at once.
type limiter struct {
	interval time.Duration
	mu       sync.Mutex
	next     time.Time // zero: none was admitted
}

// allow reports whether a call may be made now.
func (l *limiter) allow(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		return false
	}
	l.next = now.Add(l.interval)
	return true
}

// snapshot writes a snapshot, which stays in the data directory, and sends the bytes of its
// file unless streaming=false. Its errors have no text, as in Apache.
func (s *Server) snapshot(q *reply) {
	switch {
	case !s.cfg.Admin.Snapshot:
		q.status = http.StatusServiceUnavailable
		return
	case !s.cfg.Log.SerializeLastTxn:
		q.status = http.StatusInternalServerError
		return
	case !s.snapshots.allow(s.now()):
		s.server.CountRateLimited()
		q.status = http.StatusTooManyRequests
		return
	}
	taken, err := s.replica.TakeSnapshot(q.r.Context())
	if err != nil {
		s.log.Error("a snapshot for the administration server failed", "err", err)
		q.status = http.StatusInternalServerError
		return
	}
	file, bytes, err := s.dir.OpenFile(taken)
	if err != nil {
		s.log.Error("a snapshot for the administration server cannot be read", "err", err)
		q.status = http.StatusInternalServerError
		return
	}
	defer file.Close() // read only
	header := q.w.Header()
	header["last_zxid"] = []string{"0x" + strconv.FormatUint(uint64(taken.Zxid), 16)} // Apache's case
	header["snapshot_size"] = []string{strconv.FormatInt(bytes, 10)}
	if streaming, ok := q.query("streaming"); !ok || parseBoolean(streaming) {
		header.Set("Content-Type", "application/octet-stream")
		header.Set("Content-Length", strconv.FormatInt(bytes, 10))
		s.sendFile(q, file, taken)
	}
}

// parseBoolean reads a boolean as Java does: everything but true is false.
func parseBoolean(text string) bool { return strings.EqualFold(text, "true") }

// sendFile sends the bytes of a snapshot's file. If it cannot be read, the connection is
// closed before the length that was announced is reached.
func (s *Server) sendFile(q *reply, file io.Reader, of storage.Snapshot) {
	q.binary = true
	buf := make([]byte, pieceBytes)
	for {
		n, err := file.Read(buf)
		if n > 0 && q.piece(buf[:n]) != nil {
			return // the client has gone, or does not read
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			s.log.Error("a snapshot that is being sent cannot be read", "snapshot", of.Name, "err", err)
			panic(http.ErrAbortHandler) // net/http closes the connection, and logs nothing
		}
	}
}

// restore replaces the state by the snapshot in the body. Its errors have no text, as in
// Apache, except where Apache would go on and this server does not.
func (s *Server) restore(q *reply) {
	switch {
	case !s.cfg.Admin.Restore:
		q.status = http.StatusServiceUnavailable
		return
	case !s.cfg.Log.SerializeLastTxn:
		q.status = http.StatusInternalServerError
		return
	case !s.restores.allow(s.now()):
		s.server.CountRestoreLimited()
		q.status = http.StatusTooManyRequests
		return
	}
	began := s.now()
	zxid, err := s.replica.Restore(q.r.Context(), pieces{q})
	s.server.CountRestore(s.now().Sub(began), err)
	switch {
	case err == nil:
		q.int("last_zxid", int64(zxid))
	case errors.Is(err, replica.ErrNotLeader), errors.Is(err, replica.ErrRestoring),
		errors.Is(err, replica.ErrNotDrained), errors.Is(err, replica.ErrNotRestored):
		q.fail(http.StatusConflict, q.name, err.Error())
	default:
		s.log.Error("a restore by the administration server failed; the state is as it was", "err", err)
		q.status = http.StatusInternalServerError
	}
}

// pieces reads the body of a request. The client must send each piece within pieceTimeout.
type pieces struct{ q *reply }

// Read implements io.Reader.
func (p pieces) Read(b []byte) (int, error) {
	// It fails only if the connection is closed; then the read fails too.
	_ = http.NewResponseController(p.q.w).SetReadDeadline(time.Now().Add(pieceTimeout))
	return p.q.r.Body.Read(b)
}
