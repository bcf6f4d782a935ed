package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A process that follows its configuration: it reads from memory, and hears of
// changes.
func ExampleCache() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	cache, err := client.NewCache(ctx, c, "/config")
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()

	if data, _, ok := cache.Get("/config/limit"); ok {
		fmt.Printf("the limit is %s\n", data)
	}
	for change := range cache.Changes(ctx) {
		switch change.Type {
		case zk.EventNodeDeleted:
			fmt.Println("gone:", change.Path)
		default:
			fmt.Printf("%s is now %s\n", change.Path, change.Data)
		}
	}
	log.Print(cache.Err())
}
