package admin

import "net/http"

// handOver has another member lead, and answers when this server has left the leadership. It
// is answered 409 if this server does not lead, or leads on.
func (s *Server) handOver(q *reply) {
	told := make(chan error, 1)
	s.replica.HandOver(func(err error) { told <- err })
	select {
	case err := <-told:
		if err != nil {
			q.fail(http.StatusConflict, q.name, err.Error())
			return
		}
		s.log.Warn("the leadership was handed over by the command hand_over")
	case <-s.replica.Failed():
		q.fail(http.StatusServiceUnavailable, q.name, notServing)
	case <-q.r.Context().Done(): // the client has gone
	}
}
