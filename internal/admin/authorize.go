package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/zk"
)

// authorize decides whether a request may use a command that needs a proof of identity:
// its identities must have every permission on the root znode. It returns status 0 if so;
// otherwise the status and the text of the answer. Unless admin.authorizeAnyone, an entry of
// world:anyone gives none.
//
// The header Authorization holds a scheme, and what the scheme needs: "digest
// user:password", or "ip" alone.
func (s *Server) authorize(r *http.Request) (status int, text string) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return http.StatusUnauthorized, "Auth info is missing for the command"
	}
	ids := s.identities(r, strings.Split(header, " "))
	if len(ids) == 0 {
		return http.StatusUnauthorized, "Not authenticated"
	}
	var acl *access.List
	s.replica.View(func(tree replica.View) {
		if id := tree.Lookup("/"); id != 0 {
			acl = tree.ACL(id)
		}
	})
	if acl == nil {
		return http.StatusInternalServerError, "Error occurred during auth"
	}
	if !s.cfg.Admin.Anyone {
		acl = named(acl)
	}
	for _, perm := range []zk.Perms{zk.PermRead, zk.PermWrite, zk.PermCreate, zk.PermDelete, zk.PermAdmin} {
		if !s.auth.Allowed(acl, perm, ids) {
			return http.StatusForbidden, "Not authorized"
		}
	}
	return 0, ""
}

// named returns the entries of an ACL that are not for world:anyone. It is never empty: an empty
// ACL would be open.
func named(acl *access.List) *access.List {
	some := []zk.ACL{{ID: zk.AnyoneUnsafe}} // without a permission
	for _, entry := range acl.All() {
		if entry.ID != zk.AnyoneUnsafe {
			some = append(some, entry)
		}
	}
	return access.New(some)
}

// identities returns the identities that the words of the header prove, none if they
// prove nothing. A scheme that proves no identity of its own, such as ensemble, gives none.
func (s *Server) identities(r *http.Request, words []string) []zk.ID {
	if len(words) > 2 {
		return nil
	}
	scheme, data := words[0], []byte(nil)
	if len(words) == 2 {
		data = []byte(words[1])
	}
	var have []zk.ID
	if scheme == "ip" {
		addr, ok := s.clientAddr(r)
		if !ok {
			return nil
		}
		have = []zk.ID{auth.IPIdentity(addr)}
	}
	ids, verdict := s.auth.Authenticate(scheme, data, have)
	if verdict != auth.Accepted {
		return nil
	}
	return ids
}

// clientAddr returns the address of the client: that of the connection, or with
// IPAuthenticationProvider.usexforwardedfor the one that a proxy has reported first.
func (s *Server) clientAddr(r *http.Request) (netip.Addr, bool) {
	host := ""
	if s.cfg.Auth.UseForwardedFor {
		first, _, _ := strings.Cut(r.Header.Get("X-Forwarded-For"), ",")
		host = strings.TrimSpace(first)
	}
	if host == "" {
		var err error
		if host, _, err = net.SplitHostPort(r.RemoteAddr); err != nil {
			return netip.Addr{}, false
		}
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap().WithZone(""), err == nil
}
