package recipe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/recipe"
)

// Two servers stand for election, and a client follows who leads.
func ExampleElection() {
	s, t, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	one := recipe.NewElection(s.Client(t), "/service/leader", recipe.HolderData([]byte("10.0.0.1:80")))
	two := recipe.NewElection(s.Client(t), "/service/leader", recipe.HolderData([]byte("10.0.0.2:80")))
	first, err := one.Campaign(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	select {
	case <-first.Lost():
		fmt.Println("stop leading:", first.Err())
	default:
		fmt.Println("lead in an epoch:", first.Epoch() > 0)
	}

	leaders := make(chan recipe.Leader)
	observed := make(chan error)
	observer := recipe.NewElection(s.Client(t), "/service/leader")
	go func() {
		observed <- observer.Observe(ctx, func(l recipe.Leader) {
			select {
			case leaders <- l:
			case <-ctx.Done():
			}
		})
	}()
	fmt.Printf("leader: %s\n", (<-leaders).Data)

	won := make(chan *recipe.Leadership)
	go func() {
		l, err := two.Campaign(ctx)
		if err != nil {
			fmt.Println(err)
		}
		won <- l
	}()
	for { // until the second is a candidate too
		if list, err := observer.Candidates(ctx); err != nil || len(list) == 2 {
			break
		}
	}
	fmt.Println("resign:", first.Resign(ctx))
	second := <-won
	fmt.Println("a larger epoch:", second.Epoch() > first.Epoch())
	fmt.Printf("leader: %s\n", (<-leaders).Data)
	cancel()
	fmt.Println("observer:", errors.Is(<-observed, context.Canceled))
	// Output:
	// lead in an epoch: true
	// leader: 10.0.0.1:80
	// resign: <nil>
	// a larger epoch: true
	// leader: 10.0.0.2:80
	// observer: true
}
