// bsm/redislock: Eight clients contend for a lock; refresh, time to live, a lock lost.
package main

import (
	"fmt"
	"time"

	"github.com/bsm/redislock"
)

func init() { programs["redislock_contended"] = redislockContended }

func redislockContended() {
	client := connect()
	eight(func() {
		own := connect()
		for range 25 {
			lock := must(redislock.Obtain(ctx, own, "guard", time.Minute, &redislock.Options{
				RetryStrategy: redislock.LinearBackoff(2 * time.Millisecond)}))
			count, _ := own.Get(ctx, "count").Int()
			check(own.Set(ctx, "count", count+1, 0).Err())
			check(lock.Release(ctx))
		}
	})
	fmt.Println("count", client.Get(ctx, "count").Val(), "lock left", client.Exists(ctx, "guard").Val())
	lock := must(redislock.Obtain(ctx, client, "own", time.Second, &redislock.Options{Metadata: "mine"}))
	check(lock.Refresh(ctx, time.Minute, nil))
	fmt.Println(must(lock.TTL(ctx)) > 50*time.Second, lock.Metadata())
	_, err := redislock.Obtain(ctx, client, "own", time.Second, nil)
	fmt.Println(err)
	client.Del(ctx, "own")
	fmt.Println(lock.Release(ctx))
}
