// Command load is a client of an ensemble that is upgraded: sessions that own ephemerals and write,
// until the command is asked to end (SIGTERM). It fails if a session has expired, if an ephemeral is
// gone, or if a znode is older than the last write to it that was acknowledged.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// sessions is how many clients there are; each has one write under way, and another every pause.
const (
	sessions = 6
	pause    = 5 * time.Millisecond
	// patience is for a write or a read that must succeed while the ensemble has a quorum.
	patience = 60 * time.Second
)

func main() {
	servers := flag.String("servers", "", "connect string")
	dir := flag.String("tls", "tls", "directory of ca.pem, admin.crt and admin.key")
	flag.Parse()
	if err := run(*servers, *dir); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func run(servers, dir string) error {
	config, err := tlsConfig(dir)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	results := make(chan result)
	for i := range sessions {
		go func() { results <- work(ctx, servers, "/load-"+strconv.Itoa(i), config) }()
	}
	var all result
	for range sessions {
		r := <-results
		if r.err != nil {
			return r.err
		}
		all.writes += r.writes
		all.lost += r.lost
		all.gap = max(all.gap, r.gap)
	}
	fmt.Printf("%d sessions, none lost; %d writes acknowledged, %d with their connection lost; longest time without one %d ms\n",
		sessions, all.writes, all.lost, all.gap.Milliseconds())
	return nil
}

func tlsConfig(dir string) (*tls.Config, error) {
	ca, err := os.ReadFile(dir + "/ca.pem")
	if err != nil {
		return nil, err
	}
	pair, err := tls.LoadX509KeyPair(dir+"/admin.crt", dir+"/admin.key")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

// A result is what a session has seen.
type result struct {
	writes, lost int           // acknowledged; not known, as the connection was lost
	gap          time.Duration // longest time between two acknowledgements
	err          error
}

// work writes rising numbers to path until ctx ends, and then looks at what is there.
func work(ctx context.Context, servers, path string, config *tls.Config) (r result) {
	c, err := client.Dial(ctx, servers, client.TLS(config))
	if err != nil {
		return result{err: err}
	}
	defer c.Close()
	id := c.SessionID()
	if _, err := c.Create(ctx, path, []byte("0"), zk.Ephemeral, nil); err != nil {
		return result{err: fmt.Errorf("create %s: %w", path, err)}
	}
	acknowledged, last := 0, time.Now()
	for n := 1; ctx.Err() == nil; n++ {
		_, err := set(c, path, n)
		switch {
		case err == nil:
			acknowledged = n
			r.writes++
			r.gap = max(r.gap, time.Since(last))
			last = time.Now()
		case errors.Is(err, zk.ErrConnectionLoss):
			r.lost++
		default:
			return result{err: fmt.Errorf("set %s: %w", path, err)}
		}
		time.Sleep(pause)
	}
	r.err = verify(c, path, id, acknowledged)
	return r
}

func set(c *client.Client, path string, n int) (zk.Stat, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Set(ctx, path, []byte(strconv.Itoa(n)), -1)
}

// verify checks what a session leaves: its own id, its ephemeral, and the last write.
func verify(c *client.Client, path string, id zk.SessionID, acknowledged int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if c.SessionID() != id {
		return fmt.Errorf("session %v was lost", id)
	}
	if err := c.Sync(ctx, path); err != nil {
		return err
	}
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		return fmt.Errorf("get %s: %w", path, err)
	}
	n, err := strconv.Atoi(string(data))
	if err != nil || n < acknowledged || zk.SessionID(stat.EphemeralOwner) != id {
		return fmt.Errorf("%s has %q of session %v; %d of %v was acknowledged", path, data, stat.EphemeralOwner, acknowledged, id)
	}
	return nil
}
