// go-redsync/redsync: Eight clients contend for one mutex and count up what it guards.
package main

import (
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

func init() { programs["redsync_contended"] = redsyncContended }

func redsyncContended() {
	client := connect()
	eight(func() {
		own := connect()
		locks := redsync.New(goredis.NewPool(own))
		for range 25 {
			mutex := locks.NewMutex("guard", redsync.WithExpiry(time.Minute), redsync.WithTries(100000),
				redsync.WithRetryDelay(2*time.Millisecond))
			check(mutex.Lock())
			count, _ := own.Get(ctx, "count").Int()
			check(own.Set(ctx, "count", count+1, 0).Err())
			must(mutex.Unlock())
		}
	})
	fmt.Println("count", client.Get(ctx, "count").Val(), "lock left", client.Exists(ctx, "guard").Val())
	mutex := redsync.New(goredis.NewPool(client)).NewMutex("own", redsync.WithTries(1))
	check(mutex.Lock())
	fmt.Println(must(mutex.Extend()), mutex.TryLock() != nil)
	client.Set(ctx, "own", "thief", 0)
	_, err := mutex.Unlock()
	fmt.Println(err != nil, client.Get(ctx, "own").Val())
}
