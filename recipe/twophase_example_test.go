package recipe_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/pinfold-zk/pinfold/recipe"
)

// Two sites decide among themselves; the coordinator only names them.
func ExamplePeerCommit() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	coordinator := recipe.NewPeerCommit(s.Client(t), "/tx/17", recipe.TwoPhaseOptions{})
	if err := coordinator.Begin(ctx, []byte("move 5 from a to b"), []string{"a", "b"}); err != nil {
		fmt.Println(err)
		return
	}
	var group sync.WaitGroup
	for _, site := range []string{"a", "b"} {
		tx := recipe.NewPeerCommit(s.Client(t), "/tx/17", recipe.TwoPhaseOptions{})
		group.Go(func() {
			if err := tx.Vote(ctx, site, true); err != nil {
				fmt.Println(err)
			}
			if outcome, err := tx.Outcome(ctx); err != nil || outcome != recipe.Committed {
				fmt.Println(outcome, err)
			}
		})
	}
	group.Wait()
	outcome, err := coordinator.Outcome(ctx)
	fmt.Println(outcome, err)
	// Output:
	// commit <nil>
}

// A coordinator decides; one of the sites cannot do it.
func ExampleCoordinatedCommit() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	coordinator := recipe.NewCoordinatedCommit(s.Client(t), "/tx/18", recipe.TwoPhaseOptions{})
	if err := coordinator.Begin(ctx, []byte("move 5 from a to b"), []string{"a", "b"}); err != nil {
		fmt.Println(err)
		return
	}
	var group sync.WaitGroup
	for _, site := range []string{"a", "b"} {
		tx := recipe.NewCoordinatedCommit(s.Client(t), "/tx/18", recipe.TwoPhaseOptions{})
		group.Go(func() {
			if err := tx.Join(ctx, site); err != nil {
				fmt.Println(err)
			}
			can := site != "b"
			if err := tx.Vote(ctx, site, can); err != nil {
				fmt.Println(err)
			}
			if outcome, err := tx.Outcome(ctx); err != nil || outcome != recipe.Aborted {
				fmt.Println(outcome, err)
			}
		})
	}
	outcome, err := coordinator.Decide(ctx)
	group.Wait()
	fmt.Println(outcome, err)
	// Output:
	// abort <nil>
}
