// Package gozk measures github.com/go-zookeeper/zk as client's BenchmarkServer
// measures our client. It is a module of its own, so that nothing else depends on
// that library.
//
//	go -C test/gozk test -run '^$' -bench . -benchtime 2s -server 127.0.0.1:2181
package gozk

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

var server = flag.String("server", "", "a server at host:port to measure operations against")

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// BenchmarkServer measures operations of 1 KiB: a hundred goroutines on each of
// eight connections, as the library has no asynchronous ones.
func BenchmarkServer(b *testing.B) {
	if *server == "" {
		b.Skip("no -server")
	}
	const connections, outstanding = 8, 100
	data := make([]byte, 1024)
	var conns []*zk.Conn
	for i := range connections {
		c, _, err := zk.Connect([]string{*server}, 10*time.Second, zk.WithLogger(quiet{}))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		if _, err := c.Create(fmt.Sprintf("/gozk-%d", i), data, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
	}
	run := func(b *testing.B, op func(c *zk.Conn, path string) error) {
		b.ReportAllocs()
		var wg sync.WaitGroup
		for i, c := range conns {
			path := fmt.Sprintf("/gozk-%d", i)
			for range outstanding {
				wg.Go(func() {
					for range b.N/connections/outstanding + 1 {
						if err := op(c, path); err != nil {
							b.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
	b.Run("get", func(b *testing.B) {
		run(b, func(c *zk.Conn, path string) error {
			_, _, err := c.Get(path)
			return err
		})
	})
	b.Run("set", func(b *testing.B) {
		run(b, func(c *zk.Conn, path string) error {
			_, err := c.Set(path, data, -1)
			return err
		})
	})
}
