package pinfold_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/pinfold-zk/pinfold"
	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server for a test: in memory, on a free port.
func Example() {
	ctx := context.Background()
	s, err := pinfold.New(pinfold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer s.Stop()

	c, err := client.Dial(ctx, s.Addr())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/greeting", []byte("hello"), zk.Persistent, nil); err != nil {
		log.Fatal(err)
	}
	data, _, err := c.Get(ctx, "/greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %s\n", data, s.Role())
	// Output: hello, standalone
}

// An ensemble for a test: a member is stopped, and the others go on.
func ExampleNewEnsemble() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	servers, err := pinfold.NewEnsemble(3, pinfold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range servers {
		defer s.Stop()
		if err := s.Start(ctx); err != nil {
			log.Fatal(err)
		}
	}
	c, err := client.Dial(ctx, pinfold.ConnectString(servers...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if err := servers[0].Stop(); err != nil {
		log.Fatal(err)
	}
	// The member that stops may have had the client's connection, and may have carried out
	// a create whose answer is lost.
	for {
		_, err = c.Create(ctx, "/survives", nil, zk.Persistent, nil)
		if errors.Is(err, zk.ErrNodeExists) {
			err = nil
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	fmt.Println(err)
	// Output: <nil>
}

// A server for production: with the zoo.cfg and the data directory that
// `pinfold server` would have, until the program is interrupted.
func ExampleServer_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	memory := pinfold.TuneMemory()
	defer memory.Close()
	s, err := pinfold.New(pinfold.Config{File: "/etc/zookeeper/conf/zoo.cfg", Memory: memory})
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Run(ctx); err != nil {
		log.Fatal("the server has failed: ", err)
	}
}
