package cli

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// missingRight says which permission an operation lacked, and on which node; "" if
// that is not known.
func missingRight(op, node string) string {
	if node == "" {
		return ""
	}
	switch op {
	case "create", "create2":
		return "create on " + path.Dir(node)
	case "delete":
		return "delete on " + path.Dir(node)
	case "set":
		return "write on " + node
	case "setacl":
		return "admin on " + node
	case "getacl":
		return "read or admin on " + node
	case "get", "ls", "check":
		return "read on " + node
	}
	return ""
}

// locksOut reports whether an ACL takes the right to change it from a session with
// these identities. secrets are those that the session has given by the scheme digest.
func locksOut(acl []zk.ACL, ids []zk.ID, secrets []string) bool {
	for _, entry := range acl {
		if entry.Perms&zk.PermAdmin != 0 && includes(entry.ID, ids, secrets) {
			return false
		}
	}
	return true
}

// includes reports whether entry, the identity of an ACL entry, is one of a session's.
func includes(entry zk.ID, ids []zk.ID, secrets []string) bool {
	if entry == zk.AnyoneUnsafe {
		return true
	}
	for _, id := range ids {
		switch {
		case id.Scheme == "super":
			return true // no ACL is checked
		case entry.Scheme == "auth" && id.Scheme != "ip" && id.Scheme != "world":
			return true // the server replaces it by what the session is
		case entry.Scheme == "ip" && id.Scheme == "ip" && inNetwork(entry.ID, id.ID):
			return true
		case entry.Scheme != "digest" && entry == id:
			return true
		}
	}
	for _, secret := range secrets {
		if entry.Scheme == "digest" && isDigest(entry.ID, secret) {
			return true
		}
	}
	return false
}

// inNetwork reports whether an address is that of an ip entry, or in its network.
func inNetwork(entry, address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	if n, err := netip.ParsePrefix(entry); err == nil {
		return n.Contains(a)
	}
	e, err := netip.ParseAddr(entry)
	return err == nil && e == a
}

// isDigest reports whether id, user:hash, is that of a secret, user:password. A hash
// that is no SHA-1, which servers may be configured for, is not looked at.
func isDigest(id, secret string) bool {
	user, hash, _ := strings.Cut(id, ":")
	name, _, _ := strings.Cut(secret, ":")
	sum := sha1.Sum([]byte(secret))
	ours := base64.StdEncoding.EncodeToString(sum[:])
	return user == name && (hash == ours || len(hash) != len(ours))
}

// confirmACL asks before the interactive shell sets an ACL that would lock its own
// session out. The error says that the answer was no.
func (s *shell) confirmACL(ctx context.Context, c *client.Client, node string, acl []zk.ACL) error {
	if s.prompt == nil {
		return nil
	}
	var secrets []string
	for _, a := range append(s.opts.auths, s.auths...) {
		if a.scheme == "digest" {
			secrets = append(secrets, a.secret)
		}
	}
	ids, err := c.WhoAmI(ctx)
	if errors.Is(err, zk.ErrUnimplemented) { // before 3.7: digests are known, others are not
		return nil
	}
	if err != nil || !locksOut(acl, ids, secrets) {
		return err
	}
	yes, err := s.confirm(ctx, fmt.Sprintf("This session will not be able to change the ACL of %s any more: no entry with admin (a) includes it.\n", node))
	if err == nil && !yes {
		err = errors.New("the ACL is not changed")
	}
	return err
}

// confirm prints a text and asks whether to go on; only yes is yes.
//
// REQUIRES: the shell is interactive.
func (s *shell) confirm(ctx context.Context, text string) (bool, error) {
	editor, history := s.prompt.editor, s.prompt.editor.History
	fmt.Fprint(s.out, text)
	editor.SetPrompt("Go on? (yes/no) ")
	editor.History = noHistory{}
	defer func() { editor.History = history }()
	line, err := s.readLine(ctx, editor, s.console)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return strings.EqualFold(strings.TrimSpace(line), "yes"), err
}

// noHistory is the history of an answer: there is none, and nothing is kept.
type noHistory struct{}

// Add, Len and At make it a history.
func (noHistory) Add(string)    {}
func (noHistory) Len() int      { return 0 }
func (noHistory) At(int) string { panic("cli: an answer has no history") }
