package znode

import "strings"

// TopName returns the name of path's top-level ancestor, "" for the root. Apache
// ZooKeeper's metrics call it a namespace.
func TopName(path string) string {
	if len(path) < 2 || path[0] != '/' {
		return ""
	}
	name := path[1:]
	if i := strings.IndexByte(name, '/'); i >= 0 {
		name = name[:i]
	}
	return name
}

// QuotaPaths returns the paths of the quotas; nil if there are more than most.
func (t *Tree) QuotaPaths(most int) (paths []string) {
	if len(t.quotas) > most {
		return nil
	}
	for path := range t.quotas {
		paths = append(paths, path)
	}
	return paths
}

// Limits returns the limits that count: the hard one, unless it is not set.
func (q Quota) Limits() (count, bytes int64) {
	count, bytes = q.CountHard, q.BytesHard
	if count < 0 {
		count = q.Count
	}
	if bytes < 0 {
		bytes = q.Bytes
	}
	return count, bytes
}
