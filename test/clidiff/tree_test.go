package clidiff

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// The server knows this secret of its superuser, who may read and delete all.
const (
	superSecret = "super:test"
	superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
)

// serversOwn are the nodes that a server has from the beginning.
var serversOwn = []string{"/zookeeper", "/zookeeper/quota", "/zookeeper/config"}

func superuser(ctx context.Context, t *testing.T, server string) *client.Client {
	t.Helper()
	c, err := client.Dial(ctx, server, client.Auth("digest", []byte(superSecret)))
	must(t, err)
	t.Cleanup(func() { c.Close() }) // the server may have ended
	return c
}

// dump is all that the servers keep of the nodes at path and below, a line each:
// without times, zxids and the numbers of sessions.
func dump(ctx context.Context, c *client.Client, path string) (lines []string, err error) {
	data, stat, err := c.Get(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return []string{path + " does not exist"}, nil
	}
	if err != nil {
		return nil, err
	}
	acl, _, err := c.GetACL(ctx, path)
	if err != nil {
		return nil, err
	}
	names, _, err := c.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	text := "null"
	if data != nil {
		text = fmt.Sprintf("%q", data)
	}
	versions := fmt.Sprintf("versions %d %d %d", stat.Version, stat.Cversion, stat.Aversion)
	if slices.Contains(serversOwn, path) {
		versions = "" // they count from the beginning
	}
	lines = append(lines, fmt.Sprintf("%s = %s, %s, owner %s, ACL %v", path, text, versions, owner(stat.EphemeralOwner), acl))
	slices.Sort(names)
	for _, name := range names {
		below, err := dump(ctx, c, strings.TrimSuffix(path, "/")+"/"+name)
		if err != nil {
			return nil, err
		}
		lines = append(lines, below...)
	}
	return lines, nil
}

// owner tells sessions, containers and times to live apart.
func owner(id int64) string {
	switch high := uint64(id) >> 56; {
	case id == 0:
		return "none"
	case high == 0x80 || high == 0xff:
		return fmt.Sprintf("%#x", uint64(id))
	}
	return "a session"
}

// wipe deletes all but what a server has from the beginning.
func wipe(ctx context.Context, c *client.Client, path string) error {
	names, _, err := c.Children(ctx, path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		below := strings.TrimSuffix(path, "/") + "/" + name
		if err := wipe(ctx, c, below); err != nil {
			return err
		}
		if slices.Contains(serversOwn, below) {
			continue
		}
		if err := c.Delete(ctx, below, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	return nil
}
