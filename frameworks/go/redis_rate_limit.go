// go-redis/redis_rate: A leaky bucket (GCRA), contended by eight clients.
package main

import (
	"fmt"
	"sync/atomic"

	"github.com/go-redis/redis_rate/v10"
)

func init() { programs["redis_rate_limit"] = redisRateLimit }

func redisRateLimit() {
	client := connect()
	limiter := redis_rate.NewLimiter(client)
	var allowed, refused atomic.Int64
	eight(func() {
		for range 10 {
			result := must(limiter.Allow(ctx, "all", redis_rate.PerHour(20)))
			allowed.Add(int64(result.Allowed))
			refused.Add(int64(1 - result.Allowed))
		}
	})
	fmt.Println(allowed.Load(), refused.Load())
	three := must(limiter.AllowN(ctx, "n", redis_rate.PerHour(10), 3))
	most := must(limiter.AllowAtMost(ctx, "n", redis_rate.PerHour(10), 20))
	fmt.Println(three.Allowed, three.Remaining, most.Allowed, most.Remaining)
	check(limiter.Reset(ctx, "n"))
	fmt.Println(must(limiter.Allow(ctx, "n", redis_rate.PerHour(10))).Remaining)
}
