package client

import (
	"bytes"
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
	run := func(b *testing.B, start func(i int, path string, left *sync.WaitGroup, n int)) {
		b.ReportAllocs()
		var left sync.WaitGroup
		left.Add(b.N)
		for i := range clients {
			n := b.N / connections
			if i == 0 {
				n += b.N % connections
			}
			go start(i, fmt.Sprintf("/speed-%d", i), &left, n)
		}
		left.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	}
	kept := make([][]byte, connections) // what each connection has got last, in get-keep
	b.Run("get", func(b *testing.B) {
		run(b, func(i int, path string, left *sync.WaitGroup, n int) {
			done := func(got []byte, _ zk.Stat, err error) {
				if err != nil || len(got) != len(data) {
					b.Errorf("%d bytes, %v", len(got), err)
				}
				left.Done()
			}
			for range n {
				clients[i].GetAsync(b.Context(), path, done)
			}
		})
	})
	b.Run("get-keep", func(b *testing.B) {
		run(b, func(i int, path string, left *sync.WaitGroup, n int) {
			done := func(got []byte, _ zk.Stat, err error) {
				if err != nil || len(got) != len(data) {
					b.Errorf("%d bytes, %v", len(got), err)
				}
				kept[i] = bytes.Clone(got)
				left.Done()
			}
			for range n {
				clients[i].GetAsync(b.Context(), path, done)
			}
		})
	})
	b.Run("set", func(b *testing.B) {
		run(b, func(i int, path string, left *sync.WaitGroup, n int) {
			done := func(_ zk.Stat, err error) {
				if err != nil {
					b.Error(err)
				}
				left.Done()
			}
			for range n {
				clients[i].SetAsync(b.Context(), path, data, -1, done)
			}
		})
	})
}
