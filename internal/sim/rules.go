package sim

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// parentOf returns the path of the parent; that of a child of the root is "/".
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// isSystem reports whether a znode can never be deleted.
func isSystem(path string) bool {
	return path == "/" || path == "/zookeeper" || path == quotaRoot || path == configPath
}

// validPath reports whether a znode may have the path.
func validPath(path string) bool {
	if path == "/" {
		return true
	}
	if !strings.HasPrefix(path, "/") {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r < 0x20 || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	})
}

// sequence is the end of a sequential name, by the number of creates before.
func sequence(creates int32) string { return fmt.Sprintf("%010d", creates) }

// identity is what a client becomes that gives a user's name and password.
func identity(user, password string) zk.ID {
	hash := sha1.Sum([]byte(user + ":" + password))
	return zk.ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// storedACL returns the ACL that a znode gets by a request: duplicates dropped,
// auth replaced by the identities that the client has given.
func storedACL(acl []zk.ACL, ids []zk.ID) ([]zk.ACL, zk.Code) {
	var stored, seen []zk.ACL
	for _, a := range acl {
		if slices.Contains(seen, a) {
			continue
		}
		seen = append(seen, a)
		switch a.ID.Scheme {
		case "world":
			if a.ID.ID != "anyone" {
				return nil, zk.ErrInvalidACL
			}
		case "digest":
			if user, hash, ok := strings.Cut(a.ID.ID, ":"); !ok || user == "" || hash == "" {
				return nil, zk.ErrInvalidACL
			}
		case "ip":
			if _, err := netip.ParseAddr(a.ID.ID); err != nil {
				return nil, zk.ErrInvalidACL
			}
		case "auth":
			had := len(stored)
			for _, id := range ids {
				if id.Scheme == "digest" {
					stored = append(stored, zk.ACL{Perms: a.Perms, ID: id})
				}
			}
			if len(stored) == had {
				return nil, zk.ErrInvalidACL
			}
			continue
		default:
			return nil, zk.ErrInvalidACL
		}
		stored = append(stored, a)
	}
	if len(stored) == 0 {
		return nil, zk.ErrInvalidACL
	}
	return stored, zk.OK
}

// allows reports whether an ACL gives one of the permissions to one of the
// identities.
func allows(acl []zk.ACL, perm zk.Perms, ids []zk.ID) bool {
	return len(acl) == 0 || slices.ContainsFunc(acl, func(a zk.ACL) bool {
		return a.Perms&perm != 0 && (a.ID == zk.AnyoneUnsafe || slices.Contains(ids, a.ID))
	}) || slices.ContainsFunc(ids, func(id zk.ID) bool { return id.Scheme == "super" })
}

// shownACL is what getACL answers: the hashes only to clients that may change them.
func shownACL(acl []zk.ACL, ids []zk.ID) []zk.ACL {
	if len(acl) == 0 {
		return zk.OpenACLUnsafe()
	}
	shown := slices.Clone(acl)
	if allows(acl, zk.PermAdmin, ids) {
		return shown
	}
	for i := range shown {
		if user, _, ok := strings.Cut(shown[i].ID.ID, ":"); ok && shown[i].ID.Scheme == "digest" {
			shown[i].ID.ID = user + ":x"
		}
	}
	return shown
}

// quota is what a quota allows, or what is used of it; -1 is no limit.
type quota struct{ count, bytes int64 }

// The znodes of the quota of /d are /zookeeper/quota/d/ and one of these.
const (
	limitsName = "/zookeeper_limits"
	statsName  = "/zookeeper_stats"
)

// text is what the znode of the use shows.
func (q quota) text() string { return fmt.Sprintf("count=%d,bytes=%d", q.count, q.bytes) }

// limitsText is the content of the limits' znode that sets hard limits.
func (q quota) limitsText() string {
	return fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d", q.bytes, q.count)
}

// hardLimits reads limitsText.
func hardLimits(text string) quota {
	q := quota{-1, -1}
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case key == "countHardLimit":
			q.count = n
		case key == "byteHardLimit":
			q.bytes = n
		}
	}
	return q
}

// statsOf returns the path whose use a znode shows.
func statsOf(path string) (string, bool) {
	if !strings.HasPrefix(path, quotaRoot+"/") {
		return "", false
	}
	return strings.CutSuffix(path[len(quotaRoot):], statsName)
}

// usage counts the znode at path and all below it, at z.
func (m *model) usage(path string, z zk.Zxid) quota {
	var used quota
	m.list(z, func(p string, v *version) bool {
		if p == path || strings.HasPrefix(p, path+"/") {
			used.count++
			used.bytes += int64(len(v.data))
		}
		return false
	})
	return used
}

// overQuota reports whether a change is refused because it passes a hard limit of
// the nearest quota. The leader judges by the state that it has applied, so the
// change may be refused if it passes the limit in one of the states that this can
// be, and must be if it does so in all of them.
func (m *model) overQuota(path string, bytes, count int64) bool {
	may, must := false, true
	for _, z := range m.states() {
		if m.over(path, bytes, count, z) {
			may = true
		} else {
			must = false
		}
	}
	return must || may && m.now.refused == zk.ErrQuotaExceeded
}

// states are the zxids of the states that the leader may have applied.
func (m *model) states() []zk.Zxid {
	if m.now.quotas == 0 {
		return []zk.Zxid{0}
	}
	var zs []zk.Zxid
	for z := m.now.quotas; z < m.now.z; z++ {
		if z.Epoch() != m.now.z.Epoch() { // the history that the epoch began with
			zs = append(zs, z)
			z = zk.MakeZxid(m.now.z.Epoch(), 0) - 1
			continue
		}
		zs = append(zs, z)
	}
	return zs
}

// over reports whether a change passes a limit in the state at z.
func (m *model) over(path string, bytes, count int64, z zk.Zxid) bool {
	for p := path; p != "/"; p = parentOf(p) {
		limits := m.at(quotaRoot+p+limitsName, z)
		if !limits.exists {
			continue
		}
		stats := m.at(quotaRoot+p+statsName, z)
		if !stats.exists {
			return false
		}
		limit, used := hardLimits(limits.data), m.usage(p, z)
		return count != 0 && limit.count > -1 && used.count+count > limit.count ||
			bytes != 0 && limit.bytes > -1 && used.bytes+bytes > limit.bytes
	}
	return false
}
