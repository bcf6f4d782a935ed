package recipe_test

import (
	"context"
	"fmt"

	"github.com/pinfold-zk/pinfold/recipe"
)

func ExampleConfig() {
	s, t, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	reader := recipe.NewConfig(s.Client(t), "/app/config", recipe.ConfigOptions{})
	writer := recipe.NewConfig(s.Client(t), "/app/config", recipe.ConfigOptions{})

	values := make(chan string)
	done := make(chan error)
	go func() {
		done <- reader.Watch(ctx, func(v recipe.Value) { values <- string(v.Data) })
	}()
	fmt.Printf("at first: %q\n", <-values)
	if _, err := writer.Set(ctx, []byte("verbose=true")); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("then: %q\n", <-values)
	cancel()
	fmt.Println(<-done)
	// Output:
	// at first: ""
	// then: "verbose=true"
	// context canceled
}

func ExampleReadyConfig() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	leader := recipe.NewReadyConfig(s.Client(t), "/app/settings", recipe.ReadyOptions{})
	worker := recipe.NewReadyConfig(s.Client(t), "/app/settings", recipe.ReadyOptions{})

	err := leader.Set(ctx, map[string][]byte{"shard-1": []byte("host-a"), "shard-2": []byte("host-b")}, 0)
	if err != nil {
		fmt.Println(err)
	}
	v, err := worker.Get(ctx) // both, or neither
	fmt.Printf("%s %s %v\n", v.Values["shard-1"], v.Values["shard-2"], err)
	// Output: host-a host-b <nil>
}

func ExampleRendezvous() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	const path = "/run/17" // the starter gives it to master and workers
	starter := recipe.NewRendezvous(s.Client(t), path, recipe.RendezvousOptions{Ephemeral: true})
	master := recipe.NewRendezvous(s.Client(t), path, recipe.RendezvousOptions{})
	worker := recipe.NewRendezvous(s.Client(t), path, recipe.RendezvousOptions{})

	if err := starter.Open(ctx); err != nil {
		fmt.Println(err)
	}
	met := make(chan string)
	go func() {
		address, err := worker.Wait(ctx)
		met <- fmt.Sprintf("%s %v", address, err)
	}()
	if err := master.Fill(ctx, []byte("10.0.0.7:4000")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(<-met)
	// Output: 10.0.0.7:4000 <nil>
}

func ExampleNames() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	names := recipe.NewNames(s.Client(t), "/names", recipe.NamesOptions{})

	if err := names.Bind(ctx, "db/primary", []byte("10.0.0.1:5432")); err != nil {
		fmt.Println(err)
	}
	fmt.Println(names.Bind(ctx, "db/primary", []byte("10.0.0.2:5432")))
	v, err := names.Resolve(ctx, "db/primary")
	fmt.Println(string(v.Data), err)
	// Output:
	// create /names/db/primary: zookeeper: node exists
	// 10.0.0.1:5432 <nil>
}
