// Programs of Go: `programs NAME` runs one against the server at REDIS_URL.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/redis/go-redis/v9"
)

var programs = map[string]func(){}

func main() {
	run := programs[os.Args[1]]
	if run == nil {
		fmt.Fprintf(os.Stderr, "there is no program %s\n", os.Args[1])
		os.Exit(2)
	}
	run()
}

var ctx = context.Background()

func address() string { return "127.0.0.1:" + os.Getenv("REDIS_PORT") }

func connect() *redis.Client { return redis.NewClient(&redis.Options{Addr: address()}) }

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// eight runs `client` eight times at once and waits.
func eight(client func()) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(client)
	}
	all.Wait()
}
