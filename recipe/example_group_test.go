package recipe_test

import (
	"context"
	"fmt"

	"github.com/pinfold-zk/pinfold/recipe"
)

func ExampleGroup() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	group := recipe.NewGroup(s.Client(t), "/app/workers", recipe.GroupOptions{})
	other := recipe.NewGroup(s.Client(t), "/app/workers", recipe.GroupOptions{})

	me, err := group.Join(ctx, "worker-1", []byte("10.0.0.1:80"))
	if err != nil {
		fmt.Println(err)
	}
	for members, err := range other.Watch(ctx) {
		if err != nil {
			fmt.Println(err)
		}
		for _, m := range members {
			fmt.Println("present:", m.Name, string(m.Data))
		}
		if len(members) == 0 {
			fmt.Println("no member is left")
			break
		}
		if err := me.Leave(ctx); err != nil { // or its session ends
			fmt.Println(err)
		}
	}
	<-me.Lost()
	// Output:
	// present: worker-1 10.0.0.1:80
	// no member is left
}

func ExampleCounter() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	a := recipe.NewCounter(s.Client(t), "/app/jobs", recipe.CounterOptions{})
	b := recipe.NewCounter(s.Client(t), "/app/jobs", recipe.CounterOptions{})

	if _, err := a.Add(ctx, 40); err != nil {
		fmt.Println(err)
	}
	v, err := b.Add(ctx, 2)
	fmt.Println(v.N, err)
	_, err = a.CompareAndSet(ctx, recipe.CounterValue{Version: 1}, 0)
	fmt.Println(err)
	// Output:
	// 42 <nil>
	// set /app/jobs: zookeeper: bad version
}

func ExampleSemaphore() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()
	const atATime = 1
	a := recipe.NewSemaphore(s.Client(t), "/app/downloads", atATime, recipe.SemaphoreOptions{})
	b := recipe.NewSemaphore(s.Client(t), "/app/downloads", atATime, recipe.SemaphoreOptions{})

	lease, err := a.Acquire(ctx, []byte("worker-1"))
	if err != nil {
		fmt.Println(err)
	}
	_, ok, err := b.TryAcquire(ctx, []byte("worker-2"))
	fmt.Println("while it is taken:", ok, err)
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err)
	}
	second, err := b.Acquire(ctx, []byte("worker-2"))
	fmt.Println("after that:", second != nil, err)
	// Output:
	// while it is taken: false <nil>
	// after that: true <nil>
}
