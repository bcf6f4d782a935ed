package admin

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
)

// maxShedBytes is the maximum length of the body of shed_connections.
const maxShedBytes = 4 << 10

// shed closes each connection with the probability, in percent, that the body names:
// {"percentage": 25}.
func (s *Server) shed(q *reply) {
	percentage, refusal := readPercentage(http.MaxBytesReader(q.w, q.r.Body, maxShedBytes))
	if refusal != "" {
		q.fail(http.StatusBadRequest, q.name, refusal)
		return
	}
	closed := s.server.Shed(func() bool { return rand.IntN(100) < percentage })
	s.log.Warn("connections were closed by the command shed_connections", "percentage", percentage, "connections", closed)
	q.int("connections_shed", int64(closed))
	q.int("percentage_requested", int64(percentage))
}

// readPercentage reads the body of shed_connections. A refusal that is not empty says what is
// wrong with it, in Apache's words.
func readPercentage(body io.Reader) (percentage int, refusal string) {
	text, err := io.ReadAll(body)
	if err == nil && len(text) == 0 {
		return 0, "Request body is required"
	}
	var request struct {
		Percentage *int `json:"percentage"`
	}
	if err == nil {
		err = json.Unmarshal(text, &request)
	}
	switch {
	case err != nil:
		return 0, "Invalid JSON or failed to read request body: " + err.Error()
	case request.Percentage == nil:
		return 0, "Missing required field: percentage"
	case *request.Percentage < 0 || *request.Percentage > 100:
		return 0, "Percentage must be between 0 and 100"
	}
	return *request.Percentage, ""
}
