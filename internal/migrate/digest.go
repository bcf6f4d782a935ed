package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/zk"
)

// digestList is the answer of an administration server to hash: the digests of the tree at
// some zxids.
type digestList struct {
	Digests []struct {
		Zxid    zk.Zxid `json:"zxid"`
		Digest  int64   `json:"digest"`
		Version int     `json:"digest_version"`
	} `json:"digests"`
}

// Digests is the comparison of the digests of the members' trees.
type Digests struct {
	Asked  []int64           `json:"members"`  // that have answered
	Common int               `json:"compared"` // zxids at which two members or more had a digest
	Differ []string          `json:"differences"`
	Passed []string          `json:"differences_that_passed"` // before the first digest on which the two members agree
	Errors map[string]string `json:"errors,omitempty"`        // of members that have not answered, by id
}

// A digestKey is what two digests must have in common to be compared.
type digestKey struct {
	zxid    zk.Zxid
	version int
}

// compareDigests compares the digests that members had at the same zxids.
func compareDigests(ctx context.Context, c *Config, adminPort func(id int64) int) Digests {
	d := Digests{Asked: []int64{}, Differ: []string{}, Passed: []string{}, Errors: map[string]string{}}
	lists, common := map[int64]map[digestKey]int64{}, map[digestKey]bool{}
	for _, m := range c.Members {
		port := adminPort(m.ID)
		if port == 0 {
			continue
		}
		l, err := askDigests(ctx, m, port)
		if err != nil {
			d.Errors[strconv.FormatInt(m.ID, 10)] = err.Error()
			continue
		}
		list := map[digestKey]int64{}
		for _, one := range l.Digests {
			list[digestKey{one.Zxid, one.Version}] = one.Digest
		}
		for _, id := range d.Asked {
			for _, k := range d.pair(id, lists[id], m.ID, list) {
				common[k] = true
			}
		}
		d.Asked, lists[m.ID] = append(d.Asked, m.ID), list
	}
	d.Common = len(common)
	return d
}

// pair compares the digests of two members, and returns what both have.
//
// Differences before the first digest that is equal have passed, and are no differences of the
// trees: a server of Apache's that takes the leader's tree while clients write applies to it
// transactions that the tree has already in part, and records digests meanwhile, since the tree
// comes without the digest that says when it is whole (ZKDatabase.deserializeSnapshot). The
// digest of equal trees is equal again when the server has caught up; that of trees that
// differ stays different until the znodes in question are gone.
func (d *Digests) pair(a int64, as map[digestKey]int64, b int64, bs map[digestKey]int64) []digestKey {
	var both []digestKey
	for k := range as {
		if _, ok := bs[k]; ok {
			both = append(both, k)
		}
	}
	slices.SortFunc(both, func(x, y digestKey) int {
		return cmp.Or(cmp.Compare(x.zxid, y.zxid), cmp.Compare(x.version, y.version))
	})
	agreed := slices.IndexFunc(both, func(k digestKey) bool { return as[k] == bs[k] })
	for i, k := range both {
		if as[k] == bs[k] {
			continue
		}
		text := fmt.Sprintf("zxid %v: server %d has %d, server %d has %d", k.zxid, a, as[k], b, bs[k])
		if i < agreed {
			d.Passed = append(d.Passed, text)
		} else {
			d.Differ = append(d.Differ, text)
		}
	}
	return both
}

// maxDigests bounds the answer of an administration server, in bytes.
const maxDigests = 1 << 20

// askDigests asks a member's administration server for its digests.
func askDigests(ctx context.Context, m Member, port int) (l digestList, err error) {
	ctx, cancel := context.WithTimeout(ctx, fourletter.AnswerWithin)
	defer cancel()
	url := "http://" + net.JoinHostPort(m.Host, strconv.Itoa(port)) + "/commands/hash"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return l, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return l, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return l, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return l, json.NewDecoder(io.LimitReader(answer.Body, maxDigests)).Decode(&l)
}
