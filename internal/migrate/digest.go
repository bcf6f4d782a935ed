package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
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
	Errors map[string]string `json:"errors,omitempty"` // of members that have not answered, by id
}

// compareDigests compares the digests that members had at the same zxids.
func compareDigests(ctx context.Context, c *Config, adminPort func(id int64) int) Digests {
	d := Digests{Asked: []int64{}, Differ: []string{}, Errors: map[string]string{}}
	type key struct {
		zxid    zk.Zxid
		version int
	}
	type first struct{ digest, id int64 }
	known, common := map[key]first{}, map[key]bool{}
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
		d.Asked = append(d.Asked, m.ID)
		for _, one := range l.Digests {
			k := key{one.Zxid, one.Version}
			other, ok := known[k]
			if !ok {
				known[k] = first{one.Digest, m.ID}
				continue
			}
			common[k] = true
			if other.digest != one.Digest {
				d.Differ = append(d.Differ, fmt.Sprintf("zxid %v: server %d has %d, server %d has %d", one.Zxid, other.id, other.digest, m.ID, one.Digest))
			}
		}
	}
	d.Common = len(common)
	return d
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
