package client_test

import (
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// BenchmarkCacheLoad reads 10,100 znodes of 100 bytes; the server is in the same
// process.
func BenchmarkCacheLoad(b *testing.B) {
	s := inproc.Start(b)
	c := s.Client(b)
	data := make([]byte, 100)
	for i := range 100 {
		txn := c.Txn()
		txn.Create(fmt.Sprint("/", i), data, zk.Persistent, nil)
		for j := range 100 {
			txn.Create(fmt.Sprint("/", i, "/", j), data, zk.Persistent, nil)
		}
		if err := txn.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	for name, opts := range map[string][]client.CacheOption{"recursive": nil, "one-shot": {client.CacheOneShot()}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := client.NewCache(b.Context(), c, "/", opts...)
				if err != nil {
					b.Fatal(err)
				}
				k.Close()
			}
		})
	}
}
