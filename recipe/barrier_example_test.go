package recipe_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/pinfold-zk/pinfold/recipe"
)

// Workers wait until their master has prepared what they need.
func ExampleBarrier() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	master := recipe.NewBarrier(s.Client(t), "/app/prepared", recipe.BarrierOptions{})
	if err := master.Close(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var workers sync.WaitGroup
	for range 3 {
		b := recipe.NewBarrier(s.Client(t), "/app/prepared", recipe.BarrierOptions{})
		workers.Go(func() {
			if err := b.Wait(ctx); err != nil {
				fmt.Println(err)
			}
		})
	}
	fmt.Println("prepared, open:", master.Open(ctx))
	workers.Wait()
	fmt.Println("all have passed")
	// Output:
	// prepared, open: <nil>
	// all have passed
}

// Three processes begin and end a computation together.
func ExampleDoubleBarrier() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	var processes sync.WaitGroup
	var mu sync.Mutex
	began, ended := 0, 0
	for range 3 {
		b := recipe.NewDoubleBarrier(s.Client(t), "/app/step", 3, recipe.DoubleBarrierOptions{})
		processes.Go(func() {
			if err := b.Enter(ctx); err != nil {
				fmt.Println(err)
				return
			}
			mu.Lock()
			if began++; ended > 0 {
				fmt.Println("one has left before another came")
			}
			mu.Unlock()
			err := b.Leave(ctx) // the computation is over
			mu.Lock()
			defer mu.Unlock()
			if ended++; began < 3 || err != nil {
				fmt.Println("left early:", err)
			}
		})
	}
	processes.Wait()
	fmt.Println(began, ended)
	// Output:
	// 3 3
}
