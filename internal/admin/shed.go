package admin

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
)

// maxShedBytes is the maximum length of the body of shed_connections.
const maxShedBytes = 4 << 10

// shed closes each connection with the probability, in percent, that the body names:
// {"percentage": 25}.
func (s *Server) shed(q *reply) {
	percentage, err := readPercentage(http.MaxBytesReader(q.w, q.r.Body, maxShedBytes))
	if err != nil {
		q.fail(http.StatusBadRequest, q.name, err.Error())
		return
	}
	closed := s.server.Shed(func() bool { return rand.IntN(100) < percentage })
	s.log.Warn("connections were closed by the command shed_connections", "percentage", percentage, "connections", closed)
	q.int("connections_shed", int64(closed))
	q.int("percentage_requested", int64(percentage))
}

// readPercentage reads the body of shed_connections. Its errors are Apache's.
func readPercentage(body io.Reader) (int, error) {
	text, err := io.ReadAll(body)
	if err == nil && len(text) == 0 {
		return 0, errors.New("Request body is required")
	}
	var request struct {
		Percentage *int `json:"percentage"`
	}
	if err == nil {
		err = json.Unmarshal(text, &request)
	}
	switch {
	case err != nil:
		return 0, errors.New("Invalid JSON or failed to read request body: " + err.Error())
	case request.Percentage == nil:
		return 0, errors.New("Missing required field: percentage")
	case *request.Percentage < 0 || *request.Percentage > 100:
		return 0, errors.New("Percentage must be between 0 and 100")
	}
	return *request.Percentage, nil
}
