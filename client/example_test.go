package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

func Example() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181,127.0.0.1:2182/app", client.SessionTimeout(15*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	path, err := c.Create(ctx, "/greeting", []byte("hello"), zk.Persistent, nil)
	if err != nil {
		log.Fatal(err)
	}
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, version %d\n", data, stat.Version)
}

func ExampleClient_States() {
	c, err := client.Dial(context.Background(), "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	states, cancel := c.States()
	defer cancel()
	for s := range states {
		switch s {
		case client.Connected:
			fmt.Println("at", c.Server())
		case client.Suspended:
			fmt.Println("hold what needs the session: it may be over")
		case client.Expired:
			fmt.Println("ephemeral znodes are gone")
		}
	}
}

func ExampleClient_SetAsync() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.MaxOutstanding(5000))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	done := make(chan error, 1)
	const n = 10_000
	for i := range n {
		c.SetAsync(ctx, fmt.Sprintf("/jobs/%05d", i), []byte("ready"), -1, func(_ zk.Stat, err error) {
			if err != nil {
				log.Print(err)
			}
			if i == n-1 { // callbacks run in the order of the requests
				done <- err
			}
		})
	}
	<-done
}

func ExampleError() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	stat, err := c.Set(ctx, "/counter", []byte("2"), 1)
	var failed *client.Error
	switch {
	case err == nil:
		fmt.Println("version", stat.Version)
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		fmt.Println("another client was faster")
	case errors.Is(err, zk.ErrSessionExpired):
		fmt.Println("begin again, with a new Client")
	case errors.As(err, &failed) && failed.Maybe:
		fmt.Println("read the znode: the write may have been carried out")
	default:
		fmt.Println("it was not carried out")
	}
}

func ExampleClient_GetW() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for {
		data, _, w, err := c.GetW(ctx, "/config")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("configuration: %s\n", data)
		if e := <-w.Events(); e.Type == zk.EventNone {
			break // the session is over
		}
	}
}

func ExampleClient_AddWatch() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	w, err := c.AddWatch(ctx, "/services", zk.AddWatchPersistentRecursive)
	if err != nil {
		log.Fatal(err)
	}
	for e := range w.Events() {
		switch {
		case e.Type != zk.EventNone:
			fmt.Println(e.Type, e.Path)
		case e.State == zk.StateSyncConnected:
			fmt.Println("events may have been missed: read again")
		}
	}
}

func ExampleTxn() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	t := c.Txn()
	t.Check("/leader", 7)
	made := t.Create("/jobs/job-", []byte("x"), zk.PersistentSequential, nil)
	t.Delete("/inbox/17", -1)
	var which *client.TxnError
	switch err := t.Commit(ctx); {
	case err == nil:
		fmt.Println("made", made.Path)
	case errors.As(err, &which):
		fmt.Printf("operation %d failed: %v\n", which.Index, which.Err)
	default:
		log.Fatal(err)
	}
}

func ExampleReadTxn() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	t := c.ReadTxn()
	limit, names := t.Get("/config/limit"), t.Children("/members")
	if err := t.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	if limit.Err == nil && names.Err == nil {
		fmt.Printf("%s for %d members\n", limit.Data, len(names.Names))
	}
}

func ExampleSrvr() {
	ctx := context.Background()
	s, err := client.Srvr(ctx, "zk1.example:2181")
	switch {
	case errors.Is(err, client.ErrNotServing):
		fmt.Println("alive, without a quorum")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(s.Mode, s.Zxid)
	}
	metrics, err := client.FourLetter(ctx, "zk1.example:2181", "mntr")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(metrics)
}

func ExampleClient_Create() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "zk1.example:2181")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	acl := append(zk.DigestACL(zk.PermAll, "bob", "secret"), zk.WorldACL(zk.PermRead)...)
	if _, err := c.Create(ctx, "/bob", nil, zk.Persistent, acl); err != nil {
		log.Fatal(err)
	}
}

func ExampleTLS() {
	ctx := context.Background()
	roots := x509.NewCertPool() // with the authority of the servers' certificates
	c, err := client.Dial(ctx, "zk1.example:2281",
		client.TLS(&tls.Config{RootCAs: roots}),
		client.Auth("digest", []byte("bob:secret")))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

func ExampleDigestMD5() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "zk1.example:2181", client.SASL(client.DigestMD5("bob", "secret")))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

func ExampleKerberos() {
	ctx := context.Background()
	login, err := client.Kerberos(client.KerberosOptions{Principal: "bob@EXAMPLE.COM", Keytab: "/etc/bob.keytab"})
	if err != nil {
		log.Fatal(err)
	}
	kc, err := client.Dial(ctx, "zk1.example:2181", client.SASL(login))
	if err != nil {
		log.Fatal(err)
	}
	defer kc.Close()
}
