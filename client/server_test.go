package client

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

var benchServer = flag.String("server", "", "a server at host:port to measure operations against")

// BenchmarkServer measures asynchronous operations of 1 KiB against a real server,
// as "pinfold bench mix" does with as many connections and outstanding requests.
func BenchmarkServer(b *testing.B) {
	if *benchServer == "" {
		b.Skip("no -server")
	}
	const connections, outstanding = 8, 100
	data := make([]byte, 1024)
	var clients []*Client
	for i := range connections {
		c, err := Dial(b.Context(), *benchServer, MaxOutstanding(outstanding))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		if _, err := c.Create(b.Context(), fmt.Sprintf("/speed-%d", i), data, zk.Ephemeral, nil); err != nil {
			b.Fatal(err)
		}
		clients = append(clients, c)
	}
	run := func(b *testing.B, start func(c *Client, path string, done func(error))) {
		var left sync.WaitGroup
		left.Add(b.N)
		for i, c := range clients {
			path, n := fmt.Sprintf("/speed-%d", i), b.N/connections
			if i == 0 {
				n += b.N % connections
			}
			go func() {
				for range n {
					start(c, path, func(err error) {
						if err != nil {
							b.Error(err)
						}
						left.Done()
					})
				}
			}()
		}
		left.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
	b.Run("get", func(b *testing.B) {
		run(b, func(c *Client, path string, done func(error)) {
			c.GetAsync(b.Context(), path, func(_ []byte, _ zk.Stat, err error) { done(err) })
		})
	})
	b.Run("set", func(b *testing.B) {
		run(b, func(c *Client, path string, done func(error)) {
			c.SetAsync(b.Context(), path, data, -1, func(_ zk.Stat, err error) { done(err) })
		})
	})
}
