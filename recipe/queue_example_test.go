package recipe_test

import (
	"context"
	"fmt"

	"github.com/pinfold-zk/pinfold/recipe"
)

// Take removes an item, then returns it. Lease leaves it in the queue until its
// holder says that it is done with.
func ExampleQueue() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	producer := recipe.NewQueue(s.Client(t), "/work", recipe.QueueOptions{MaxSize: 100})
	for _, item := range []string{"first", "second", "third"} {
		if err := producer.Put(ctx, []byte(item)); err != nil {
			fmt.Println(err)
		}
	}

	worker := recipe.NewQueue(s.Client(t), "/work", recipe.QueueOptions{})
	item, err := worker.Take(ctx)
	fmt.Printf("take: %s, %v\n", item, err)

	lease, err := worker.Lease(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	other := recipe.NewQueue(s.Client(t), "/work", recipe.QueueOptions{})
	item, _, err = other.TryTake(ctx)
	fmt.Printf("another takes: %s, %v\n", item, err)
	fmt.Printf("lease: %s, ack: %v\n", lease.Data(), lease.Ack(ctx))

	_, ok, err := worker.TryTake(ctx)
	fmt.Println("more:", ok, err)
	// Output:
	// take: first, <nil>
	// another takes: third, <nil>
	// lease: second, ack: <nil>
	// more: false <nil>
}

// A lower number is taken first, and among equals what was put first.
func ExamplePriorityQueue() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	q := recipe.NewPriorityQueue(s.Client(t), "/jobs", recipe.QueueOptions{})
	for _, job := range []struct {
		priority int
		what     string
	}{{10, "report"}, {5, "mail"}, {10, "clean up"}, {0, "page the operator"}} {
		if err := q.Put(ctx, job.priority, []byte(job.what)); err != nil {
			fmt.Println(err)
		}
	}
	for range 4 {
		item, err := q.Take(ctx)
		fmt.Println(string(item), err)
	}
	// Output:
	// page the operator <nil>
	// mail <nil>
	// report <nil>
	// clean up <nil>
}
