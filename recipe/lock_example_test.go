package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/recipe"
)

// A lock, and what its holder does to another system: it sends the fencing token
// with every write, and stops when the lock is lost.
func ExampleLock() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := recipe.NewLock(s.Client(t), "/locks/report", recipe.HolderData([]byte("host-1")))
	held, err := lock.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	select {
	case <-held.Lost():
		fmt.Println("stop:", held.Err())
	default:
		fmt.Println("write with token", held.Token() > 0)
	}

	other := recipe.NewLock(s.Client(t), "/locks/report")
	_, err = other.TryLock(ctx)
	fmt.Println("free:", !errors.Is(err, recipe.ErrHeld))
	all, err := other.Contenders(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("held by %s\n", all[0].Data)

	fmt.Println("unlock:", held.Unlock(ctx))
	// Output:
	// write with token true
	// free: false
	// held by host-1
	// unlock: <nil>
}

// A lock file: whoever creates it has the lock.
func ExampleSimpleLock() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	file := recipe.NewSimpleLock(s.Client(t), "/locks/file", recipe.HolderData([]byte("host-1")))
	held, err := file.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	holder, is, err := file.Holder(ctx)
	fmt.Printf("%s %v %v\n", holder.Data, is, err)
	if err := held.Unlock(ctx); err != nil {
		fmt.Println(err)
	}
	_, is, err = file.Holder(ctx)
	fmt.Println(is, err)
	// Output:
	// host-1 true <nil>
	// false <nil>
}

// Two read together; who writes waits for both.
func ExampleRWLock() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	lock := recipe.NewRWLock(s.Client(t), "/locks/catalogue")
	first, err1 := lock.RLock(ctx)
	second, err2 := lock.RLock(ctx)
	fmt.Println(err1, err2)
	_, err := lock.TryLock(ctx)
	fmt.Println(errors.Is(err, recipe.ErrHeld))
	fmt.Println(first.Unlock(ctx), second.Unlock(ctx))
	writer, err := lock.TryLock(ctx)
	fmt.Println(err)
	fmt.Println(writer.Unlock(ctx))
	// Output:
	// <nil> <nil>
	// true
	// <nil> <nil>
	// <nil>
	// <nil>
}

// A long reader lets a writer through when it is asked.
func ExampleRevocableLock() {
	s, t, stop := exampleServer()
	defer stop()
	ctx := context.Background()

	reading, err := recipe.NewRevocableLock(s.Client(t), "/locks/archive").RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		<-reading.Revoked() // stop reading
		reading.Unlock(ctx)
	}()

	writer := recipe.NewRevocableLock(s.Client(t), "/locks/archive")
	all, err := writer.Contenders(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(writer.RevokeWithin(ctx, all[0], time.Minute))
	held, err := writer.Lock(ctx)
	fmt.Println(err)
	fmt.Println(held.Unlock(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
}
