package admin

import (
	"net/http"
	"net/http/pprof"
	"time"
)

// profiles is the path below which profiles of the process are.
const profiles = "/debug/pprof/"

// profileTimeout bounds the time for which a client may have a profile recorded and sent.
const profileTimeout = 5 * time.Minute

// profile returns the page of a profile. The command line is not shown: it may hold
// secrets.
func profile(name string) http.HandlerFunc {
	var page http.HandlerFunc
	switch name {
	case "":
		page = pprof.Index
	case "profile":
		page = pprof.Profile
	case "trace":
		page = pprof.Trace
	case "symbol":
		page = pprof.Symbol
	case "cmdline":
		return nil
	default:
		page = pprof.Handler(name).ServeHTTP
	}
	return func(w http.ResponseWriter, r *http.Request) {
		// It fails only if the connection is closed; then the write fails too.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(profileTimeout))
		page(w, r)
	}
}
